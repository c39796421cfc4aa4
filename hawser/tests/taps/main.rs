//! Transport services in the words of RFC 9622, over real sockets.

mod connections;
mod messages;
mod table;

use hawser::taps::{
    Connection, Event, LengthPrefix, Listener, LocalEndpoint, Preconnection, RemoteEndpoint,
    SecurityParameters,
};

/// Where tests listen: any port of loopback.
fn here() -> LocalEndpoint {
    LocalEndpoint::new().with_ip_address([127, 0, 0, 1]).with_port(0)
}

/// Without protection, with messages behind their length.
fn framed() -> Preconnection {
    Preconnection::new(SecurityParameters::disabled()).with_framer(LengthPrefix::new(1 << 20))
}

/// A Connection, the one that it is at its peer, and the Listener that took it.
async fn pair(wanted: &Preconnection) -> (Connection, Connection, Listener) {
    let mut listener = wanted.clone().with_local(here()).listen().await.expect("a listener");
    let there = RemoteEndpoint::from(listener.addresses()[0]);
    let client = wanted.clone().with_remote(there).initiate().expect("a connection");
    let server = listener.accept().await.expect("a connection");
    client.established().await.expect("it is established");
    (client, server, listener)
}

/// What happens until the end.
async fn rest(connection: &mut Connection) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = connection.next_event().await {
        events.push(event);
    }
    events
}

/// The kinds of events, as words.
fn words(events: &[Event]) -> Vec<&'static str> {
    events
        .iter()
        .map(|event| match event {
            Event::Ready => "Ready",
            Event::EstablishmentError(_) => "EstablishmentError",
            Event::Sent { .. } => "Sent",
            Event::Expired { .. } => "Expired",
            Event::SendError { .. } => "SendError",
            Event::PathChange(_) => "PathChange",
            Event::CloneError(_) => "CloneError",
            Event::Closed => "Closed",
            Event::ConnectionError(_) => "ConnectionError",
        })
        .collect()
}
