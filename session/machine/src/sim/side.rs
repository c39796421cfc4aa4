//! The two ends of a session.

use std::net::{IpAddr, Ipv4Addr};

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The host that began the session.
    Client,
    /// The host that accepted the session.
    Server,
}

impl Side {
    pub(crate) fn address(self, link: usize) -> IpAddr {
        Ipv4Addr::new(10, link as u8, 0, 1 + self as u8).into()
    }
}
