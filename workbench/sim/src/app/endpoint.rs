//! One end of a flow: it opens, sends, checks the data that it receives, and closes.

mod account;
mod connection_streams;
mod refusals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::{Errno, Handle, Notice, RequestError, Stack};
use hawser_ir::abi::{OPT_RECEIVE_BUFFER, OPT_SEND_BUFFER};
use hawser_time::Instant;

use super::payload::{MessageCount, Payload};
use super::streams::{ConnectionStreams, StreamsReport};
use super::{Carries, FlowSide, Script};
use crate::trace::Trace;

/// The number of bytes that a slow reader reads at a time, unless fewer are left.
const SIP: u64 = 16 * 1024;
/// The maximum number of connections that wait to be accepted, unless more ends share the listener.
const BACKLOG: u32 = 16;
/// The time before an end tries again to open a port that its stack still holds.
const IN_USE_PAUSE: Duration = Duration::from_secs(1);

/// The manner in which an end opens its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The end waits for the other one, at its own listener or at a shared one.
    Listen(SocketAddr, Option<SharedListener>),
    /// The end connects, from a local address if one is given. If both ends connect, the open is
    /// simultaneous.
    Connect {
        /// The address of the peer.
        remote: SocketAddr,
        /// The local address, if it is given.
        local: Option<SocketAddr>,
    },
    /// The end does not open: this peer is absent.
    Absent,
}

/// An end's share of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedListener {
    /// The address from which its own connection comes.
    pub client: SocketAddr,
    /// The total number of connections that are expected at the listener.
    pub count: u32,
}

/// The time at which an end closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// After it has sent and received everything.
    WhenDone,
    /// After it has sent everything.
    WhenSent,
    /// After it has sent and received everything and the other end has closed.
    AfterPeer,
    /// Never.
    Never,
}

/// The plan of one end.
pub struct EndPlan {
    /// The flow's number, for the trace.
    pub flow: usize,
    /// The manner in which it opens.
    pub open: Open,
    /// The time at which it connects; listeners listen from the start.
    pub at: Instant,
    /// The end on the same host whose connection it reopens from the same port once that is over. A listener
    /// serves all ends that follow one another.
    pub after: Option<usize>,
    /// The time at which it closes.
    pub close: Close,
    /// The number of bytes, sent and received, after which it aborts instead.
    pub abort_after: Option<u64>,
    /// True if it also makes requests that must be refused.
    pub refusals: bool,
    /// True if the program ends connections: both ends see the end of the stream before it reports CLOSED.
    pub ends: bool,
    /// True if the program reports the end of the other end's data. False if the program never sends data in
    /// that direction, and for datagrams.
    pub sees_end: bool,
    /// The rate of its reader in bytes per second; `None` if it reads everything at once.
    pub read_rate: Option<u64>,
    /// The initial time during which its reader reads no data.
    pub read_stop: Duration,
    /// The send buffer and the receive buffer that it asks for, in bytes.
    pub buffers: [Option<u64>; 2],
    /// The run's seed, which determines the bytes.
    pub seed: u64,
    /// The service that the program promises for the data.
    pub carries: Carries,
    /// The label of the data that it sends, equal at both ends.
    pub outgoing: String,
    /// The label of the data that it receives.
    pub incoming: String,
    /// The script that decides how much it sends, and when.
    pub script: Box<dyn Script>,
    /// Its side of the flow.
    pub side: FlowSide,
}

/// One end of a flow, on a host.
pub struct Endpoint {
    plan: EndPlan,
    opened: bool,
    /// True while another end's connection comes first.
    waits: bool,
    listener: Option<Handle>,
    handle: Option<Handle>,
    /// True if it has or had its connection.
    connected: bool,
    /// The receive buffer that the program granted, in bytes.
    receive_buffer: Option<u64>,
    payload: Payload,
    /// The streams within its connection, if it carries streams.
    streams: Option<Box<ConnectionStreams>>,
    /// The error with which the connection failed that carries the streams. The streams decide whether it is
    /// a fault.
    left: Option<Errno>,
    closing: bool,
    eof: bool,
    closed: bool,
    /// True if the program reported CLOSED.
    orderly: bool,
    released: bool,
    /// True if a slow reader has left bytes for later.
    sips: bool,
    /// The number of bytes that the script allowed when it was last asked.
    allowed: u64,
    /// True if its host went down during the flow, if it aborted, or if it is absent.
    cut: bool,
    /// The time at which it aborted.
    aborted_at: Option<Instant>,
    /// The time at which the program reported that the connection failed.
    gave_up_at: Option<Instant>,
    /// True if the requests that must be refused have been made.
    asked: bool,
    /// Set if the program gave up the connection, or refused a request.
    failed: Option<String>,
    /// Set if the program broke a promise.
    error: Option<String>,
    /// The time of the first error that can be detected when it occurs.
    failed_at: Option<Instant>,
    report: EndpointReport,
}

/// The results of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointReport {
    /// The number of bytes handed to the transport.
    pub sent: u64,
    /// The number of bytes received from the transport.
    pub received: u64,
    /// The SHA-256 of the bytes sent; for messages, over their digests.
    pub sent_sha256: String,
    /// The SHA-256 of the bytes received.
    pub received_sha256: String,
    /// The messages that it sends and those that it receives, if they are delivered whole.
    pub messages: Option<[MessageCount; 2]>,
    /// The streams on which it sends and those on which it receives, if the connection has streams within it.
    pub streams: Option<[StreamsReport; 2]>,
    /// True if no unexpected data arrived, and all missing data may be lost.
    pub received_ok: bool,
    /// The time at which the connection was established.
    pub connected_at: Option<Instant>,
    /// The time at which the last byte was read.
    pub received_at: Option<Instant>,
    /// The number of unexpected connections at its listener.
    pub extra_connections: u64,
    /// True if its host went down during the flow, or if it aborted: nothing more was to be expected.
    pub cut: bool,
    /// The program's observable `retransmissions`, when last seen.
    pub retransmissions: Option<u64>,
    /// The program's smoothed round-trip time (`srtt`), in its own unit, when last seen.
    pub srtt: Option<u64>,
    /// The times that the script measured.
    pub times: Vec<Duration>,
    /// The faults; empty if all went well.
    pub faults: Vec<String>,
}

impl Endpoint {
    /// Creates an end with a plan. Call [`Endpoint::drive`] first at the start, then whenever
    /// [`Endpoint::wake_at`] demands it, and after each notice.
    #[must_use]
    pub fn new(plan: EndPlan) -> Endpoint {
        let labels = [plan.outgoing.as_str(), &plan.incoming];
        let payload = Payload::new(&plan.carries, plan.seed, labels);
        let streams = match &plan.carries {
            Carries::Streams(agreed) => {
                let streams = ConnectionStreams::new(Arc::clone(agreed), plan.side, plan.flow);
                Some(Box::new(streams))
            }
            Carries::Stream | Carries::Messages(_) | Carries::Datagrams { .. } => None,
        };
        Endpoint {
            waits: plan.after.is_some(),
            opened: plan.open == Open::Absent,
            cut: plan.open == Open::Absent,
            aborted_at: None,
            gave_up_at: None,
            asked: false,
            plan,
            listener: None,
            handle: None,
            connected: false,
            receive_buffer: None,
            payload,
            streams,
            left: None,
            closing: false,
            eof: false,
            closed: false,
            orderly: false,
            released: false,
            sips: false,
            allowed: 0,
            failed: None,
            error: None,
            failed_at: None,
            report: EndpointReport::default(),
        }
    }

    /// Returns the handles whose notices it receives.
    pub(crate) fn handles(&self) -> impl Iterator<Item = Handle> {
        self.listener.into_iter().chain(self.handle)
    }

    /// Processes a notice. The caller drives the end afterwards.
    pub(crate) fn on_notice(
        &mut self,
        now: Instant,
        handle: Handle,
        notice: Notice,
        stack: &mut Stack,
        trace: &mut Trace,
    ) {
        if self.notify_streams(now, (handle, notice), stack, trace) {
            return;
        }
        if self.listener == Some(handle) || matches!(notice, Notice::Accepted(_)) {
            if matches!(notice, Notice::Accepted(_)) {
                stack.accept(handle);
            }
            return self.on_listener(now, notice, stack, trace);
        }
        match notice {
            Notice::Connected => {
                self.once(self.report.connected_at.is_some(), "CONNECTED");
                self.on_connected(now, trace);
            }
            Notice::Eof => {
                trace.event(now, self.plan.flow, "eof", self.received());
                self.once(self.eof, "EOF");
                self.eof = true;
                self.check_end(stack.readable(handle) as u64);
            }
            Notice::Closed => {
                trace.event(now, self.plan.flow, "closed", 0);
                self.once(self.orderly, "CLOSED");
                self.check_closed();
                (self.closed, self.orderly) = (true, true);
            }
            Notice::Failed(errno) => {
                trace.event(now, self.plan.flow, "failed", u64::from(errno.0));
                self.once(false, "FAILED");
                self.gave_up_at.get_or_insert(now);
                if self.streams.is_some() {
                    self.left = Some(errno);
                } else if !self.is_finished() {
                    self.failed.get_or_insert_with(|| format!("failed: {errno}"));
                }
                self.closed = true;
            }
            Notice::Readable if self.report.connected_at.is_none() => {
                self.blame(|| "the program delivered bytes before it reported the connection".to_owned());
            }
            Notice::Readable
            | Notice::Writable
            | Notice::Accepted(_)
            | Notice::Reset(_)
            | Notice::Stopped(_)
            | Notice::Message(_) => {}
        }
    }

    /// Checks that a notice comes once, and not after the connection is closed.
    fn once(&mut self, before: bool, notice: &str) {
        if before {
            self.blame(|| format!("the program reported {notice} twice"));
        } else if self.closed {
            let last = if self.orderly { "CLOSED" } else { "FAILED" };
            self.blame(|| format!("the program reported {notice} after {last}"));
        }
    }

    /// Records the first broken promise.
    fn blame(&mut self, promise: impl FnOnce() -> String) {
        self.error.get_or_insert_with(promise);
    }

    /// Checks a report of CLOSED: this end must have closed the connection, and so must the other end if
    /// connections end.
    fn check_closed(&mut self) {
        let is_left = self.streams.is_some() && self.plan.close != Close::WhenDone;
        if !self.closing && !is_left {
            self.blame(|| "the program reported CLOSED, but the application has not closed".to_owned());
        } else if self.plan.ends && self.plan.sees_end && !self.eof {
            self.blame(|| "the program reported CLOSED before EOF".to_owned());
        }
    }

    /// Checks a report of the end of the stream: everything that was sent must have been read or be readable.
    /// An application that trusts the notice waits for no more data.
    fn check_end(&mut self, readable: u64) {
        let (there, expected) = (self.received() + readable, self.promised());
        if self.report.connected_at.is_none() {
            self.blame(|| "the program reported EOF before the connection".to_owned());
        } else if there < expected {
            self.blame(|| format!("the end of the stream was reported after {there} of {expected} bytes"));
        }
    }

    fn on_listener(&mut self, now: Instant, notice: Notice, stack: &mut Stack, trace: &mut Trace) {
        match notice {
            Notice::Accepted(child) if !self.connected => {
                self.handle = Some(child);
                (self.opened, self.waits) = (true, false);
                // A listener's connections begin with its receive buffer.
                self.receive_buffer = self.plan.buffers[1].filter(|_| self.receive_buffer.is_some());
                if let Some(bytes) = self.plan.buffers[0] {
                    let result = stack.set_option(now, child, OPT_SEND_BUFFER, bytes);
                    self.note(result);
                }
                self.on_connected(now, trace);
            }
            Notice::Accepted(child) => self.reject(now, child, stack),
            Notice::Failed(errno) => self.failed = Some(format!("listening failed: {errno}")),
            Notice::Closed
            | Notice::Connected
            | Notice::Readable
            | Notice::Writable
            | Notice::Eof
            | Notice::Reset(_)
            | Notice::Stopped(_)
            | Notice::Message(_) => {}
        }
    }

    fn on_connected(&mut self, now: Instant, trace: &mut Trace) {
        trace.event(now, self.plan.flow, "connected", 0);
        self.connected = true;
        self.report.connected_at.get_or_insert(now);
    }

    /// Does all possible work: opens, reads through `buffer`, sends, closes.
    pub(crate) fn drive(&mut self, now: Instant, stack: &mut Stack, buffer: &mut [u8]) {
        self.act(now, stack, buffer);
        let is_wrong = self.error.is_some() || self.failed.is_some() || self.payload.wrong().is_some();
        let is_wrong = is_wrong || self.are_streams_wrong();
        if self.failed_at.is_none() && (is_wrong || self.payload.received() > self.plan.script.incoming()) {
            self.failed_at = Some(now);
        }
    }

    /// Returns the time of the first error. Missing data does not count as one.
    pub(crate) fn failed_at(&self) -> Option<Instant> {
        self.failed_at
    }

    fn act(&mut self, now: Instant, stack: &mut Stack, buffer: &mut [u8]) {
        self.payload.wait_until(now);
        if !self.opened && self.due(now) {
            self.opened = true;
            self.open(now, stack);
        }
        let Some(handle) = self.handle() else {
            return;
        };
        self.check_buffer(stack.readable(handle) as u64);
        self.read(now, stack, handle, buffer);
        self.drive_streams(now, stack, handle, buffer);
        if self.report.connected_at.is_some() && !self.closed {
            let sent = self.send(now, stack, handle);
            self.note(sent);
            self.ask_for_refusals(now, stack, handle);
            self.close(now, stack, handle);
            if self.is_abort_due() {
                self.abort(now, stack, handle);
                return;
            }
        }
        if self.closed && !self.sips && self.streams.as_ref().is_none_or(|streams| streams.is_empty()) {
            self.released = true;
            stack.release(handle);
        }
    }

    fn due(&self, now: Instant) -> bool {
        !self.waits && (matches!(self.plan.open, Open::Listen(..)) || now >= self.plan.at)
    }

    fn open(&mut self, now: Instant, stack: &mut Stack) {
        let [send, receive] = self.plan.buffers;
        let receive = receive.map(|bytes| (OPT_RECEIVE_BUFFER, bytes));
        let mut options: Vec<_> = receive.into_iter().collect();
        if matches!(self.plan.open, Open::Connect { .. }) {
            options.extend(send.map(|bytes| (OPT_SEND_BUFFER, bytes)));
        }
        let mut opened = self.open_with(now, stack, &options);
        self.receive_buffer = self.plan.buffers[1];
        if opened == Err(RequestError::Refused(Errno::UNKNOWN_OPTION)) {
            // The program has its own buffer size, or no buffer.
            options.retain(|(option, _)| *option != OPT_RECEIVE_BUFFER);
            opened = self.open_with(now, stack, &options);
            self.receive_buffer = None;
        }
        if opened == Err(RequestError::AddressInUse) && self.plan.after.is_some() {
            self.opened = false;
            self.plan.at = now + IN_USE_PAUSE;
            return;
        }
        self.note(opened);
    }

    fn open_with(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        options: &[(u32, u64)],
    ) -> Result<(), RequestError> {
        match self.plan.open {
            Open::Listen(local, shared) => stack
                .listen_with(
                    now,
                    local,
                    shared.map_or(BACKLOG, |shared| shared.count.max(BACKLOG)),
                    options,
                )
                .map(|handle| self.listener = Some(handle)),
            Open::Connect { remote, local } => stack
                .connect_with(now, remote, local, options)
                .map(|handle| self.handle = Some(handle)),
            Open::Absent => Ok(()),
        }
    }

    fn is_abort_due(&self) -> bool {
        let so_far = self.sent() + self.received();
        self.plan.abort_after.is_some_and(|after| so_far >= after) && !self.closed
    }

    fn abort(&mut self, now: Instant, stack: &mut Stack, handle: Handle) {
        (self.cut, self.released, self.aborted_at) = (true, true, Some(now));
        stack.abort(now, handle);
        if let Some(streams) = &mut self.streams {
            streams.release(stack);
        }
        stack.release(handle);
    }

    /// Checks that no more bytes wait for the reader than the granted buffer holds.
    fn check_buffer(&mut self, readable: u64) {
        if let Some(buffer) = self.receive_buffer.filter(|buffer| readable > *buffer) {
            self.blame(|| format!("{readable} bytes wait for a reader whose buffer has {buffer}"));
        }
    }

    /// Records the first error of a request, unless the end was finished by then.
    fn note(&mut self, result: Result<(), RequestError>) {
        if let Err(error) = result
            && error != RequestError::WouldBlock
            && !self.is_finished()
        {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// Returns the number of unexpected connections at its listener.
    pub(crate) fn extra_connections(&self) -> u64 {
        self.report.extra_connections
    }

    /// Returns the address of its shared listener, and the address from which its own connection comes.
    pub(crate) fn shares(&self) -> Option<(SocketAddr, SocketAddr)> {
        match self.plan.open {
            Open::Listen(local, shared) => shared.map(|shared| (local, shared.client)),
            Open::Connect { .. } | Open::Absent => None,
        }
    }

    /// Returns true if it is about to open.
    pub(crate) fn is_opening(&self, now: Instant) -> bool {
        !self.opened && self.due(now)
    }

    /// Returns the receive buffer that the program granted, in bytes.
    pub(crate) fn granted_buffer(&self) -> Option<u64> {
        self.receive_buffer
    }

    /// Shares another end's listener, with the receive buffer that the program granted there.
    pub(crate) fn join(&mut self, receive_buffer: Option<u64>) {
        self.opened = true;
        self.receive_buffer = receive_buffer;
    }

    /// Resets an unexpected connection at its listener.
    pub(crate) fn reject(&mut self, now: Instant, child: Handle, stack: &mut Stack) {
        self.report.extra_connections += 1;
        stack.abort(now, child);
        stack.release(child);
    }

    /// Returns the end that it follows.
    pub(crate) fn follows(&self) -> Option<usize> {
        self.plan.after
    }

    /// Returns true if it has or had its connection, so that the listener's next one belongs to its
    /// successor.
    pub(crate) fn has_connection(&self) -> bool {
        self.connected
    }

    /// Returns true if it holds a listener.
    pub(crate) fn is_listening(&self) -> bool {
        self.listener.is_some()
    }

    /// Returns true if this end is over, so that its successor may open.
    pub(crate) fn is_over(&self) -> bool {
        self.cut || self.closed || self.failed.is_some() || self.error.is_some()
    }

    /// Begins a client when the end that it follows is over. Returns true if the client had been waiting.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        matches!(self.plan.open, Open::Connect { .. }) && self.inherit(now)
    }

    /// Makes the end independent of its predecessor, whose host has lost all state: it opens, or listens, by
    /// itself. Returns true if it had been waiting.
    pub(crate) fn inherit(&mut self, now: Instant) -> bool {
        self.plan.at = self.plan.at.max(now);
        std::mem::take(&mut self.waits)
    }

    /// Its host goes down: all that it had opened is lost, and an end without a connection begins again.
    /// Returns true if it had a connection.
    pub(crate) fn fall(&mut self) -> bool {
        self.cut = self.connected && !self.is_over() && !(self.is_finished() && self.is_closed());
        self.listener = None;
        if let Some(streams) = &mut self.streams {
            streams.forget();
        }
        if self.handle.take().is_none() || !self.connected {
            self.opened &= self.connected;
        }
        self.connected
    }

    /// Reads the program's observables; the last values stay when the context has ended.
    pub(crate) fn observe(&mut self, stack: &Stack) {
        let Some(handle) = self.handle() else {
            return;
        };
        let report = &mut self.report;
        report.retransmissions = stack
            .observe(handle, "retransmissions")
            .or(report.retransmissions);
        report.srtt = stack.observe(handle, "srtt").or(report.srtt);
    }

    /// Returns the number of bytes received so far.
    pub(crate) fn received(&self) -> u64 {
        let streams = self.streams.as_ref().map_or(0, |streams| streams.received());
        self.payload.received() + streams
    }

    /// Returns the number of bytes that must have arrived once the other end has sent everything.
    fn promised(&self) -> u64 {
        if self.payload.may_lose() {
            0
        } else {
            self.plan.script.incoming()
        }
    }

    /// Returns the number of bytes after which no more are expected.
    fn expected(&self) -> u64 {
        self.payload.needed(self.plan.script.incoming())
    }

    /// Returns an observable field of its connection.
    pub(crate) fn value_of(&self, stack: &Stack, field: &str) -> Option<u64> {
        stack.observe(self.handle()?, field)
    }

    fn read(&mut self, now: Instant, stack: &mut Stack, handle: Handle, buffer: &mut [u8]) {
        loop {
            let waiting = stack.readable(handle).min(buffer.len());
            let room = self.may_read(now).min(waiting as u64) as usize;
            self.sips = room < waiting;
            if room == 0 {
                return;
            }
            let script = &mut *self.plan.script;
            match self.payload.read((now, room), (stack, handle), buffer, script) {
                Ok(false) => return,
                Ok(true) => self.report.received_at = Some(now),
                Err(error) => return self.note(Err(error)),
            }
        }
    }

    /// Returns the number of bytes that the reader may take now.
    fn may_read(&self, now: Instant) -> u64 {
        let since = self.report.connected_at.unwrap_or(now);
        if now < since + self.plan.read_stop {
            return 0;
        }
        let Some(rate) = self.plan.read_rate else {
            return u64::MAX;
        };
        let budget = u128::from(now.nanos_since(since)) * u128::from(rate) / 1_000_000_000;
        let budget = (budget as u64).saturating_sub(self.received());
        if budget >= self.next_sip() { budget } else { 0 }
    }

    fn next_sip(&self) -> u64 {
        let to_come = match &self.streams {
            Some(streams) => streams.left(),
            None => self.plan.script.incoming().saturating_sub(self.received()),
        };
        SIP.min(to_come).max(1)
    }

    /// Returns the time at which a slow reader next reads.
    fn sip_at(&self) -> Option<Instant> {
        let since = self.report.connected_at?;
        let begin = since + self.plan.read_stop;
        let paced = self
            .plan
            .read_rate
            .map_or(begin, |rate| self.paced_at(since, rate));
        self.sips.then(|| paced.max(begin))
    }

    fn paced_at(&self, since: Instant, rate: u64) -> Instant {
        let bytes = u128::from(self.received() + self.next_sip());
        let wait = (bytes * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        since.plus_nanos(wait.min(u128::from(u64::MAX)) as u64)
    }

    fn send(&mut self, now: Instant, stack: &mut Stack, handle: Handle) -> Result<(), RequestError> {
        if self.closing {
            return Ok(());
        }
        let allowance = self.plan.script.allowance(now, self.received());
        self.allowed = allowance;
        let result = self.payload.push(now, stack, handle, allowance);
        self.plan.script.on_sent(now, self.payload.sent());
        result
    }

    fn close(&mut self, now: Instant, stack: &mut Stack, handle: Handle) {
        let wants = match self.plan.close {
            Close::WhenDone => self.has_all(),
            Close::WhenSent => self.has_sent(),
            // A connection with streams in it ends when the other end leaves.
            Close::AfterPeer if self.streams.is_some() => false,
            Close::AfterPeer => self.has_all() && (self.eof || !self.plan.sees_end),
            Close::Never => false,
        };
        if wants && !self.closing {
            self.closing = true;
            stack.close(now, handle);
            if self.plan.refusals {
                self.ask_after_closing(now, stack, handle);
            }
        }
    }

    fn has_sent(&self) -> bool {
        let streams = self.streams.as_ref().is_none_or(|streams| streams.has_sent());
        streams && self.payload.sent() >= self.plan.script.outgoing() || self.none_came()
    }

    fn has_received(&self) -> bool {
        let streams = self.streams.as_ref().is_none_or(|streams| streams.is_done());
        streams && self.payload.received() >= self.expected()
    }

    fn has_all(&self) -> bool {
        self.has_sent() && self.has_received()
    }

    /// Returns the time at which it has work to do even if no notice arrives.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        if !self.opened {
            return (!self.waits).then_some(if matches!(self.plan.open, Open::Listen(..)) {
                Instant::ORIGIN
            } else {
                self.plan.at
            });
        }
        if self.released || self.cut {
            return None;
        }
        if self.report.connected_at.is_none() {
            return self.payload.gives_up_at();
        }
        let script = self.plan.script.wake_at().filter(|_| !self.closed);
        let gives_up = self.payload.gives_up_at().filter(|_| !self.closed);
        script.into_iter().chain(self.sip_at()).chain(gives_up).min()
    }

    /// Returns true if nothing more is expected of it. Either all is sent and received, and the end of the
    /// stream was seen if the other end closes, or it failed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        if self.streams.is_some() && self.closed && !self.sips {
            return true;
        }
        let ended = self.eof || self.closed || self.plan.close == Close::Never || self.none_came();
        self.cut || self.failed.is_some() || self.error.is_some() || (self.has_all() && ended)
    }

    /// Returns true if it is closed, or never will be.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let is_wrong = self.cut || self.failed.is_some() || self.error.is_some();
        if let Some(streams) = self.streams.as_ref().filter(|_| self.closed && !is_wrong) {
            return streams.is_empty();
        }
        self.is_over() || self.plan.close == Close::Never || self.none_came()
    }

    /// Returns true if no datagram established the connection that it waited for, and its time to wait is
    /// over.
    fn none_came(&self) -> bool {
        self.report.connected_at.is_none() && self.payload.gave_up()
    }

    /// Returns true if its host went down during the flow, if it aborted, or if it is absent.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the time at which it aborted.
    pub(crate) fn aborted_at(&self) -> Option<Instant> {
        self.aborted_at
    }

    /// Returns the time at which the program reported that its connection failed, if that end needed its
    /// peer. The outer `None` means that the connection could do without its peer. `idle` means that it must
    /// also notice with no data to send.
    pub(crate) fn gave_up(&self, idle: bool) -> Option<Option<Instant>> {
        let is_hit = !self.cut && (self.failed.is_some() || !self.is_finished()) && self.error.is_none();
        (is_hit && (idle || !self.has_sent())).then_some(self.gave_up_at)
    }

    /// Returns the handle of its connection until it is released.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.handle.filter(|_| !self.released)
    }
}
