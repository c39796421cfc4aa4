//! The destination of a connection: a host and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hawser_race::resolve::{BadName, HostTarget};

/// A host, by name or address, and a port. Names are kept in ASCII and lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    host: String,
    port: u16,
}

/// A text could not be parsed as a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDestination {
    /// The host is not valid.
    #[error(transparent)]
    Host(#[from] BadName),
    /// The port is 0, which cannot be connected to.
    #[error("port 0 cannot be connected to; write HOST:PORT with a port of 1 to 65535")]
    NoPort,
    /// The port is missing, or is not between 1 and 65535.
    #[error(
        "`{0}` is not a destination; write HOST:PORT with a port of 1 to 65535, an IPv6 address in brackets"
    )]
    Form(String),
}

impl Destination {
    /// Makes a destination of a host, which may be an IPv6 address with or without brackets, and a port.
    ///
    /// # Errors
    /// When the host is not valid, or the port is 0.
    pub fn new(host: &str, port: u16) -> Result<Destination, BadDestination> {
        let host = match HostTarget::parse(host)? {
            HostTarget::Address(address) => address.to_string(),
            HostTarget::Name(name) => name,
            HostTarget::ThisHost | HostTarget::Nothing => host.to_ascii_lowercase(),
        };
        if port == 0 {
            Err(BadDestination::NoPort)
        } else {
            Ok(Destination { host, port })
        }
    }

    /// Returns the name or address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, which is never 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host as an address, if it is one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Destination {
    type Err = BadDestination;

    fn from_str(text: &str) -> Result<Destination, BadDestination> {
        let form = || BadDestination::Form(text.chars().take(300).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let is_digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_digits).ok_or_else(form)?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(form());
        }
        Destination::new(host, port)
    }
}

impl From<SocketAddr> for Destination {
    /// Port 0 becomes 1: neither has a listener.
    fn from(address: SocketAddr) -> Destination {
        Destination { host: address.ip().to_string(), port: address.port().max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_parsed() {
        let cases = [
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
            ("WWW.Example.org:8080", "www.example.org:8080"),
            ("LocalHost:1", "localhost:1"),
            ("bücher.example:65535", "xn--bcher-kva.example:65535"),
        ];
        for (text, expected) in cases {
            assert_eq!(
                text.parse::<Destination>().map(|to| to.to_string()),
                Ok(expected.to_owned())
            );
        }
    }

    #[test]
    fn malformed_destinations_are_rejected() {
        for text in [
            "", "a", "a:", ":80", "a:0", "a:65536", "a:+1", "::1:80", "[a]:80", "a b..:80", "1.2.3:80",
        ] {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
    }
}
