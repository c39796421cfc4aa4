//! Unreliable datagrams: what a queue pair for them has to know, and where they go.

use std::net::IpAddr;

/// What a queue pair for unreliable datagrams has to know: it has no peer, each datagram names its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// What a sender has to know (Q_Key); a datagram with another key is dropped.
    pub key: u32,
    /// The number of the first packet that is sent (24 bits): any.
    pub first_packet: u32,
    /// Payload bytes of a datagram at most, a power of two from 256 to 4096.
    pub mtu: u32,
}

impl Datagrams {
    /// Of at most 1024 bytes.
    #[must_use]
    pub fn new(key: u32) -> Datagrams {
        Datagrams { key, first_packet: 0, mtu: 1024 }
    }
}

/// Where a datagram goes, or came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The host's address.
    pub host: IpAddr,
    /// The number of its queue pair.
    pub pair: u32,
}
