//! Unreliable datagrams: the attributes of a queue pair for them, and their destinations.

use std::net::IpAddr;

/// The attributes of a queue pair for unreliable datagrams. It has no peer; each datagram names its
/// destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// The key that a sender has to know (Q_Key); a datagram with another key is dropped.
    pub key: u32,
    /// The number of the first packet sent (24 bits); any value will do.
    pub first_packet: u32,
    /// The maximum number of payload bytes of a datagram, a power of two from 256 to 4096.
    pub mtu: u32,
}

impl Datagrams {
    /// Creates attributes with this key, for datagrams of at most 1024 bytes.
    #[must_use]
    pub fn new(key: u32) -> Datagrams {
        Datagrams { key, first_packet: 0, mtu: 1024 }
    }
}

/// The destination or the source of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The host's address.
    pub host: IpAddr,
    /// The number of the host's queue pair.
    pub pair: u32,
}
