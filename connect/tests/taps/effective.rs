//! Properties that have no effect over a Connection's transport read as the values in force.

use hawser_connect::taps::{Preconnection, SecurityParameters, TransportProperties};

use crate::security::echo;
use crate::{framed, pair};

/// Each chosen property without effect over TCP, or over QUIC, reads as the actual behaviour (RFC 9622, 6.2
/// and 8).
#[tokio::test]
async fn ineffective_properties_read_as_actual_behaviour() {
    // The property, the chosen value, and the values in force over TCP and over QUIC.
    const ROWS: [(&str, &str, [&str; 2]); 14] = [
        ("keepAlive", "Prefer", ["true", "false"]),
        ("keepAliveTimeout", "5000", ["5000", "Disabled"]),
        (
            "connCapacityProfile",
            "Low Latency/Interactive",
            ["Low Latency/Interactive", "Default"],
        ),
        ("connScheduler", "Round-Robin", ["none", "Priority-Based"]),
        ("multipathPolicy", "Aggregate", ["Handover", "Handover"]),
        ("multistreaming", "Prefer", ["false", "true"]),
        ("useTemporaryLocalAddress", "Prefer", ["false", "false"]),
        ("advertisesAltaddr", "true", ["false", "false"]),
        ("minSendRate", "1000", ["Unlimited", "Unlimited"]),
        ("minRecvRate", "1000", ["Unlimited", "Unlimited"]),
        ("maxRecvRate", "1000000", ["Unlimited", "Unlimited"]),
        ("maxSendRate", "1000000000", ["1000000000", "1000000000"]),
        ("tcp.userTimeoutEnabled", "true", ["false", "false"]),
        ("noSegmentation", "true", ["false", "false"]),
    ];
    let mut wanted = TransportProperties::new();
    for (name, value, _) in ROWS {
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
    for (at, connection) in [&tcp, &quic].into_iter().enumerate() {
        let (properties, transport) = (connection.properties(), connection.transport());
        for (name, chosen, expected) in ROWS.map(|(name, chosen, all)| (name, chosen, all[at])) {
            let value = properties.get_by_name(name).expect("a property");
            let text = value.map_or("none".to_owned(), ToString::to_string);
            assert_eq!(text, expected, "{transport}: {name}");
            let property = name.parse().expect("a property");
            let is_kept = expected == chosen || (chosen, expected) == ("Prefer", "true");
            assert_eq!(properties.is_in_force(property), is_kept, "{transport}: {name}");
        }
        let unmet = properties.unmet().count();
        let expected = ROWS
            .iter()
            .filter(|(_, chosen, all)| *chosen != all[at] && (*chosen, all[at]) != ("Prefer", "true"));
        assert_eq!(
            unmet,
            expected.count(),
            "{transport}: what was not chosen is not unmet"
        );
    }
}
