//! An agent whose calls are framed on connections.

use hawser_engine::Stack;
use hawser_engine::messages::{Call, Key, MessageError};
use hawser_ir::AppOp;
use hawser_time::Instant;

use super::Agent;
use crate::trace::Trace;

impl Agent {
    /// Offers a call to its connections; false when there is no room, and a notice will come.
    pub(super) fn offer_framed(
        &mut self,
        now: Instant,
        call: u32,
        stack: &mut Stack,
    ) -> Result<bool, MessageError> {
        let Some(framed) = &mut self.framed else {
            return Ok(false);
        };
        let ledger = self.ledger.borrow();
        ledger.write(call, &mut self.message);
        let op = match ledger.plan().reply {
            Some(_) => AppOp::Call,
            None => AppOp::Message,
        };
        let to = (framed.socket, op, ledger.server(call));
        let begun = framed.messages.begin_with(stack, now, to, &self.message, None)?;
        if let Some(begun) = begun {
            framed.under_way.insert(call, begun);
            framed.calls.insert(begun, call);
            framed.is_done = false;
        }
        Ok(begun.is_some())
    }

    /// Takes what has come of its calls, and the requests that have come, and replies to them.
    pub(super) fn drive_framed(&mut self, now: Instant, stack: &mut Stack, trace: &mut Trace) {
        let Some(framed) = &mut self.framed else {
            return;
        };
        framed.messages.work(stack, now);
        loop {
            let Some(framed) = &mut self.framed else {
                return;
            };
            framed.messages.take_changed(&mut framed.changed);
            if framed.changed.is_empty() {
                return;
            }
            for key in std::mem::take(&mut framed.changed) {
                match key {
                    Key::Call(call) => self.take_outcome(now, call, trace),
                    Key::Requests(_) => self.serve_framed(now, stack, trace),
                    Key::Room(_) => self.blocked = None,
                }
            }
        }
    }

    fn take_outcome(&mut self, now: Instant, of: Call, trace: &mut Trace) {
        let Some(framed) = &mut self.framed else {
            return;
        };
        let outcome = match framed.messages.outcome(of) {
            Ok(None) => return,
            Ok(Some(reply)) => Ok(reply),
            Err(error) => Err(error),
        };
        let Some(call) = framed.calls.remove(&of) else {
            return;
        };
        framed.under_way.remove(&call);
        let mut ledger = self.ledger.borrow_mut();
        let flow = ledger.plan().flow;
        self.blocked = None;
        match outcome {
            Ok(reply) if ledger.plan().reply.is_some() => {
                trace.event(now, flow, "reply", u64::from(call));
                ledger.answer(call, &reply, now);
                self.received += reply.len() as u64;
            }
            Ok(_) => {
                trace.event(now, flow, "closed", u64::from(call));
                ledger.close(call, now);
            }
            Err(error) => {
                trace.event(now, flow, "failed", u64::from(call));
                let again = ledger.fail(call, &format!("failed: {error}"), now);
                self.again.extend(again.map(|at| (at, call)));
            }
        }
    }

    fn serve_framed(&mut self, now: Instant, stack: &mut Stack, trace: &mut Trace) {
        loop {
            let Some(framed) = &mut self.framed else {
                return;
            };
            let incoming = match framed.messages.next_request(framed.socket) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => return,
                Err(error) => {
                    self.failed = Some(format!("its socket failed: {error}"));
                    return;
                }
            };
            let mut ledger = self.ledger.borrow_mut();
            trace.event(now, ledger.plan().flow, "message", incoming.message.len() as u64);
            self.received += incoming.message.len() as u64;
            // A connection comes from a port of its own: who called is known by its address.
            let from = ledger.endpoint_at(incoming.peer.ip());
            let came = ledger.arrive(self.host, from.or(Some(incoming.peer)), &incoming.message, now);
            let Some((caller, known)) = came.filter(|_| ledger.plan().reply.is_some()) else {
                framed.messages.drop_request(stack, now, incoming.id);
                continue;
            };
            framed.serving.insert(incoming.id, (caller, known));
            ledger.write_reply(known, &mut self.message);
            match framed.messages.answer(stack, now, incoming.id, &self.message) {
                Ok(()) => ledger.replied(caller),
                Err(error) => ledger.blame(caller, now, format!("a reply was refused: {error}")),
            }
            framed.serving.remove(&incoming.id);
        }
    }

    /// Closes the connections that it has opened, once there is nothing left to call.
    pub(super) fn close_framed(&mut self, now: Instant, stack: &mut Stack) {
        let is_over = self.is_finished() && self.again.is_empty();
        if let Some(framed) = &mut self.framed
            && is_over
            && !framed.is_done
            && framed.under_way.is_empty()
        {
            framed.is_done = true;
            framed.messages.disconnect(stack, now, framed.socket);
        }
    }
}
