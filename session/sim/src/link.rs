//! A way between the two hosts, and what can befall it.

use std::time::Duration;

/// A way between the two hosts. Rates and delays are those of each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes per second.
    pub rate: u64,
    /// Propagation, one way.
    pub delay: Duration,
    /// Bytes that wait before the link before it drops.
    pub queue: u64,
    /// Packets of a million that are lost by chance.
    pub loss: u32,
    /// The longest payload of a packet that passes: longer packets are lost, and nobody is told.
    pub longest: usize,
}

impl Link {
    /// A link of `mbit` Mbit/s and `round_trip`, with a queue of one bandwidth-delay product, at
    /// least 64 KB.
    pub fn new(mbit: f64, round_trip: Duration) -> Self {
        let rate = (mbit * 125_000.0) as u64;
        let product = (rate as f64 * round_trip.as_secs_f64()) as u64;
        Self { rate, delay: round_trip / 2, queue: product.max(65_536), loss: 0, longest: usize::MAX }
    }
}

/// What befalls a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Everything on it is lost from now on, and nobody is told.
    Silent,
    /// The same, and the client's host sees its interface go down.
    Down,
    /// It carries again.
    Up,
    /// A new rate.
    Rate(u64),
    /// A translator on the way forgets the carriers that there are: nothing passes on them any more,
    /// and nobody is told. New ones pass.
    Rebind,
    /// The server's host closes the carriers on it: a FIN, which is not the session's end.
    Fin,
}
