//! Messages that the program carries itself: each has its own handle of the stack.

use std::net::SocketAddr;

use hawser_ir::AppOp;
use hawser_time::Instant;

use super::error::{MessageError, RESET};
use super::state::{CallProgress, HandleOwner, Messages, RequestOrigin, RequestProgress};
use crate::{Handle, Notice, RequestError, Stack};

/// The maximum number of replies on their way for each request that may be unanswered.
const REPLIES: usize = 16;

impl Messages {
    /// Offers a call to the program; returns `None` if there is no room for it.
    pub(super) fn offer_native(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (socket, call): (u64, u64),
        op: AppOp,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<CallProgress>, MessageError> {
        let endpoint = self.bound(socket)?.listener.ok_or(MessageError::Over)?;
        let offered = match op {
            AppOp::Call => stack.call(now, endpoint, peer, message),
            _ => stack.message(now, endpoint, peer, message),
        };
        match offered {
            Ok(Some(handle)) => {
                self.owners.insert(handle, HandleOwner::Call(call));
                Ok(Some(CallProgress::Native(handle)))
            }
            Ok(None) | Err(RequestError::WouldBlock) => Ok(None),
            Err(error) => Err(MessageError::of_request(error, message.len() as u64)),
        }
    }

    /// Handles a notice about a call's handle.
    pub(super) fn note_call(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (call, handle): (u64, Handle),
        notice: Notice,
    ) {
        let outstanding = self.calls.get(&call);
        let (is_call, peer) = match outstanding {
            Some(outstanding) => (outstanding.op == AppOp::Call, Some(outstanding.peer)),
            None => (true, None),
        };
        match notice {
            Notice::Readable => {
                if let Some(reply) = receive(stack, now, handle) {
                    self.settle(call, Ok(reply));
                }
            }
            Notice::Closed | Notice::Failed(_) => {
                let error = match notice {
                    Notice::Failed(error) => error,
                    _ => RESET,
                };
                let outcome = match (is_call, notice, peer) {
                    (false, Notice::Closed, _) => Ok(Vec::new()),
                    (_, _, Some(peer)) => Err(MessageError::Failed { peer, error }),
                    (_, _, None) => Err(MessageError::Over),
                };
                self.settle(call, outcome);
                self.owners.remove(&handle);
                stack.release(handle);
            }
            Notice::Connected
            | Notice::Accepted(_)
            | Notice::Writable
            | Notice::Eof
            | Notice::Reset(_)
            | Notice::Stopped(_)
            | Notice::Message(_) => {}
        }
    }

    /// Receives a call or a message, which has its own handle. Beyond the limit it is aborted unread.
    pub(super) fn incoming(&mut self, stack: &mut Stack, now: Instant, socket: u64, handle: Handle) {
        // Callers that do not accept their replies make room for others.
        while let Some(bound) = self.sockets.get(&socket)
            && bound.serving >= bound.options.requests
            && let Some(&oldest) = bound.replying.first()
        {
            self.end_request(stack, now, oldest);
        }
        let limits = self.sockets.get(&socket).map(|bound| {
            let is_full = bound.serving >= bound.options.requests;
            (is_full, bound.options.size)
        });
        let peer = stack.peer(handle);
        let message = match limits {
            Some((false, size)) => receive(stack, now, handle).filter(|message| message.len() <= size),
            _ => None,
        };
        let (Some(peer), Some(message)) = (peer, message) else {
            self.wrote = true;
            stack.abort(now, handle);
            return stack.release(handle);
        };
        let request = self.enqueue(socket, peer, RequestOrigin::Native(handle), message);
        self.owners.insert(handle, HandleOwner::Request(request));
    }

    /// Handles a notice about a request's handle.
    pub(super) fn note_request(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (request, handle): (u64, Handle),
        notice: Notice,
    ) {
        match notice {
            Notice::Writable => {
                let Some(served) = self.requests.get_mut(&request) else {
                    return;
                };
                if let RequestProgress::Replying(reply) = &mut served.progress {
                    let reply = std::mem::take(reply);
                    // A refusal by the program at this point is a failure: its notice follows, or no caller
                    // waits.
                    let _ = self.answer_native(stack, now, (request, handle), &reply);
                }
            }
            Notice::Closed | Notice::Failed(_) => {
                self.owners.remove(&handle);
                stack.release(handle);
                let Some(served) = self.requests.get_mut(&request) else {
                    return;
                };
                match served.progress {
                    // The caller is gone, or asked for no reply.
                    RequestProgress::Waiting(_) | RequestProgress::Taken => {
                        served.origin = RequestOrigin::Nobody
                    }
                    RequestProgress::Replying(_) | RequestProgress::Replied | RequestProgress::Dropped => {
                        self.finish_request(request);
                    }
                }
            }
            Notice::Connected
            | Notice::Accepted(_)
            | Notice::Readable
            | Notice::Eof
            | Notice::Reset(_)
            | Notice::Stopped(_)
            | Notice::Message(_) => {}
        }
    }

    /// Passes a reply to the program; the reply is kept here while there is no room.
    pub(super) fn answer_native(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (request, handle): (u64, Handle),
        reply: &[u8],
    ) -> Result<(), MessageError> {
        self.wrote = true;
        let progress = match stack.send_message(now, handle, reply) {
            Ok(true) => RequestProgress::Replied,
            Ok(false) => RequestProgress::Replying(reply.to_vec()),
            // The caller is gone. The application does not learn in any case whether a reply arrives.
            Err(RequestError::NotConnected | RequestError::BadHandle) => {
                self.owners.remove(&handle);
                stack.release(handle);
                self.finish_request(request);
                return Ok(());
            }
            Err(error) => return Err(MessageError::of_request(error, reply.len() as u64)),
        };
        let Some(served) = self.requests.get_mut(&request) else {
            return Ok(());
        };
        let (is_replied, socket) = (matches!(progress, RequestProgress::Replied), served.socket);
        served.progress = progress;
        if let Some(bound) = self.sockets.get_mut(&socket) {
            if is_replied {
                bound.replying.remove(&request);
                bound.replied.insert(request);
                bound.serving -= 1;
                self.give_up_old_replies(stack, now, socket);
            } else {
                bound.replying.insert(request);
            }
        }
        Ok(())
    }

    /// Gives up the oldest replies that have not been acknowledged, as a SYN cache does with the oldest
    /// half-open connections (RFC 4987, 3.4). An attacker can ask for replies without accepting them.
    fn give_up_old_replies(&mut self, stack: &mut Stack, now: Instant, socket: u64) {
        while let Some(bound) = self.sockets.get(&socket)
            && bound.replied.len() > REPLIES * bound.options.requests
            && let Some(&oldest) = bound.replied.first()
        {
            self.end_request(stack, now, oldest);
        }
    }
}

/// Returns the message that a handle has received, if it is whole.
fn receive(stack: &mut Stack, now: Instant, handle: Handle) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    stack
        .recv_message(now, handle, &mut message)
        .is_ok_and(|is_some| is_some)
        .then_some(message)
}
