//! A path between the two hosts, and its faults.

use std::time::Duration;

use hawser_sim::frame::Frame;
use hawser_sim::link::{Pipe, Profile, Rule, Verdict, rules};
use hawser_sim::rng::Rng;
use hawser_time::Instant;

use crate::sim::segment::TcpSegment;

/// A path between the two hosts. Rates and delays apply to each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimLink {
    /// The rate in bytes per second.
    pub rate: u64,
    /// The one-way propagation delay.
    pub delay: Duration,
    /// The length of the queue before the link, in bytes; beyond it, packets are dropped.
    pub queue: u64,
    /// The number of packets in a million that are lost at random.
    pub loss: u32,
    /// The largest payload of a packet that passes, in bytes. Longer packets are lost without notice.
    pub max_payload: usize,
}

impl SimLink {
    /// Creates a link of `mbit` Mbit/s and `round_trip`, with a queue of one bandwidth-delay product, at
    /// least 64 KB.
    pub fn new(mbit: f64, round_trip: Duration) -> Self {
        let rate = (mbit * 125_000.0) as u64;
        let product = (rate as f64 * round_trip.as_secs_f64()) as u64;
        Self {
            rate,
            delay: round_trip / 2,
            queue: product.max(65_536),
            loss: 0,
            max_payload: usize::MAX,
        }
    }

    pub(crate) fn profile(&self) -> Profile {
        Profile {
            rate: Some(8 * self.rate),
            queue_bytes: self.queue,
            loss: f64::from(self.loss) / 1e6,
            delay: self.delay,
            ..Profile::default()
        }
    }

    /// Returns one direction of the link. At the times in `forgets`, a translator (NAT) on it forgets its
    /// connections.
    pub(crate) fn pipe(&self, forgets: &[Instant], seed: u64, label: &str) -> Pipe {
        let mut row: Vec<Box<dyn Rule>> = vec![Box::new(MaxPayload(self.max_payload))];
        if !forgets.is_empty() {
            row.push(Box::new(Translator {
                forgets: forgets.to_vec(),
                known: Vec::new(),
            }));
        }
        row.extend(rules(&self.profile()));
        Pipe::with_rules(row, seed, label)
    }
}

/// A fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The link loses all packets from now on, and neither host is notified.
    Silent,
    /// The same, but the client's host sees its interface go down.
    Down,
    /// The link works again.
    Up,
    /// The link has a new rate, in bytes per second.
    Rate(u64),
    /// A translator (NAT) on the path forgets its connections. Their packets no longer pass, and neither host
    /// is notified. New connections pass.
    Rebind,
    /// The server's host closes the carriers on the link with a FIN, which does not end the session.
    Fin,
}

/// Loses packets with more payload than this, in bytes.
struct MaxPayload(usize);

impl Rule for MaxPayload {
    fn name(&self) -> &'static str {
        "longest"
    }

    fn apply(&mut self, _now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        match TcpSegment::parse(frame) {
            Some(segment) if segment.payload > self.0 => Verdict::Drop,
            Some(_) | None => Verdict::Pass,
        }
    }
}

/// A translator that forgets, at each of these times, the connections whose SYN it saw before.
struct Translator {
    forgets: Vec<Instant>,
    /// The connections by their ports, with the times at which they began.
    known: Vec<([u16; 2], Instant)>,
}

impl Rule for Translator {
    fn name(&self) -> &'static str {
        "translator"
    }

    fn apply(&mut self, now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        let Some(segment) = TcpSegment::parse(frame) else {
            return Verdict::Pass;
        };
        if segment.syn {
            self.known.retain(|(ports, _)| *ports != segment.ports);
            self.known.push((segment.ports, now));
        }
        let began = self
            .known
            .iter()
            .find(|(ports, _)| *ports == segment.ports)
            .map(|(_, began)| *began);
        let forgotten = |began| self.forgets.iter().any(|at| (began..=now).contains(at));
        if began.is_some_and(forgotten) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }
}
