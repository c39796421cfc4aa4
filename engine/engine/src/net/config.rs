//! The configuration of an interface, and the errors that it can have.

use std::net::IpAddr;

/// The addresses and routes of an [`super::Interface`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// The interface's own addresses, each with the prefix length of its subnet. The first one of a family is
    /// the source of last resort.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The routers for destinations outside the interface's subnets; the first one of a family is used. They
    /// have no meaning on a wire that carries bare IP.
    pub gateways: Vec<IpAddr>,
    /// The largest IP packet in bytes; the wire's own limit applies as well.
    pub mtu: u32,
}

/// The maximum number of addresses that an interface can have, its automatic link-local one included.
pub const MAX_ADDRESSES: usize = 32;

/// An [`InterfaceConfig`] was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceConfigError {
    /// The configuration has no address.
    #[error("the interface needs at least one address")]
    NoAddress,
    /// The configuration has more than [`MAX_ADDRESSES`] addresses.
    #[error("an interface can have at most {max} addresses, not {0}", max = MAX_ADDRESSES)]
    TooManyAddresses(usize),
    /// The address cannot belong to one host: it is unspecified, loopback, multicast or broadcast.
    #[error("{0} cannot be an interface's address")]
    Address(IpAddr),
    /// The prefix is longer than the address.
    #[error("the prefix length {1} is too large for {0}")]
    PrefixLength(IpAddr, u8),
    /// The gateway is outside the interface's subnets, or is one of its own addresses.
    #[error("the gateway {0} is not a neighbour on any of the interface's subnets")]
    Gateway(IpAddr),
    /// The MTU, or the wire's if that is smaller, is below the minimum of the family in use. The minimum is
    /// 68 bytes for IPv4 (RFC 791) and 1280 for IPv6 (RFC 8200, 5).
    #[error("an MTU of {mtu} bytes is below the {min} that the addresses need")]
    Mtu {
        /// The configured MTU or the wire's, in bytes.
        mtu: u32,
        /// The minimum, in bytes.
        min: u32,
    },
}
