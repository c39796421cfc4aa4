//! An agent whose calls are framed on connections, or are streams within connections.

use std::net::SocketAddr;

use hawser_engine::messages::{Call, Key, MessageError};
use hawser_engine::{RequestError, Stack};
use hawser_ir::AppOp;
use hawser_time::Instant;

use super::Agent;
use super::streamed::CallEvent;
use crate::app::calls::content::MessageId;
use crate::trace::Trace;

impl Agent {
    /// Offers a call to its connections; returns false if there is no room and a notice will follow.
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

    /// Processes the outcomes of its calls, and reads and answers incoming requests.
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

    /// Hands a call to the connection with its peer.
    pub(super) fn offer_streamed(
        &mut self,
        now: Instant,
        call: u32,
        stack: &mut Stack,
    ) -> Result<bool, RequestError> {
        let Some(streamed) = &mut self.streamed else {
            return Ok(false);
        };
        let (ledger, mut message) = (self.ledger.borrow(), Vec::new());
        ledger.write(call, &mut message);
        streamed.call(stack, now, (call, ledger.server(call)), message)?;
        Ok(true)
    }

    /// Processes the outcomes of its calls, and answers those of its peers. Closes its connections once no
    /// calls are left.
    pub(super) fn drive_streamed(&mut self, now: Instant, stack: &mut Stack, trace: &mut Trace) {
        while let Some(streamed) = &mut self.streamed {
            let news = streamed.work(stack, now);
            if news.is_empty() {
                break;
            }
            for news in news {
                match news {
                    CallEvent::Replied(call, reply) => self.settle(now, call, Ok(reply), trace),
                    CallEvent::Failed(call, why) => self.settle(now, call, Err(why), trace),
                    CallEvent::Called(stream, peer, message) => {
                        let of = self.arrive(now, peer, &message, trace);
                        let mut reply = Vec::new();
                        if let Some((caller, known)) = of {
                            let mut ledger = self.ledger.borrow_mut();
                            ledger.write_reply(known, &mut reply);
                            ledger.replied(caller);
                        }
                        if let Some(streamed) = &mut self.streamed {
                            streamed.answer(stream, of, reply);
                        }
                    }
                }
            }
        }
        let is_over = self.is_finished() && self.again.is_empty();
        if let Some(streamed) = self.streamed.as_ref().filter(|_| is_over) {
            streamed.close(stack, now);
        }
    }

    /// Records an incoming message; returns the caller and the message if a reply is due.
    fn arrive(
        &mut self,
        now: Instant,
        peer: Option<SocketAddr>,
        message: &[u8],
        trace: &mut Trace,
    ) -> Option<(usize, MessageId)> {
        let mut ledger = self.ledger.borrow_mut();
        trace.event(now, ledger.plan().flow, "message", message.len() as u64);
        self.received += message.len() as u64;
        // A connection comes from a port of its own, so the caller is identified by its address.
        let from = peer.and_then(|peer| ledger.endpoint_at(peer.ip())).or(peer);
        let came = ledger.arrive(self.host, from, message, now);
        came.filter(|_| ledger.plan().reply.is_some())
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
        self.settle(
            now,
            call,
            outcome.map_err(|error| format!("failed: {error}")),
            trace,
        );
    }

    /// Ends a call, with its reply or with an error.
    fn settle(&mut self, now: Instant, call: u32, outcome: Result<Vec<u8>, String>, trace: &mut Trace) {
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
            Err(why) => {
                trace.event(now, flow, "failed", u64::from(call));
                let again = ledger.fail(call, &why, now);
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
            let of = self.arrive(now, Some(incoming.peer), &incoming.message, trace);
            let Some(framed) = &mut self.framed else {
                return;
            };
            let Some((caller, known)) = of else {
                framed.messages.drop_request(stack, now, incoming.id);
                continue;
            };
            let mut ledger = self.ledger.borrow_mut();
            framed.serving.insert(incoming.id, (caller, known));
            ledger.write_reply(known, &mut self.message);
            match framed.messages.answer(stack, now, incoming.id, &self.message) {
                Ok(()) => ledger.replied(caller),
                Err(error) => ledger.blame(caller, now, format!("a reply was refused: {error}")),
            }
            framed.serving.remove(&incoming.id);
        }
    }

    /// Closes the connections that it has opened, once no calls are left.
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
