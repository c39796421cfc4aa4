//! Properties of a Connection read as the values in force where its transport has no use for them.

use hawser_taps::{Preconnection, SecurityParameters, TransportProperties};

use crate::security::echo;
use crate::{framed, pair};

/// Each property that was chosen here and has no effect over TCP, or over QUIC, reads as what happens instead
/// (RFC 9622, 6.2 and 8).
#[tokio::test]
async fn properties_without_effect_read_as_what_is_in_force() {
    const CHOSEN: [(&str, &str); 14] = [
        ("keepAlive", "Prefer"),
        ("keepAliveTimeout", "5000"),
        ("connCapacityProfile", "Low Latency/Interactive"),
        ("connScheduler", "Round-Robin"),
        ("multipathPolicy", "Aggregate"),
        ("multistreaming", "Prefer"),
        ("useTemporaryLocalAddress", "Prefer"),
        ("advertisesAltaddr", "true"),
        ("minSendRate", "1000"),
        ("minRecvRate", "1000"),
        ("maxRecvRate", "1000000"),
        ("maxSendRate", "1000000000"),
        ("tcp.userTimeoutEnabled", "true"),
        ("noSegmentation", "true"),
    ];
    const TCP: [&str; 14] = [
        "true",
        "5000",
        "Low Latency/Interactive",
        "none",
        "Handover",
        "false",
        "false",
        "false",
        "Unlimited",
        "Unlimited",
        "Unlimited",
        "1000000000",
        "false",
        "false",
    ];
    const QUIC: [&str; 14] = [
        "false",
        "Disabled",
        "Default",
        "Priority-Based",
        "Handover",
        "true",
        "false",
        "false",
        "Unlimited",
        "Unlimited",
        "Unlimited",
        "1000000000",
        "false",
        "false",
    ];
    let mut wanted = TransportProperties::new();
    for (name, value) in CHOSEN {
        wanted.set_by_name(name, value).expect(name);
    }
    let (tcp, _server, _listener) = pair(&framed().with_properties(wanted.clone())).await;
    let (address, digest) = echo().await;
    let security = SecurityParameters::new()
        .with_pinned_server_certificate(digest)
        .with_server_name("localhost")
        .with_alpn(["echo"]);
    let quic = Preconnection::new(security)
        .with_properties(wanted)
        .with_remote(address)
        .initiate()
        .expect("a connection");
    quic.established().await.expect("it is established");
    for (connection, expected) in [(&tcp, TCP), (&quic, QUIC)] {
        let (properties, transport) = (connection.properties(), connection.transport());
        for ((name, chosen), expected) in CHOSEN.into_iter().zip(expected) {
            let value = properties.get_by_name(name).expect("a property");
            let text = value.map_or("none".to_owned(), ToString::to_string);
            assert_eq!(text, expected, "{transport}: {name}");
            let property = name.parse().expect("a property");
            let is_kept = expected == chosen || (chosen, expected) == ("Prefer", "true");
            assert_eq!(properties.is_in_force(property), is_kept, "{transport}: {name}");
        }
        let unmet = properties.unmet().count();
        let expected = CHOSEN.iter().zip(expected).filter(|((_, chosen), expected)| {
            chosen != expected && (*chosen, *expected) != ("Prefer", "true")
        });
        assert_eq!(
            unmet,
            expected.count(),
            "{transport}: what was not chosen is not unmet"
        );
    }
}
