//! The hosts for which a server answers. A web page whose name resolves to the server's address (DNS
//! rebinding) could read from the server with the rights of its visitors, unless requests for other hosts are
//! refused.

use std::collections::HashSet;
use std::net::IpAddr;

use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::{Request, Version};

/// The addresses and names of a server. Ports are ignored: a client that reaches the server on another port
/// does so through forwarding.
#[derive(Debug)]
pub(crate) struct Hosts {
    addresses: HashSet<IpAddr>,
    names: HashSet<String>,
}

/// The verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The request is for this server.
    Ours,
    /// The request is for another host: 421 (RFC 9110, 15.5.20).
    Another,
    /// The request names no host, several hosts, or an invalid one: 400 (RFC 9112, 3.2).
    Bad,
}

impl Hosts {
    /// Creates the set. A name that is an address counts as an address.
    pub(crate) fn new(
        addresses: impl IntoIterator<Item = IpAddr>,
        names: impl IntoIterator<Item = String>,
    ) -> Hosts {
        let mut hosts = Hosts { addresses: addresses.into_iter().collect(), names: HashSet::new() };
        for name in names {
            match address(&name) {
                Some(address) => hosts.addresses.insert(address),
                None => hosts.names.insert(plain(&name)),
            };
        }
        hosts
    }

    /// Judges the host of a request. An absolute target takes precedence over the `Host` field (RFC 9112,
    /// 3.2.2). HTTP/1.0 requests, which browsers do not make, need neither.
    pub(crate) fn judge<B>(&self, request: &Request<B>) -> Judged {
        let mut fields = request.headers().get_all(HOST).iter();
        let (first, second) = (fields.next(), fields.next());
        if second.is_some() {
            return Judged::Bad;
        }
        // A target with another scheme belongs on a different connection (RFC 9110, 7.4).
        if request.uri().scheme_str().is_some_and(|scheme| scheme != "http") {
            return Judged::Another;
        }
        if let Some(authority) = request.uri().authority() {
            return self.named(authority.host());
        }
        match first.map(|value| Authority::try_from(value.as_bytes())) {
            Some(Ok(authority)) => self.named(authority.host()),
            Some(Err(_)) => Judged::Bad,
            None if request.version() == Version::HTTP_10 => Judged::Ours,
            None => Judged::Bad,
        }
    }

    fn named(&self, host: &str) -> Judged {
        let ours = match address(host) {
            Some(address) => self.addresses.contains(&address),
            None => self.names.contains(&plain(host)),
        };
        if ours { Judged::Ours } else { Judged::Another }
    }
}

/// Parses a host as an address, with or without brackets.
fn address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Normalises a name for comparison: lowercase, without the trailing dot of the root.
fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_other_hosts_are_misdirected() {
        let own = ["10.9.0.2", "fd09::2"].map(|text| text.parse().expect("an address"));
        let hosts = Hosts::new(own, ["Files.example".to_owned()]);
        let judge = |host: &[&str], target: &str, version: Version| {
            let builder = Request::builder().uri(target).version(version);
            let builder = host
                .iter()
                .fold(builder, |builder, value| builder.header(HOST, *value));
            hosts.judge(&builder.body(()).expect("a request"))
        };
        let ours = [
            "10.9.0.2",
            "10.9.0.2:8080",
            "[fd09::2]",
            "[fd09:0::2]:80",
            "files.EXAMPLE.",
            "files.example:1",
        ];
        for host in ours {
            assert_eq!(judge(&[host], "/", Version::HTTP_11), Judged::Ours, "{host}");
        }
        for host in [
            "evil.example",
            "10.9.0.3",
            "10.9.0.2.evil.example",
            "[fd09::3]:80",
            "files.example.evil",
        ] {
            assert_eq!(judge(&[host], "/", Version::HTTP_11), Judged::Another, "{host}");
        }
        assert_eq!(
            judge(&["10.9.0.2"], "http://evil.example/", Version::HTTP_11),
            Judged::Another
        );
        assert_eq!(
            judge(&["evil.example"], "http://10.9.0.2/", Version::HTTP_11),
            Judged::Ours
        );
        for host in [&[][..], &[""], &["10.9.0.2", "10.9.0.2"], &["a b"]] {
            assert_eq!(judge(host, "/", Version::HTTP_11), Judged::Bad, "{host:?}");
        }
        assert_eq!(judge(&[], "/", Version::HTTP_10), Judged::Ours);
    }
}
