//! The configuration of an interface, and the errors that it can have.

use std::fmt;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The configuration has no address.
    NoAddress,
    /// The configuration has more than [`MAX_ADDRESSES`] addresses.
    TooManyAddresses(usize),
    /// The address cannot belong to one host: it is unspecified, loopback, multicast or broadcast.
    Address(IpAddr),
    /// The prefix is longer than the address.
    PrefixLength(IpAddr, u8),
    /// The gateway is outside the interface's subnets, or is one of its own addresses.
    Gateway(IpAddr),
    /// The MTU, or the wire's if that is smaller, is below the minimum of the family in use. The minimum is
    /// 68 bytes for IPv4 (RFC 791) and 1280 for IPv6 (RFC 8200, 5).
    Mtu {
        /// The configured MTU or the wire's, in bytes.
        mtu: u32,
        /// The minimum, in bytes.
        min: u32,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::NoAddress => f.write_str("the interface needs at least one address"),
            ConfigError::TooManyAddresses(n) => {
                write!(
                    f,
                    "an interface can have at most {MAX_ADDRESSES} addresses, not {n}"
                )
            }
            ConfigError::Address(ip) => write!(f, "{ip} cannot be an interface's address"),
            ConfigError::PrefixLength(ip, bits) => {
                write!(f, "the prefix length {bits} is too large for {ip}")
            }
            ConfigError::Gateway(ip) => {
                write!(
                    f,
                    "the gateway {ip} is not a neighbour on any of the interface's subnets"
                )
            }
            ConfigError::Mtu { mtu, min } => {
                write!(
                    f,
                    "an MTU of {mtu} bytes is below the {min} that the addresses need"
                )
            }
        }
    }
}

impl std::error::Error for ConfigError {}
