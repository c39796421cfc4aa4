//! Requests that must be refused. An end makes each of them once.

use hawser_engine::{Errno, Handle, RequestError, Stack};
use hawser_time::Instant;

use super::Endpoint;

/// An option that no program supports.
const NO_OPTION: u32 = u32::MAX;
/// EADDRINUSE and EPIPE.
const IN_USE: Errno = Errno(98);
const BROKEN_PIPE: Errno = Errno(32);

impl Endpoint {
    /// Makes the requests that must be refused on a connected handle, once.
    pub(super) fn ask_for_refusals(&mut self, now: Instant, stack: &mut Stack, handle: Handle) {
        if !self.plan.refusals || std::mem::replace(&mut self.asked, true) {
            return;
        }
        for handle in [Some(handle), self.listener].into_iter().flatten() {
            let option = stack.set_option(now, handle, NO_OPTION, 1);
            self.refused(
                "an option that nobody knows",
                option,
                &[
                    RequestError::Refused(Errno::UNKNOWN_OPTION),
                    RequestError::NotConnected,
                ],
            );
        }
        if let (Some(local), Some(remote)) = (stack.local(handle), stack.peer(handle)) {
            let second = stack.connect_with(now, remote, Some(local), &[]);
            second.iter().for_each(|handle| stack.release(*handle));
            let in_use = [RequestError::AddressInUse, RequestError::Refused(IN_USE)];
            self.refused("connecting where it is connected", second.map(drop), &in_use);
        }
    }

    pub(super) fn ask_after_closing(&mut self, now: Instant, stack: &mut Stack, handle: Handle) {
        let sent = match stack.send(now, handle, &[0]) {
            Ok(0) => return, // There is no room, so the program was not asked.
            sent => sent.map(drop),
        };
        self.refused(
            "sending after closing",
            sent,
            &[RequestError::Refused(BROKEN_PIPE), RequestError::NotConnected],
        );
    }

    fn refused(&mut self, what: &str, result: Result<(), RequestError>, expected: &[RequestError]) {
        match result {
            Err(error) if expected.contains(&error) || error == RequestError::WouldBlock => {}
            Err(error) => {
                let wanted = expected[0];
                self.blame(|| format!("{what} was refused with `{error}`, not `{wanted}`"));
            }
            Ok(()) => self.blame(|| format!("{what} was not refused")),
        }
    }
}
