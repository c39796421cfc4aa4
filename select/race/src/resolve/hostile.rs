//! Hostile answers from the network, for a fuzzer; this module has no other use.

use hickory_resolver::proto::op::Message;
use hickory_resolver::proto::rr::{Name, RData};

use crate::resolve::service::{Understood, understand};
use crate::resolve::{HostTarget, MAX_SERVICES};

/// Reads any bytes as a message with service records, and as a host's name.
///
/// # Panics
/// When the result exceeds a limit, is out of order, or is inconsistent.
pub fn answer(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(HostTarget::Name(name)) = HostTarget::parse(text)
    {
        assert!(name.is_ascii() && name.len() <= 255, "{name}");
        assert_eq!(
            HostTarget::parse(&name),
            Ok(HostTarget::Name(name.clone())),
            "a name stays what it is"
        );
    }
    let Ok(message) = Message::from_vec(data) else {
        return;
    };
    let records = message.answers.iter().filter_map(|record| match &record.data {
        RData::HTTPS(https) => Some(&https.0),
        RData::SVCB(svcb) => Some(svcb),
        _ => None,
    });
    let Understood::Services(services) = understand(&Name::root(), records) else {
        return;
    };
    assert!(services.len() <= MAX_SERVICES);
    assert!(services.is_sorted_by_key(|service| service.priority));
    for service in services {
        assert!(service.priority > 0 && service.port != Some(0));
        assert!(!service.no_default_alpn || !service.alpn.is_empty());
        assert!(service.hints().count() <= 2 * MAX_SERVICES && service.alpn.len() <= MAX_SERVICES);
    }
}
