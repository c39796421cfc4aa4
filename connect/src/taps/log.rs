//! Logs of Connections and Listeners, for operators (`info`) and for debugging (`debug`).
//!
//! Text that a peer may have chosen is logged by its `Debug` form, which escapes it.

use std::net::SocketAddr;

use crate::About;
use tracing::field::display;
use tracing::{debug, info};

use crate::taps::{ConnectionEvent, EstablishmentError};

/// Logs that a transport, and with it the Connection, is established.
pub(super) fn established(about: &About, is_initiated: bool) {
    let About { transport, local, peer, .. } = about;
    let (local, peer) = (local.map(display), peer.map(display));
    debug!(transport, local, peer, is_initiated, "established");
}

/// Logs an event of a Connection.
pub(super) fn event(about: &About, event: &ConnectionEvent) {
    let transport = about.transport;
    let (local, peer) = (about.local.map(display), about.peer.map(display));
    match event {
        ConnectionEvent::PathChange(how) => debug!(transport, local, peer, ?how, "path changed"),
        ConnectionEvent::Expired { .. } => debug!(transport, local, peer, "message expired"),
        ConnectionEvent::SendError { why, .. } => {
            let why = why.to_string();
            debug!(transport, local, peer, ?why, "message not sent");
        }
        ConnectionEvent::CloneError(error) => {
            let error = error.to_string();
            debug!(transport, local, peer, ?error, "left its group");
        }
        ConnectionEvent::Closed => debug!(transport, local, peer, "closed"),
        ConnectionEvent::ConnectionError(error) => {
            let error = error.to_string();
            debug!(transport, local, peer, ?error, "failed");
        }
        ConnectionEvent::EstablishmentError(error) => {
            let error = error.to_string();
            debug!(?error, "not established");
        }
        ConnectionEvent::Ready | ConnectionEvent::Sent { .. } => {}
    }
}

/// Logs that opportunistic security continues without protection.
pub(super) fn unprotected(error: &EstablishmentError) {
    let error = error.to_string();
    info!(?error, "no candidate with protection connected; others are tried");
}

/// Logs an address at which a Listener listens.
pub(super) fn listening(address: SocketAddr) {
    info!(%address, "listening");
}

/// Logs a peer whose connection a Listener rejects, with the reason.
pub(super) fn rejected(peer: Option<SocketAddr>, why: &str) {
    let peer = peer.map(display);
    debug!(peer, why, "connection rejected");
}

#[cfg(test)]
mod tests {
    use hawser_testing::Log;

    use std::io;

    use super::*;
    use crate::taps::ConnectionError;

    #[test]
    fn text_of_a_transport_is_logged_escaped() {
        let log = Log::start();
        let about = About {
            transport: "quic",
            local: None,
            peer: Some(([192, 0, 2, 1], 443).into()),
            protocol: None,
        };
        let failed = ConnectionError::from(io::Error::other("closed: \u{1b}[2J\nforged"));
        event(&about, &ConnectionEvent::ConnectionError(failed));
        log.expect(&["DEBUG", "failed", "peer=192.0.2.1:443", r"\u{1b}[2J\nforged"]);
        assert!(!log.lines().concat().contains(['\n', '\u{1b}']));
    }
}
