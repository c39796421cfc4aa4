//! The packets that a filter selects: `"udp"`, `"tcp:443"`, `"icmp"`, `"mptcp"`, `"quic"`, `"ipv6"`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// The packets of one protocol, optionally of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// The protocol of the packets.
    pub protocol: Protocol,
    /// The port at either end.
    pub port: Option<u16>,
}

/// A protocol that filters distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// All TCP segments.
    Tcp,
    /// All UDP datagrams.
    Udp,
    /// All SCTP packets.
    Sctp,
    /// ICMP, and ICMPv6 except neighbour discovery.
    Icmp,
    /// TCP segments with the option of MPTCP (RFC 8684).
    Mptcp,
    /// All IPv4 packets.
    Ipv4,
    /// All IPv6 packets.
    Ipv6,
    /// Another protocol, by its number in the IP header.
    Number(u8),
}

impl Protocol {
    fn has_ports(self) -> bool {
        matches!(
            self,
            Protocol::Tcp | Protocol::Udp | Protocol::Sctp | Protocol::Mptcp
        )
    }
}

const NAMES: &[(&str, Protocol)] = &[
    ("tcp", Protocol::Tcp),
    ("udp", Protocol::Udp),
    ("sctp", Protocol::Sctp),
    ("icmp", Protocol::Icmp),
    ("mptcp", Protocol::Mptcp),
    ("ipv4", Protocol::Ipv4),
    ("ipv6", Protocol::Ipv6),
];

/// A text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The protocol does not exist.
    #[error(
        "`{0}` is not a protocol: tcp, udp, sctp, icmp, mptcp, ipv4, ipv6 or a number, and a port as in \
         \"udp:443\""
    )]
    Protocol(String),
    /// The protocol has no ports.
    #[error("`{0}` has no ports")]
    NoPorts(String),
    /// The port is not a number from 0 to 65,535.
    #[error("`{0}` is not a port from 0 to 65535")]
    Port(String),
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Selector, SelectorError> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        let known = NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, protocol)| *protocol);
        let protocol = known
            .or_else(|| name.parse().ok().map(Protocol::Number))
            .ok_or_else(|| SelectorError::Protocol(name.to_owned()))?;
        let port = match port {
            None => None,
            Some(_) if !protocol.has_ports() => return Err(SelectorError::NoPorts(name.to_owned())),
            Some(port) => Some(port.parse().map_err(|_| SelectorError::Port(port.to_owned()))?),
        };
        Ok(Selector { protocol, port })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (
            NAMES.iter().find(|(_, protocol)| *protocol == self.protocol),
            self.protocol,
        ) {
            (Some((name, _)), _) => f.write_str(name)?,
            (None, Protocol::Number(number)) => write!(f, "{number}")?,
            (None, other) => write!(f, "{other:?}")?,
        }
        self.port.iter().try_for_each(|port| write!(f, ":{port}"))
    }
}

impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Selector, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_as_they_are_written() {
        for text in ["tcp", "udp:443", "sctp", "icmp", "mptcp:80", "ipv6", "47"] {
            assert_eq!(
                text.parse::<Selector>().map(|s| s.to_string()).as_deref(),
                Ok(text)
            );
        }
        for text in ["", "tpc", "icmp:1", "udp:70000", "256", "udp:"] {
            text.parse::<Selector>().expect_err(text);
        }
    }
}
