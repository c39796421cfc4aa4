//! HTTPS records in wire format (RFC 9460, 2.2 and 7).

use std::net::IpAddr;

use crate::plan::Plan;
use crate::spec::Service;

/// The keys of parameters (RFC 9460, 14.3.2), in the required order.
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
pub(super) const IPV6_HINT: u16 = 6;

/// Returns a record's data, or `None` if a text in it is too long or empty.
pub(super) fn data(service: &Service, plan: &Plan) -> Option<Vec<u8>> {
    let mut bytes = service.priority.to_be_bytes().to_vec();
    for label in service
        .target
        .trim_end_matches('.')
        .split('.')
        .filter(|label| !label.is_empty())
    {
        let length = u8::try_from(label.len()).ok().filter(|length| *length < 64)?;
        bytes.push(length);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    let mut alpn = Vec::new();
    for protocol in &service.alpn {
        alpn.push(u8::try_from(protocol.len()).ok().filter(|length| *length > 0)?);
        alpn.extend(protocol.bytes());
    }
    let hints: Vec<IpAddr> = service
        .hints
        .iter()
        .flat_map(|text| plan.addresses(text))
        .collect();
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for hint in hints {
        match hint {
            IpAddr::V4(address) => ipv4.extend(address.octets()),
            IpAddr::V6(address) => ipv6.extend(address.octets()),
        }
    }
    let port = service
        .port
        .map(|port| port.to_be_bytes().to_vec())
        .unwrap_or_default();
    let mandatory = service.mandatory.map(|key| key.to_be_bytes().to_vec());
    let values = [
        (MANDATORY, mandatory.unwrap_or_default()),
        (ALPN, alpn),
        (PORT, port),
        (IPV4_HINT, ipv4),
        (IPV6_HINT, ipv6),
    ];
    // The parameter that clients must understand has to be present, too (RFC 9460, 8); its value is empty.
    let own = service.mandatory.map(|key| (key, Vec::new()));
    for (key, value) in values.into_iter().chain(own) {
        if !value.is_empty() || Some(key) == service.mandatory {
            bytes.extend(key.to_be_bytes());
            bytes.extend(u16::try_from(value.len()).ok()?.to_be_bytes());
            bytes.extend(value);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    /// RFC 9460, appendix D.2, figures 3 (a port) and 7 (in part: protocols and an IPv4 hint).
    #[test]
    fn service_records_match_the_vectors_of_rfc_9460() {
        let spec =
            Spec::parse("host = [{ name = \"a\" }, { name = \"b\" }]\nlink = [{ between = [\"a\", \"b\"] }]");
        let plan = Plan::new(&spec.expect("a lab")).expect("a plan");
        let port = Service {
            priority: 16,
            target: "foo.example.com.".into(),
            port: Some(53),
            ..Service::default()
        };
        let expected = b"\x00\x10\x03foo\x07example\x03com\x00\x00\x03\x00\x02\x00\x35";
        assert_eq!(data(&port, &plan).as_deref(), Some(&expected[..]));
        let more = Service {
            priority: 16,
            target: "foo.example.org.".into(),
            alpn: vec!["h2".into(), "h3-19".into()],
            hints: vec!["192.0.2.1".into()],
            ..Service::default()
        };
        let expected = b"\x00\x10\x03foo\x07example\x03org\x00\
                         \x00\x01\x00\x09\x02h2\x05h3-19\x00\x04\x00\x04\xc0\x00\x02\x01";
        assert_eq!(data(&more, &plan).as_deref(), Some(&expected[..]));
        assert_eq!(
            data(
                &Service { alpn: vec![String::new()], ..Service::default() },
                &plan
            ),
            None
        );
        assert_eq!(
            data(&Service { target: "x".repeat(64), ..Service::default() }, &plan),
            None
        );
    }
}
