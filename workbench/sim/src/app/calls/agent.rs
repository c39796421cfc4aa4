//! The application on a host of a flow of calls. It makes calls when they are due and replies to the messages
//! that arrive. If the program offers only connections, calls are framed on them ([`framed`]). If its
//! connections have streams, each call is a stream ([`streamed`]). [`over_streams`] handles both cases.

mod framed;
mod over_streams;
mod streamed;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use hawser_engine::messages::{Carriage, MessageError};
use hawser_engine::{Handle, Notice, RequestError, Stack};
use hawser_time::Instant;

use self::framed::Framed;
use self::streamed::Streamed;
use super::CallTable;
use super::content::MessageId;
use crate::app::Application;
use crate::trace::Trace;

/// The maximum number of calls that wait to be accepted.
const BACKLOG: u32 = 1024;
/// The time before a request that was refused for lack of memory is retried if no notice will follow.
const PAUSE: Duration = Duration::from_millis(1);

/// An incoming call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IncomingCall {
    /// Its message has not been read yet.
    Coming,
    /// Its reply has not been handed over yet: the caller, and the message to which it replies.
    Replying(usize, MessageId),
    /// Its reply has been handed over.
    Replied(usize, MessageId),
}

/// The application of a flow on one host.
pub struct Agent {
    ledger: Rc<RefCell<CallTable>>,
    host: usize,
    local: SocketAddr,
    /// Its index among the callers, if it makes calls.
    caller: Option<usize>,
    endpoint: Option<Handle>,
    /// Replaces the endpoint if the program offers only streams.
    framed: Option<Framed>,
    /// Replaces the endpoint if connections have streams within them.
    streamed: Option<Streamed>,
    opened: bool,
    /// The next call that it has not begun.
    next: u32,
    /// Failed calls, with the times at which they are retried.
    again: BTreeSet<(Instant, u32)>,
    under_way: BTreeMap<Handle, u32>,
    serving: BTreeMap<Handle, IncomingCall>,
    /// Set if there was no room. The inner time is that of the next try if no notice will follow.
    blocked: Option<Option<Instant>>,
    /// The reason why it has no endpoint.
    failed: Option<String>,
    received: u64,
    /// Buffers for incoming and outgoing messages. Each keeps its memory and its length, so that it need not
    /// be zeroed for the next message.
    message: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Agent {
    /// Creates the application of a host whose endpoint is at `local`.
    #[must_use]
    pub fn new(ledger: &Rc<RefCell<CallTable>>, host: usize, local: SocketAddr) -> Agent {
        let known = ledger.borrow();
        let callers = &known.plan().callers;
        let caller = callers.iter().position(|caller| caller.host == host);
        Agent {
            host,
            local,
            next: caller.map_or(0, |caller| callers[caller].calls.start),
            caller,
            ledger: Rc::clone(ledger),
            endpoint: None,
            framed: None,
            streamed: None,
            opened: false,
            again: BTreeSet::new(),
            under_way: BTreeMap::new(),
            serving: BTreeMap::new(),
            blocked: None,
            failed: None,
            received: 0,
            message: Vec::new(),
            outgoing: Vec::new(),
        }
    }

    /// Returns true if notices of this handle belong to it.
    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.endpoint == Some(handle)
            || self.framed.as_ref().is_some_and(|framed| framed.owns(handle))
            || self
                .streamed
                .as_ref()
                .is_some_and(|streamed| streamed.owns(handle))
            || self.under_way.contains_key(&handle)
            || self.serving.contains_key(&handle)
    }

    /// Processes a notice. The caller drives the agent afterwards.
    pub(crate) fn on_notice(
        &mut self,
        now: Instant,
        handle: Handle,
        notice: Notice,
        stack: &mut Stack,
        trace: &mut Trace,
    ) {
        if let Some(framed) = &mut self.framed {
            framed.note(stack, now, handle, notice);
        } else if let Some(streamed) = &mut self.streamed {
            streamed.note(stack, now, handle, notice);
        } else if let Notice::Accepted(child) = notice {
            stack.accept(handle);
            self.serving.insert(child, IncomingCall::Coming);
            self.serve(now, child, stack, trace);
        } else if self.endpoint == Some(handle) {
            self.on_endpoint(notice);
        } else if let Some(call) = self.under_way.get(&handle).copied() {
            self.on_call(now, (handle, call), notice, stack, trace);
        } else {
            match notice {
                Notice::Closed | Notice::Failed(_) => {
                    self.serving.remove(&handle);
                    stack.release(handle);
                }
                _ => self.serve(now, handle, stack, trace),
            }
        }
    }

    fn on_endpoint(&mut self, notice: Notice) {
        match notice {
            Notice::Writable => self.blocked = None,
            Notice::Failed(errno) => self.failed = Some(format!("its endpoint failed: {errno}")),
            Notice::Closed => self.failed = Some("its endpoint was closed".to_owned()),
            Notice::Connected
            | Notice::Accepted(_)
            | Notice::Readable
            | Notice::Eof
            | Notice::Reset(_)
            | Notice::Stopped(_)
            | Notice::Message(_) => {}
        }
    }

    fn on_call(
        &mut self,
        now: Instant,
        (handle, call): (Handle, u32),
        notice: Notice,
        stack: &mut Stack,
        trace: &mut Trace,
    ) {
        let flow = self.ledger.borrow().plan().flow;
        self.read_replies(now, (handle, call), stack, trace);
        match notice {
            Notice::Closed => {
                trace.event(now, flow, "closed", u64::from(call));
                self.ledger.borrow_mut().close(call, now);
            }
            Notice::Failed(errno) => {
                trace.event(now, flow, "failed", u64::from(call));
                let again = self
                    .ledger
                    .borrow_mut()
                    .fail(call, &format!("failed: {errno}"), now);
                self.again.extend(again.map(|at| (at, call)));
            }
            _ => return,
        }
        self.under_way.remove(&handle);
        self.blocked = None;
        stack.release(handle);
    }

    fn read_replies(
        &mut self,
        now: Instant,
        (handle, call): (Handle, u32),
        stack: &mut Stack,
        trace: &mut Trace,
    ) {
        while let Ok(true) = stack.recv_message(now, handle, &mut self.message) {
            let mut ledger = self.ledger.borrow_mut();
            trace.event(now, ledger.plan().flow, "reply", u64::from(call));
            ledger.answer(call, &self.message, now);
            self.received += self.message.len() as u64;
        }
    }

    /// Reads an incoming message and replies, as far as possible now.
    fn serve(&mut self, now: Instant, handle: Handle, stack: &mut Stack, trace: &mut Trace) {
        let Some(serving) = self.serving.get(&handle).copied() else {
            return;
        };
        let mut ledger = self.ledger.borrow_mut();
        let flow = ledger.plan().flow;
        if serving == IncomingCall::Coming {
            if !matches!(stack.recv_message(now, handle, &mut self.message), Ok(true)) {
                return;
            }
            trace.event(now, flow, "message", self.message.len() as u64);
            self.received += self.message.len() as u64;
            let came = ledger.arrive(self.host, stack.peer(handle), &self.message, now);
            match came {
                Some((caller, known)) if ledger.plan().reply.is_some() => {
                    self.serving.insert(handle, IncomingCall::Replying(caller, known));
                }
                Some(_) => {
                    self.serving.remove(&handle);
                    return stack.release(handle);
                }
                None => {
                    self.serving.remove(&handle);
                    stack.abort(now, handle);
                    return stack.release(handle);
                }
            }
        }
        let Some(IncomingCall::Replying(caller, known)) = self.serving.get(&handle).copied() else {
            return;
        };
        ledger.write_reply(known, &mut self.outgoing);
        match stack.send_message(now, handle, &self.outgoing) {
            Ok(true) => {
                ledger.replied(caller);
                self.serving.insert(handle, IncomingCall::Replied(caller, known));
            }
            // The reply does not fit yet; a notice follows.
            Ok(false) => {}
            Err(error) => {
                ledger.blame(caller, now, format!("a reply was refused: {error}"));
                self.serving.insert(handle, IncomingCall::Replied(caller, known));
            }
        }
    }

    /// Does all possible work: opens its endpoint, and begins calls.
    pub(crate) fn drive(&mut self, now: Instant, stack: &mut Stack, trace: &mut Trace) {
        if !std::mem::replace(&mut self.opened, true) {
            self.open(now, stack);
        }
        self.drive_framed(now, stack, trace);
        self.drive_streamed(now, stack, trace);
        if self.blocked.flatten().is_some_and(|at| at <= now) {
            self.blocked = None;
        }
        while let Some((call, at)) = self.next_call()
            && at <= now
            && self.failed.is_none()
        {
            if self.puts_off(now, (at, call)) {
                continue;
            }
            if !self.begin(now, call, stack, trace) {
                break;
            }
            if !self.again.remove(&(at, call)) {
                self.next += 1;
            }
        }
        // A connection may break at once.
        self.drive_framed(now, stack, trace);
        self.drive_streamed(now, stack, trace);
        self.close_framed(now, stack);
    }

    /// Opens its endpoint, or the sockets for calls over connections if the program offers only these.
    fn open(&mut self, now: Instant, stack: &mut Stack) {
        let opened = match Carriage::from_module(stack.module()) {
            Some(Carriage::Framed) => self.open_framed(now, stack),
            Some(Carriage::Native) => stack
                .listen(now, self.local, BACKLOG)
                .map(|endpoint| self.endpoint = Some(endpoint))
                .map_err(MessageError::Request),
            None => self.open_streamed(now, stack).map_err(MessageError::Request),
        };
        self.failed = opened.err().map(|error| format!("it has no endpoint: {error}"));
    }

    fn open_framed(&mut self, now: Instant, stack: &mut Stack) -> Result<(), MessageError> {
        let mut framed = Framed::bind(stack, now, self.local)?;
        framed.connect(stack, now, self.peers_at_start().into_iter())?;
        self.framed = Some(framed);
        Ok(())
    }

    fn open_streamed(&mut self, now: Instant, stack: &mut Stack) -> Result<(), RequestError> {
        let mut streamed = Streamed::listen(stack, now, self.local, BACKLOG)?;
        for peer in self.peers_at_start() {
            streamed.connect(stack, now, peer)?;
        }
        self.streamed = Some(streamed);
        Ok(())
    }

    /// Returns the peers that it connects to before its first call.
    fn peers_at_start(&self) -> Vec<SocketAddr> {
        let ledger = self.ledger.borrow();
        let caller = self.caller.filter(|_| ledger.plan().connects_at_start);
        caller.map_or_else(Vec::new, |caller| ledger.peers(caller).into_iter().collect())
    }

    /// Postpones a call while all remaining calls go to hosts that are down. Without the pause, such calls
    /// would fail and be retried forever.
    fn puts_off(&mut self, now: Instant, (at, call): (Instant, u32)) -> bool {
        let ledger = self.ledger.borrow();
        let (Some(caller), Some(retry)) = (self.caller, ledger.plan().retry) else {
            return false;
        };
        if ledger.left(caller) > 0 {
            return false;
        }
        if !self.again.remove(&(at, call)) {
            self.next += 1;
        }
        self.again.insert((now + retry, call));
        true
    }

    /// Returns the next call and its due time, or `None` while other calls must finish first.
    fn next_call(&self) -> Option<(u32, Instant)> {
        let ledger = self.ledger.borrow();
        let plan = ledger.plan();
        let is_full = plan.outstanding.is_some_and(|limit| self.count() as u64 >= limit);
        let calls = &plan.callers[self.caller?].calls;
        if is_full || self.blocked.is_some() {
            return None;
        }
        let planned = (self.next < calls.end).then(|| (self.next, ledger.due(self.next)));
        let again = self.again.first().map(|(at, call)| (*call, *at));
        again.into_iter().chain(planned).min_by_key(|(_, at)| *at)
    }

    /// Returns the number of its calls in progress.
    fn count(&self) -> usize {
        self.under_way.len()
            + self.framed.as_ref().map_or(0, Framed::count)
            + self.streamed.as_ref().map_or(0, Streamed::count)
    }

    /// Begins a call; returns false if there is no room.
    fn begin(&mut self, now: Instant, call: u32, stack: &mut Stack, trace: &mut Trace) -> bool {
        let begun = match self.endpoint {
            Some(endpoint) => self
                .offer(now, endpoint, call, stack)
                .map_err(MessageError::Request),
            None if self.streamed.is_some() => self
                .offer_streamed(now, call, stack)
                .map_err(MessageError::Request),
            None => self.offer_framed(now, call, stack),
        };
        let mut ledger = self.ledger.borrow_mut();
        match begun {
            Ok(true) => {
                trace.event(now, ledger.plan().flow, "call", u64::from(call));
                ledger.begin(call, now);
                true
            }
            Ok(false) => {
                self.blocked = Some(None);
                false
            }
            Err(MessageError::Request(RequestError::WouldBlock)) => {
                self.blocked = Some(Some(now + PAUSE));
                false
            }
            Err(error) => {
                ledger.begin(call, now);
                let again = ledger.fail(call, &format!("was refused: {error}"), now);
                self.again.extend(again.map(|at| (at, call)));
                true
            }
        }
    }

    /// Offers a call to the program; returns false if there is no room and a notice will follow.
    fn offer(
        &mut self,
        now: Instant,
        endpoint: Handle,
        call: u32,
        stack: &mut Stack,
    ) -> Result<bool, RequestError> {
        let ledger = self.ledger.borrow();
        ledger.write(call, &mut self.outgoing);
        let (peer, replies) = (ledger.server(call), ledger.plan().reply.is_some());
        let begun = if replies {
            stack.call(now, endpoint, peer, &self.outgoing)
        } else {
            stack.message(now, endpoint, peer, &self.outgoing)
        }?;
        self.under_way.extend(begun.map(|handle| (handle, call)));
        Ok(begun.is_some())
    }

    /// Returns the time at which it has work to do even if no notice arrives.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        if !self.opened {
            return Some(Instant::ORIGIN);
        }
        if self.failed.is_some() {
            return None;
        }
        let due = self.next_call().map(|(_, at)| at);
        let framed = self.framed.as_ref().and_then(Framed::next_deadline);
        due.into_iter().chain(self.blocked.flatten()).chain(framed).min()
    }

    /// Its host goes down, or comes up with its state lost.
    pub(crate) fn fall(&mut self, now: Instant, up: bool) {
        self.ledger.borrow_mut().fall(self.host, now, up);
        if !up {
            (self.endpoint, self.framed, self.streamed) = (None, None, None);
            (self.opened, self.blocked) = (false, None);
            self.under_way.clear();
            self.serving.clear();
        }
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns true if it has an endpoint.
    pub(crate) fn is_listening(&self) -> bool {
        self.endpoint.is_some() || self.framed.is_some() || self.streamed.is_some()
    }

    /// Returns true if no further work is expected of it: all its calls are over.
    pub(crate) fn is_finished(&self) -> bool {
        self.failed.is_some()
            || self
                .caller
                .is_none_or(|caller| self.ledger.borrow().left(caller) == 0)
    }

    /// Returns true if it has released all calls.
    pub(crate) fn is_closed(&self) -> bool {
        let is_closed = self.framed.as_ref().is_none_or(Framed::is_closed)
            && self.streamed.as_ref().is_none_or(Streamed::is_closed);
        self.failed.is_some() || (self.under_way.is_empty() && self.serving.is_empty() && is_closed)
    }

    /// Returns the reason why it cannot work.
    pub(crate) fn failure(&self) -> Option<&String> {
        self.failed.as_ref()
    }

    /// Returns the handle of a call that it makes.
    pub(crate) fn handle_of(&self, call: u32) -> Option<Handle> {
        if let Some(framed) = &self.framed {
            return framed.handle_of(call);
        }
        if let Some(streamed) = &self.streamed {
            return streamed.handle_of(call);
        }
        let mut under_way = self.under_way.iter();
        under_way.find(|(_, of)| **of == call).map(|(handle, _)| *handle)
    }

    /// Returns the handle of a call that it serves.
    pub(crate) fn handle_for(&self, of: usize, call: u32) -> Option<Handle> {
        let wanted = self.ledger.borrow().known(call);
        if let Some(framed) = &self.framed {
            return framed.handle_for((of, wanted));
        }
        if let Some(streamed) = &self.streamed {
            return streamed.handle_for((of, wanted));
        }
        let mut serving = self.serving.iter();
        let is_it = |serving: &IncomingCall| match serving {
            IncomingCall::Coming => false,
            IncomingCall::Replying(caller, known) | IncomingCall::Replied(caller, known) => {
                (*caller, *known) == (of, wanted)
            }
        };
        serving
            .find(|(_, serving)| is_it(serving))
            .map(|(handle, _)| *handle)
    }

    /// Returns the progress of a caller, as seen from the caller's host or from a host that it calls.
    pub(crate) fn application(&self, caller: usize) -> Application {
        let ledger = self.ledger.borrow();
        let tally = ledger.tally(caller);
        let calls = ledger.plan().callers[caller].calls.clone();
        let bytes = |calls: &[super::PlannedCall]| calls.iter().map(|call| call.size).sum();
        let all: u64 = bytes(&ledger.plan().calls[calls.start as usize..calls.end as usize]);
        let is_own = self.caller == Some(caller);
        let waits_for = match ledger.oldest(caller) {
            Some(call) if is_own && self.handle_of(call).is_some() => {
                let what = if ledger.plan().reply.is_some() {
                    format!(
                        "the reply to call {call}, {} bytes",
                        ledger.reply_len(ledger.known(call))
                    )
                } else {
                    format!("message {call} to be delivered")
                };
                vec![what]
            }
            Some(call) if is_own => vec![format!("call {call} to be due, or room for it")],
            Some(_) | None => Vec::new(),
        };
        let (sent, received, to_send, to_receive) = if is_own {
            (tally.served_bytes, tally.answered_bytes, all, 0)
        } else {
            (tally.answered_bytes, tally.served_bytes, 0, all)
        };
        Application {
            sent,
            to_send: to_send.max(sent),
            received,
            to_receive: to_receive.max(received),
            closed: false,
            waits_for,
        }
    }
}
