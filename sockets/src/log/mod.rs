//! Logs of a stack for operators, by `tracing`. At `debug` they contain the states of connections, refused
//! requests, and dropped items by cause; at `warn` the failure of a device.

use std::io;
use std::net::SocketAddr;

use hawser_engine::{Handle, Notice, RequestError, Stack, StackCounters, net};
#[cfg(feature = "xdp")]
use tracing::info;
use tracing::{Level, debug, enabled, warn};

/// The counter of packets that a later one replaced, which are not losses.
const COALESCED: &str = "coalesced";

/// The counters of a stack at the time of the last log.
#[derive(Default)]
pub(crate) struct Log {
    stack: StackCounters,
    interface: net::InterfaceCounters,
}

impl Log {
    /// Logs the items that the stack has dropped or refused since the last call, one line for each cause.
    pub(crate) fn drops(&mut self, stack: &Stack) {
        if !enabled!(Level::DEBUG) {
            return;
        }
        let (counters, interface) = (stack.counters(), stack.interface_counters());
        for ((reason, before), (_, now)) in self.stack.rows().zip(counters.rows()) {
            if now > before && reason != COALESCED && !StackCounters::WORK.contains(&reason) {
                debug!(reason, count = now - before, "dropped or refused");
            }
        }
        for reason in net::DropReason::ALL {
            let count = interface.dropped(*reason) - self.interface.dropped(*reason);
            if count > 0 {
                debug!(reason = reason.label(), count, "packet dropped");
            }
        }
        self.stack.clone_from(counters);
        self.interface.clone_from(interface);
    }
}

/// Logs the mode of an opened device.
#[cfg(feature = "xdp")]
pub(crate) fn device_opened(device: &str, how: &dyn std::fmt::Display) {
    info!(device, %how, "device opened");
}

/// Logs a request for a connection or a listener: `listen`, `connect`.
pub(crate) fn opened(act: &str, address: SocketAddr, opened: &Result<Handle, RequestError>) {
    match opened {
        Ok(handle) => debug!(%address, ?handle, "{act}"),
        Err(error) => debug!(%address, %error, "{act} refused"),
    }
}

/// Logs an application's action on a connection: `shutdown`, `close`, `abort`.
pub(crate) fn ended(act: &str, stack: &Stack, handle: Handle) {
    if enabled!(Level::DEBUG) {
        let (local, peer) = (stack.local(handle), stack.peer(handle));
        debug!(?local, ?peer, ?handle, "{act}");
    }
}

/// Logs the change of a connection's state that a notice reports; readable and writable do not count as
/// changes.
pub(crate) fn state(stack: &Stack, handle: Handle, notice: Notice) {
    if !enabled!(Level::DEBUG) {
        return;
    }
    let subject = match notice {
        Notice::Accepted(connection) => connection,
        _ => handle,
    };
    let (local, peer) = (stack.local(subject), stack.peer(subject));
    match notice {
        Notice::Connected => debug!(?local, ?peer, ?handle, "connected"),
        Notice::Accepted(handle) => debug!(?local, ?peer, ?handle, "accepted"),
        Notice::Eof => debug!(?local, ?peer, ?handle, "the peer finished sending"),
        Notice::Closed => debug!(?local, ?peer, ?handle, "closed"),
        Notice::Failed(error) => debug!(?local, ?peer, ?handle, %error, "failed"),
        Notice::Reset(reason) => debug!(?local, ?peer, ?handle, reason, "the peer reset its stream"),
        Notice::Stopped(reason) => debug!(?local, ?peer, ?handle, reason, "the peer stopped reading"),
        Notice::Readable | Notice::Writable | Notice::Message(_) => {}
    }
}

/// Logs that a device has failed for good, and with it all connections over it.
pub(crate) fn device_failed(error: &io::Error) {
    warn!(%error, "the device failed; all its connections have ended");
}
