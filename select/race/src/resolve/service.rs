//! The content of SVCB and HTTPS records (RFC 9460), for a client that supports `alpn`, `no-default-alpn`,
//! `port` and the address hints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_resolver::proto::rr::Name;
use hickory_resolver::proto::rr::rdata::svcb::{SVCB, SvcParamKey, SvcParamValue};

/// The maximum number of service records of one answer that are kept: those with the lowest priority values.
pub const MAX_SERVICES: usize = 16;
/// The maximum number of hints of each family, and of protocols, of one record.
const MAX_VALUES: usize = 16;

/// The content of the records of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// The target of an alias, if there is one (AliasMode): addresses are those of that name.
    pub alias: Option<String>,
    /// The services in the order of their priority; services of equal priority are in a random order (RFC
    /// 9460, 2.4.1).
    pub services: Vec<ServiceRecord>,
}

/// A consistent record in ServiceMode whose mandatory keys are all supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// SvcPriority, at least 1; lower comes first.
    pub priority: u16,
    /// The name whose addresses offer the service.
    pub target: String,
    /// The port; if absent, the requested one.
    pub port: Option<u16>,
    /// The protocols that it names, such as `h3`.
    pub alpn: Vec<String>,
    /// True if it speaks only these protocols, and not the scheme's default (for `https` that is `http/1.1`).
    pub no_default_alpn: bool,
    /// IPv4 addresses of the target until it is resolved; the answers about it overrule them (RFC 9460, 7.3).
    pub ipv4_hints: Vec<Ipv4Addr>,
    /// IPv6 addresses of the target until it is resolved.
    pub ipv6_hints: Vec<Ipv6Addr>,
}

impl ServiceRecord {
    /// Returns all hints, IPv6 first.
    pub fn hints(&self) -> impl Iterator<Item = IpAddr> {
        let ipv6 = self.ipv6_hints.iter().copied().map(IpAddr::V6);
        ipv6.chain(self.ipv4_hints.iter().copied().map(IpAddr::V4))
    }

    /// Returns whether it speaks a protocol; `default` is the scheme's own (RFC 9460, 7.1.2).
    #[must_use]
    pub fn speaks(&self, protocol: &str, default: &str) -> bool {
        self.alpn.iter().any(|own| own == protocol) || (!self.no_default_alpn && protocol == default)
    }
}

/// The meaning of a set of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Understood {
    /// The services are those of another name (AliasMode).
    Alias(Name),
    /// The service does not exist: an alias to the root (RFC 9460, 2.5.1).
    Unavailable,
    /// The services of the records.
    Services(Vec<ServiceRecord>),
}

/// Interprets the records of `owner`. If there is an alias, other records are ignored (RFC 9460, 2.4.1: in a
/// set with an alias, they SHOULD be).
pub(crate) fn understand<'a>(owner: &Name, records: impl Iterator<Item = &'a SVCB>) -> Understood {
    let mut services = Vec::new();
    for record in records {
        if record.svc_priority == 0 {
            return match record.target_name.is_root() {
                true => Understood::Unavailable,
                false => Understood::Alias(record.target_name.clone()),
            };
        }
        services.extend(service(owner, record));
    }
    services.sort_by_key(|service| service.priority);
    services.truncate(MAX_SERVICES);
    Understood::Services(services)
}

/// Parses a record; `None` if it is inconsistent or requires an unsupported key.
fn service(owner: &Name, record: &SVCB) -> Option<ServiceRecord> {
    let target = if record.target_name.is_root() {
        owner
    } else {
        &record.target_name
    };
    let mut made = ServiceRecord {
        priority: record.svc_priority,
        target: target.to_ascii().to_ascii_lowercase(),
        port: None,
        alpn: Vec::new(),
        no_default_alpn: false,
        ipv4_hints: Vec::new(),
        ipv6_hints: Vec::new(),
    };
    for (_, value) in &record.svc_params {
        match value {
            SvcParamValue::Mandatory(keys) if keys.0.iter().all(|key| is_understood(*key)) => {}
            SvcParamValue::Mandatory(_) => return None,
            SvcParamValue::Alpn(alpn) => {
                made.alpn = alpn
                    .0
                    .iter()
                    .filter(|one| !one.is_empty())
                    .take(MAX_VALUES)
                    .cloned()
                    .collect();
            }
            SvcParamValue::NoDefaultAlpn => made.no_default_alpn = true,
            SvcParamValue::Port(0) => return None,
            SvcParamValue::Port(port) => made.port = Some(*port),
            SvcParamValue::Ipv4Hint(hint) => {
                made.ipv4_hints = hint.0.iter().map(|address| address.0).take(MAX_VALUES).collect();
            }
            SvcParamValue::Ipv6Hint(hint) => {
                made.ipv6_hints = hint.0.iter().map(|address| address.0).take(MAX_VALUES).collect();
            }
            // No TLS library here encrypts its ClientHello.
            SvcParamValue::EchConfigList(_) | SvcParamValue::Unknown(_) => {}
        }
    }
    // 7.1.1: `no-default-alpn` without `alpn` leaves no protocol.
    (!made.no_default_alpn || !made.alpn.is_empty()).then_some(made)
}

/// Returns whether a key is supported. A client that does not encrypt its ClientHello does not support `ech`.
fn is_understood(key: SvcParamKey) -> bool {
    matches!(
        key,
        SvcParamKey::Alpn
            | SvcParamKey::NoDefaultAlpn
            | SvcParamKey::Port
            | SvcParamKey::Ipv4Hint
            | SvcParamKey::Ipv6Hint
    )
}

#[cfg(test)]
mod tests {
    use hickory_resolver::proto::rr::rdata::svcb::{Alpn, EchConfigList, IpHint, Mandatory, Unknown};
    use hickory_resolver::proto::rr::rdata::{A, AAAA};

    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).expect("a name")
    }

    fn record(priority: u16, target: &str, values: Vec<(SvcParamKey, SvcParamValue)>) -> SVCB {
        SVCB::new(priority, name(target), values)
    }

    fn alpn(protocols: &[&str]) -> (SvcParamKey, SvcParamValue) {
        let protocols = protocols.iter().map(|one| (*one).to_owned()).collect();
        (SvcParamKey::Alpn, SvcParamValue::Alpn(Alpn(protocols)))
    }

    fn services(records: &[SVCB]) -> Vec<ServiceRecord> {
        match understand(&name("example.com."), records.iter()) {
            Understood::Services(services) => services,
            other => panic!("{other:?}"),
        }
    }

    /// RFC 9460, 10.2 and 7.1.1, modelled on its examples.
    #[test]
    fn parameters_are_kept() {
        let hints4 = vec![A::new(192, 0, 2, 1)];
        let hints6 = vec![AAAA::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)];
        let made = services(&[
            record(
                16,
                "foo.example.org.",
                vec![
                    alpn(&["h2", "h3-19"]),
                    (SvcParamKey::Port, SvcParamValue::Port(53)),
                ],
            ),
            record(
                1,
                ".",
                vec![
                    alpn(&["h3"]),
                    (SvcParamKey::NoDefaultAlpn, SvcParamValue::NoDefaultAlpn),
                    (SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(hints4))),
                    (
                        SvcParamKey::EchConfigList,
                        SvcParamValue::EchConfigList(EchConfigList(vec![1, 2])),
                    ),
                    (SvcParamKey::Ipv6Hint, SvcParamValue::Ipv6Hint(IpHint(hints6))),
                    (SvcParamKey::Key(667), SvcParamValue::Unknown(Unknown(vec![1]))),
                ],
            ),
        ]);
        assert_eq!(made.len(), 2);
        assert_eq!((made[0].priority, made[0].target.as_str()), (1, "example.com."));
        assert_eq!(
            (made[1].priority, made[1].target.as_str()),
            (16, "foo.example.org.")
        );
        assert_eq!(
            made[0].hints().map(|ip| ip.to_string()).collect::<Vec<_>>(),
            ["2001:db8::1", "192.0.2.1"]
        );
        assert_eq!(made[1].port, Some(53));
        assert!(made[0].speaks("h3", "http/1.1") && !made[0].speaks("http/1.1", "http/1.1"));
        assert!(made[1].speaks("h2", "http/1.1") && made[1].speaks("http/1.1", "http/1.1"));
    }

    /// 8: a record with a mandatory key that the client does not know is ignored. 2.4.3 and 7.1.1: so is an
    /// inconsistent record.
    #[test]
    fn records_with_unknown_mandatory_keys_are_ignored() {
        let mandatory = |keys: &[SvcParamKey]| {
            (
                SvcParamKey::Mandatory,
                SvcParamValue::Mandatory(Mandatory(keys.to_vec())),
            )
        };
        let none = services(&[
            record(1, ".", vec![mandatory(&[SvcParamKey::Key(667)])]),
            record(1, ".", vec![mandatory(&[SvcParamKey::EchConfigList])]),
            record(
                1,
                ".",
                vec![(SvcParamKey::NoDefaultAlpn, SvcParamValue::NoDefaultAlpn)],
            ),
            record(1, ".", vec![(SvcParamKey::Port, SvcParamValue::Port(0))]),
        ]);
        assert_eq!(none, []);
        let one = services(&[record(
            1,
            ".",
            vec![mandatory(&[SvcParamKey::Alpn]), alpn(&["h3"])],
        )]);
        assert_eq!(one.len(), 1);
    }

    /// 2.4.2, 2.5.1.
    #[test]
    fn an_alias_record_overrides_service_records() {
        let owner = name("example.com.");
        let service = record(1, ".", vec![]);
        let alias = record(0, "pool.svc.example.", vec![]);
        let understood = understand(&owner, [&service, &alias].into_iter());
        assert_eq!(understood, Understood::Alias(name("pool.svc.example.")));
        let nothing = record(0, ".", vec![]);
        assert_eq!(
            understand(&owner, std::iter::once(&nothing)),
            Understood::Unavailable
        );
    }

    #[test]
    fn an_answer_is_bounded() {
        let addresses: Vec<A> = (0..100).map(|n| A::new(192, 0, 2, n)).collect();
        let hint = (SvcParamKey::Ipv4Hint, SvcParamValue::Ipv4Hint(IpHint(addresses)));
        let records: Vec<SVCB> = (1..200)
            .rev()
            .map(|n| record(n, ".", vec![hint.clone()]))
            .collect();
        let made = services(&records);
        assert_eq!(
            (made.len(), made[0].priority, made[0].ipv4_hints.len()),
            (16, 1, 16)
        );
    }
}
