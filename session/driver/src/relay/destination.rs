//! A destination, as a client names it: an address or a name, and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The maximum length in bytes of a name (RFC 1035, 2.3.4, without the last dot), and of a label.
const MAX_NAME_LENGTH: usize = 253;
const MAX_LABEL_LENGTH: usize = 63;

/// An IP address, or a name in lower case without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An IP address.
    Address(IpAddr),
    /// A name, which is never the text of an address.
    Name(String),
}

/// The text is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {why}")]
pub struct BadHost {
    /// The text.
    pub text: String,
    /// The problem with it.
    pub why: &'static str,
}

impl Host {
    /// Parses a text. A text that reads as an address is an address, even if the caller calls it a name.
    ///
    /// # Errors
    /// The text is neither an address nor a name: it is empty or too long, a label is empty or too long, or a
    /// character is not a letter, digit, hyphen or underscore. Names in other scripts are given in their
    /// ASCII form (RFC 5890).
    pub fn parse(text: &str) -> Result<Host, BadHost> {
        let bad = |why| BadHost { text: text.chars().take(MAX_NAME_LENGTH).collect(), why };
        let inner = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(text);
        if let Ok(address) = inner.parse() {
            return Ok(Host::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() || name.len() > MAX_NAME_LENGTH {
            return Err(bad("a name has 1 to 253 bytes"));
        }
        let is_label_good = |label: &str| (1..=MAX_LABEL_LENGTH).contains(&label.len());
        if !name.split('.').all(is_label_good) {
            return Err(bad("the labels of a name have 1 to 63 bytes"));
        }
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        {
            return Err(bad("a name consists of letters, digits, hyphens and underscores"));
        }
        // Some resolvers take 0x7f.1 and 2130706433 for addresses, and others do not (RFC 1123, 2.1).
        if name
            .rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()))
        {
            return Err(bad("the last label of a name cannot begin with a digit"));
        }
        Ok(Host::Name(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// The destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    host: Host,
    port: u16,
}

impl Destination {
    /// Returns the destination of a host and a port; `None` if the port is 0.
    #[must_use]
    pub fn new(host: Host, port: u16) -> Option<Destination> {
        (port > 0).then_some(Destination { host, port })
    }

    /// Parses `HOST:PORT`; an IPv6 address stands in brackets.
    ///
    /// # Errors
    /// The text is not a destination.
    pub fn parse(text: &str) -> Result<Destination, BadHost> {
        let bad = |why| BadHost { text: text.chars().take(MAX_NAME_LENGTH + 8).collect(), why };
        let (host, port) = text
            .rsplit_once(':')
            .ok_or_else(|| bad("a destination is HOST:PORT"))?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(bad("an IPv6 address is written in brackets"));
        }
        let port = port
            .parse()
            .map_err(|_| bad("a port is a number from 1 to 65535"))?;
        Destination::new(Host::parse(host)?, port).ok_or_else(|| bad("a port is a number from 1 to 65535"))
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Destination {
        Destination { host: Host::Address(address.ip()), port: address.port() }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    /// RFC 1123, 2.1: a text that reads as a number is not a name.
    #[test]
    fn hosts_that_resemble_addresses_are_parsed_as_such_or_rejected() {
        assert_eq!(
            Host::parse("127.0.0.1"),
            Ok(Host::Address(IpAddr::from([127, 0, 0, 1])))
        );
        assert_eq!(
            Host::parse("[::1]"),
            Ok(Host::Address(IpAddr::V6(Ipv6Addr::LOCALHOST)))
        );
        for text in [
            "2130706433",
            "0x7f.1",
            "127.1",
            "017700000001",
            "127.0.0.1.",
            "a.0x7f",
            "",
            ".",
            "::1%lo",
        ] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
    }
}
