//! HTTPS records (RFC 9460, 2.2 and 7).

use std::net::IpAddr;

use hickory_proto::rr::RData;
use hickory_proto::rr::rdata::svcb::{Alpn, IpHint, Mandatory, SVCB, SvcParamKey, SvcParamValue, Unknown};
use hickory_proto::rr::rdata::{A, AAAA, HTTPS};

use crate::plan::LabPlan;
use crate::spec::Service;

use super::zone::parse_name;

/// The last key of a parameter that a record can have by itself (RFC 9460, 14.3.2).
pub(super) const IPV6_HINT: u16 = 6;

/// Returns a record, or `None` if a text in it is too long or empty.
pub(super) fn record(service: &Service, plan: &LabPlan) -> Option<RData> {
    let target = parse_name(&service.target)?;
    let is_protocol = |protocol: &String| (1..=255).contains(&protocol.len());
    if !service.alpn.iter().all(is_protocol) {
        return None;
    }
    let hints = service.hints.iter().flat_map(|text| plan.addresses(text));
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for hint in hints {
        match hint {
            IpAddr::V4(address) => ipv4.push(A(address)),
            IpAddr::V6(address) => ipv6.push(AAAA(address)),
        }
    }
    // The parameters in the order of their keys. The one that clients must understand has to be present, too
    // (RFC 9460, 8); its value is empty.
    let mandatory = service.mandatory.map(SvcParamKey::from);
    let params = [
        mandatory.map(|key| {
            (
                SvcParamKey::Mandatory,
                SvcParamValue::Mandatory(Mandatory(vec![key])),
            )
        }),
        (!service.alpn.is_empty())
            .then(|| (SvcParamKey::Alpn, SvcParamValue::Alpn(Alpn(service.alpn.clone())))),
        service
            .port
            .map(|port| (SvcParamKey::Port, SvcParamValue::Port(port))),
        (!ipv4.is_empty()).then_some((SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(ipv4)))),
        (!ipv6.is_empty()).then_some((SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(IpHint(ipv6)))),
        mandatory.map(|key| (key, SvcParamValue::Unknown(Unknown(Vec::new())))),
    ];
    let params = params.into_iter().flatten().collect();
    Some(RData::HTTPS(HTTPS(SVCB::new(service.priority, target, params))))
}

#[cfg(test)]
mod tests {
    use hickory_proto::serialize::binary::BinEncodable;

    use super::*;
    use crate::spec::Spec;

    fn data(service: &Service, plan: &LabPlan) -> Option<Vec<u8>> {
        record(service, plan).map(|record| record.to_bytes().expect("it is encoded"))
    }

    /// RFC 9460, appendix D.2, figures 3 (a port) and 7 (in part: protocols and an IPv4 hint).
    #[test]
    fn service_records_match_the_vectors_of_rfc_9460() {
        let spec =
            Spec::parse("host = [{ name = \"a\" }, { name = \"b\" }]\nlink = [{ between = [\"a\", \"b\"] }]");
        let plan = LabPlan::new(&spec.expect("a lab")).expect("a plan");
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
