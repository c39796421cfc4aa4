//! Transport services of RFC 9622, over real sockets.

mod connections;
mod effective;
mod groups;
mod logs;
mod messages;
mod programs;
mod security;
mod table;

use hawser_connect::taps::{
    Connection, ConnectionEvent, LengthPrefix, Listener, LocalEndpoint, Preconnection, RemoteEndpoint,
    SecurityParameters,
};
use hawser_session::Identity;

/// Returns the address at which tests listen: any port of loopback.
fn here() -> LocalEndpoint {
    LocalEndpoint::new().with_ip_address([127, 0, 0, 1]).with_port(0)
}

/// Makes a Preconnection without protection, with a length before each message.
fn plain() -> Preconnection {
    Preconnection::new(SecurityParameters::disabled()).with_framer(LengthPrefix::new(1 << 20))
}

/// The same, with an event for each Send.
fn framed() -> Preconnection {
    plain().with_sent_events()
}

/// Makes two Preconnections under TLS 1.3 with a new certificate: one to listen, one to connect.
fn secured(protocols: &[&str]) -> (Preconnection, Preconnection) {
    let identity = Identity::generate(vec!["localhost".into()]).expect("a certificate");
    let trusts = SecurityParameters::new()
        .with_pinned_server_certificate(identity.digest())
        .with_server_name("localhost")
        .with_alpn(protocols.iter().copied());
    let has = trusts.clone().with_server_certificate(identity);
    let framed = |security| {
        Preconnection::new(security)
            .with_framer(LengthPrefix::new(1 << 20))
            .with_sent_events()
    };
    (framed(has), framed(trusts))
}

/// Does the same as [`pair`], with a Preconnection for each side. The server's Connection arrives with the
/// first message.
async fn secured_pair(
    (has, wants): (Preconnection, Preconnection),
    first: &str,
) -> (Connection, Connection, Listener) {
    let mut listener = has.with_local(here()).listen().await.expect("a listener");
    let there = RemoteEndpoint::from(listener.addresses()[0]);
    let client = wants.with_remote(there).initiate().expect("a connection");
    client
        .send(first.to_owned())
        .await
        .expect("it may be given before");
    client.established().await.expect("it is established");
    let mut server = listener.accept().await.expect("a connection");
    assert_eq!(server.receive().await.expect("a message").data(), first);
    (client, server, listener)
}

/// Returns a Connection, the peer's Connection, and the Listener that took it.
async fn pair(wanted: &Preconnection) -> (Connection, Connection, Listener) {
    let mut listener = wanted
        .clone()
        .with_local(here())
        .listen()
        .await
        .expect("a listener");
    let there = RemoteEndpoint::from(listener.addresses()[0]);
    let client = wanted
        .clone()
        .with_remote(there)
        .initiate()
        .expect("a connection");
    let server = listener.accept().await.expect("a connection");
    client.established().await.expect("it is established");
    (client, server, listener)
}

/// Takes the events until the end.
async fn rest(connection: &mut Connection) -> Vec<ConnectionEvent> {
    let mut events = Vec::new();
    while let Some(event) = connection.next_event().await {
        events.push(event);
    }
    events
}

/// Returns the kinds of events, as words.
fn words(events: &[ConnectionEvent]) -> Vec<&'static str> {
    events
        .iter()
        .map(|event| match event {
            ConnectionEvent::Ready => "Ready",
            ConnectionEvent::EstablishmentError(_) => "EstablishmentError",
            ConnectionEvent::Sent { .. } => "Sent",
            ConnectionEvent::Expired { .. } => "Expired",
            ConnectionEvent::SendError { .. } => "SendError",
            ConnectionEvent::PathChange(_) => "PathChange",
            ConnectionEvent::CloneError(_) => "CloneError",
            ConnectionEvent::Closed => "Closed",
            ConnectionEvent::ConnectionError(_) => "ConnectionError",
        })
        .collect()
}
