//! Logs of a session, for operators (`info`, `warn`) and for debugging (`debug`).
//!
//! The machine emits notices, which are logged here. Text that a peer may have chosen is logged in its
//! `Debug` form, which escapes it.

use hawser_carriers::Description;
use hawser_session_machine::{CarrierId, Notice, SessionId};
use tracing::{debug, info, warn};

/// Logs an event of a session.
pub(super) fn notice(session: SessionId, notice: &Notice) {
    match notice {
        Notice::Opened(_) => debug!(%session, "session open"),
        Notice::StreamOpened(stream) => debug!(%session, stream, "peer opened a stream"),
        Notice::Stopped { stream, code } => debug!(%session, stream, code, "peer stopped reading a stream"),
        Notice::PathUp(carrier) => debug!(%session, %carrier, "carrier joined"),
        Notice::PathSuspect(carrier) => debug!(%session, %carrier, "carrier suspected"),
        Notice::PathLive(carrier) => debug!(%session, %carrier, "carrier live again"),
        Notice::PathLost { carrier, reason, .. } => {
            let reason = reason.to_string();
            debug!(%session, %carrier, ?reason, "carrier lost");
        }
        Notice::QuotaSpent(path) => warn!(%session, path, "quota of a path is used up"),
        Notice::Stalled => warn!(%session, "the session has no live carrier left"),
        Notice::Resumed => info!(%session, "a carrier is live again"),
        Notice::Closed(end) => debug!(%session, code = end.code(), %end, "session ended"),
        Notice::Readable(_) | Notice::Writable(_) => {}
    }
}

/// Logs a carrier whose transport is connected.
pub(super) fn connected(session: SessionId, carrier: CarrierId, description: &Description) {
    let Description { transport, local, peer, interface, fallback, .. } = description;
    debug!(%session, %carrier, transport, %local, %peer, ?interface, ?fallback, "carrier connected");
}

#[cfg(test)]
mod tests {
    use hawser_session_machine::Loss;
    use hawser_testing::Log;

    use super::*;

    #[test]
    fn control_characters_in_the_reason_of_a_loss_are_escaped() {
        let log = Log::start();
        let lost = Notice::PathLost {
            carrier: CarrierId(3),
            reason: Loss::Transport("closed: \u{1b}[2Jforged\nline".into()),
            counts: Default::default(),
        };
        notice(SessionId([7; 16]), &lost);
        log.expect(&["DEBUG ", r"forged\nline"]);
        assert!(!log.lines().concat().contains(['\n', '\u{1b}']));
    }
}
