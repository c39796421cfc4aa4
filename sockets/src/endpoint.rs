//! The poll-mode API: connections of a transport program over a device, without an async runtime.
//!
//! An [`Endpoint`] owns a stack and its device, and works only when it is called:
//!
//! 1. [`Endpoint::poll`] receives packets, fires timers and sends the resulting packets. Call it until it
//!    returns `false`, then call [`Endpoint::wait`].
//! 2. [`Endpoint::connect`], [`Endpoint::listen`], [`Endpoint::read`], … never block: they return
//!    [`io::ErrorKind::WouldBlock`] if they cannot proceed now.
//! 3. The packets that result from them leave with the next `poll`.
//!
//! [`Endpoint::bind`], [`Endpoint::call`], [`Endpoint::serve`], … are the same for whole messages: see
//! [`crate::messages`].

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::Bytes;
use hawser_bus::ring::Waker;
use hawser_bus::{AttachmentChange, Bus, SchemaError, SourceId};
use hawser_engine::program::Program;
use hawser_engine::{
    ByHandle, Direction, Errno, ForwardedEvent, Handle, Notice, Observable, RequestError, Stack, StackConfig,
    StackCounters, StepError,
};
use hawser_host::claim::Claim;
use hawser_load::{Attachments, CheckedChange, Installed};
use hawser_time::Instant;

use crate::attach::{APPLICATION, OnBus};
use crate::device::Device;
use crate::error::{ChangeError, OpenError, error_of_request};
use crate::log::{self, Log};
use crate::messages::{Key, Messages};
use crate::options::Options;
use crate::shards::Exchange;

/// One stack on one device.
pub struct Endpoint {
    pub(crate) stack: Stack,
    attachments: Arc<Attachments>,
    pub(crate) device: Box<dyn Device>,
    pub(crate) connections: ByHandle<HandleState>,
    /// The handles that have changed, once `take_changed` has been called.
    changed: Option<Vec<Handle>>,
    /// The time at which bytes were written since the last poll. They leave before the device is asked for
    /// packets, so that an answer waits neither for that nor for another reading of the clock.
    pub(crate) wrote: Option<Instant>,
    messages: Messages,
    #[cfg(feature = "verbs")]
    pub(crate) verbs: Option<hawser_engine::verbs::Device>,
    /// True if a notice about a queue pair has come since the last check.
    #[cfg(feature = "verbs")]
    pub(crate) has_pair_news: bool,
    log: Log,
    /// The channels to the other shards, if there are any.
    pub(crate) exchange: Option<(Arc<Exchange>, Receiver<ForwardedEvent>)>,
    /// The claims to the stack's addresses on its device.
    #[allow(dead_code, reason = "it is held until the endpoint is dropped")]
    pub(crate) claims: Arc<Vec<Claim>>,
    /// True while the stack's contexts are on loan ([`Stack::lend`]).
    pub(crate) is_lent: bool,
}

/// The state of a handle.
#[derive(Debug, Default)]
pub(crate) struct HandleState {
    pub(crate) connected: bool,
    pub(crate) eof: bool,
    pub(crate) closed: bool,
    pub(crate) write_closed: bool,
    pub(crate) failed: Option<Errno>,
    /// The reason for which the peer gave up sending.
    pub(crate) reset: Option<u64>,
    /// The reason for which the peer gave up reading.
    pub(crate) stopped: Option<u64>,
    /// The handles that wait to be accepted: connections of a listener, streams of a connection.
    pub(crate) waiting: VecDeque<Handle>,
    /// For a listener, the maximum number of waiting connections.
    pub(crate) backlog: Option<u32>,
    /// The listener or connection in whose queue it waits to be accepted.
    pub(crate) parent: Option<Handle>,
    /// For a byte stream within a connection, the connection, which ends with it.
    pub(crate) connection: Option<Handle>,
    /// For a connection, true if it is dedicated to a byte stream.
    pub(crate) is_joined: bool,
}

impl Endpoint {
    /// Creates an endpoint that runs `program` on `device`.
    ///
    /// # Errors
    /// Returns an error if the configuration contradicts itself or the device.
    pub fn new(
        program: Arc<dyn Program>,
        config: StackConfig,
        device: Box<dyn Device>,
    ) -> Result<Endpoint, OpenError> {
        let attachments = Arc::new(Attachments::new(program.clone()));
        let messages = Messages::new(config.ephemeral.clone());
        let stack = Stack::new(program, config, device.caps()).map_err(OpenError::Config)?;
        let connections = ByHandle::default();
        Ok(Endpoint {
            stack,
            attachments,
            device,
            connections,
            changed: None,
            wrote: None,
            messages,
            #[cfg(feature = "verbs")]
            verbs: None,
            #[cfg(feature = "verbs")]
            has_pair_news: false,
            log: Log::default(),
            exchange: None,
            claims: Arc::default(),
            is_lent: false,
        })
    }

    /// Receives packets, fires timers, and sends the resulting packets. Returns `true` if there may be more
    /// work.
    ///
    /// # Errors
    /// Returns an error if the device has failed for good.
    pub fn poll(&mut self) -> io::Result<bool> {
        let mut busy = false;
        if let Some(then) = self.wrote.take() {
            busy = self.stack.transmit(then, &mut *self.device)?;
        }
        let now = self.device.now();
        busy |= self.stack.poll(now, &mut *self.device)?;
        if let Some((exchange, arrived)) = &self.exchange {
            busy |= exchange.events(&mut self.stack, arrived);
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            log::state(&self.stack, handle, notice);
            if !self.note_pair(handle, &notice) && !self.messages.note(&mut self.stack, now, handle, notice) {
                self.note(handle, notice);
            }
        }
        self.messages.work(&mut self.stack, now);
        if self.messages.take_wrote() {
            self.wrote = Some(now);
            busy = true;
        }
        self.log.drops(&self.stack);
        Ok(busy)
    }

    /// Sleeps until the device has packets, a timer is due, or `limit` has passed.
    ///
    /// # Errors
    /// Returns an error if the device has failed for good.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let timer = self.next_deadline().map(|at| at - self.device.now());
        let limit = match (limit, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.lend();
        self.device.wait(limit)?;
        self.take_back()
    }

    /// Lends the stack's contexts to a front, which may run chains until [`Endpoint::take_back`], while the
    /// stack sleeps.
    pub(crate) fn lend(&mut self) {
        self.is_lent = self.wrote.is_none() && self.stack.lend(&mut *self.device);
    }

    /// Takes the contexts back when the stack is awake.
    pub(crate) fn take_back(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_lent) {
            return Ok(());
        }
        let now = self.device.now();
        self.stack.take_back(now, &mut *self.device)
    }

    /// Calls `act` with the time and the stack, for observing it.
    pub fn with_stack<T>(&mut self, act: impl FnOnce(Instant, &mut Stack) -> T) -> T {
        let now = self.device.now();
        act(now, &mut self.stack)
    }

    /// Puts the program on a bus from now on: its signals can be received, its variables read and set, and
    /// processors can be attached to it. A signal that an attachment declares is an event, too:
    /// `tcp.cap.reached` is `reached` of `cap`. `waker` is called when there are orders for the endpoint, and
    /// must cause it to be polled.
    ///
    /// # Errors
    /// Returns an error if the program declares more than a provider can have.
    pub fn interact(&mut self, bus: &Bus, waker: Option<Waker>) -> Result<SourceId, SchemaError> {
        let schema = hawser_engine::schema(self.stack.module())?;
        let attachable = Arc::new(OnBus::new(self.attachments.clone()));
        let source = bus.attachable_source(Arc::new(schema), waker, attachable);
        let id = source.id();
        self.stack.interact(source);
        Ok(id)
    }

    /// Attaches a text in the language to the program. Its processors run in the program's chains from the
    /// next event on, until it is detached. They run before or after the processors that the text names
    /// (`attach cap after cc;`). It replaces an attachment of the same name. Chains that it changes are
    /// interpreted.
    ///
    /// Checking the text takes some 15 ms, in which the endpoint is not polled. Clients of a bus and
    /// [`Network::attach`](crate::Network::attach) have it checked in another thread.
    ///
    /// # Errors
    /// Returns the errors in the text as `hawser check` reports them; the program continues unchanged.
    pub fn attach(&mut self, name: &str, text: &str) -> Result<(), ChangeError> {
        let next = self.attachments.attach(name, text, &[], APPLICATION)?;
        self.go_on(
            next,
            AttachmentChange::Attach { name, text, params: &[], who: APPLICATION },
        )?;
        Ok(())
    }

    /// Detaches an attachment. Once the last one is detached, all chains run as before.
    ///
    /// # Errors
    /// Returns an error if there is no such attachment.
    pub fn detach(&mut self, name: &str) -> Result<(), ChangeError> {
        let next = self.attachments.detach(name)?;
        self.go_on(next, AttachmentChange::Detach { name, why: "" })?;
        Ok(())
    }

    /// Returns all current attachments of the program, from all owners.
    #[must_use]
    pub fn attached(&self) -> Vec<Installed> {
        self.attachments.list()
    }

    /// Returns the attachments, which check changes.
    pub(crate) fn attachments(&self) -> &Arc<Attachments> {
        &self.attachments
    }

    /// Carries out a checked change.
    pub(crate) fn go_on(
        &mut self,
        next: CheckedChange,
        change: AttachmentChange<'_>,
    ) -> Result<(), StepError> {
        self.attachments
            .go(next, &mut |program| self.stack.swap_program(program))?;
        let now = self.device.now();
        self.stack.note_change(now, APPLICATION, change);
        Ok(())
    }

    /// Returns the number of packets and events for other shards that were lost for lack of room between
    /// them.
    #[must_use]
    pub fn lost_between_shards(&self) -> u64 {
        self.exchange.as_ref().map_or(0, |(exchange, _)| exchange.lost())
    }

    /// Returns the time at which the next timer is due, on the device's clock.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let messages = self.messages.next_deadline();
        [self.stack.next_deadline(), self.device.next_deadline(), messages]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns true if frames wait for room in the device; [`Endpoint::wait`] waits for that, too.
    #[must_use]
    pub fn wants_device(&self) -> bool {
        self.stack.wants_wire()
    }

    /// Returns the time of the device's clock.
    pub fn now(&mut self) -> Instant {
        self.device.now()
    }

    /// Opens a listener. At most `backlog` connections wait to be accepted.
    ///
    /// # Errors
    /// Returns the program's refusal, [`io::ErrorKind::AddrInUse`], or an error for a full table.
    pub fn listen(&mut self, local: SocketAddr, backlog: u32) -> io::Result<Handle> {
        self.listen_with(local, backlog, &Options::new())
    }

    /// [`Endpoint::listen`] with options, which its connections inherit.
    ///
    /// # Errors
    /// As [`Endpoint::listen`] and [`Endpoint::set_option`].
    pub fn listen_with(&mut self, local: SocketAddr, backlog: u32, options: &Options) -> io::Result<Handle> {
        let now = self.request_time();
        let opened = self.stack.listen_with(now, local, backlog, options.pairs());
        log::opened("listen", local, &opened);
        let handle = opened.map_err(error_of_request)?;
        let state = HandleState { backlog: Some(backlog), ..HandleState::default() };
        self.connections.insert(handle, state);
        Ok(handle)
    }

    /// Takes the next connection of a listener, or the next stream of a connection. See
    /// [`Endpoint::accept_stream`] for byte streams over any program.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if there is nothing to accept, or the reason for which the
    /// listener failed.
    pub fn accept(&mut self, listener: Handle) -> io::Result<Handle> {
        let state = self.state(listener)?;
        let Some(handle) = state.waiting.pop_front() else {
            return Err(state.nothing_waits());
        };
        // Connections with streams have been counted as accepted already.
        if state.backlog.is_none() || !self.stack.has_streams() {
            self.stack.accept(listener);
        }
        self.state(handle)?.parent = None;
        Ok(handle)
    }

    /// Opens a connection, which is usable once [`Endpoint::connected`] returns true. See
    /// [`Endpoint::byte_stream`] for byte streams over any program.
    ///
    /// # Errors
    /// Returns the program's refusal, or an error for a missing route or a full table.
    pub fn connect(&mut self, remote: SocketAddr) -> io::Result<Handle> {
        self.connect_with(remote, &Options::new())
    }

    /// [`Endpoint::connect`] with options, in force before the first packet leaves.
    ///
    /// # Errors
    /// As [`Endpoint::connect`] and [`Endpoint::set_option`].
    pub fn connect_with(&mut self, remote: SocketAddr, options: &Options) -> io::Result<Handle> {
        let now = self.request_time();
        let opened = self.stack.connect_with(now, remote, None, options.pairs());
        log::opened("connect", remote, &opened);
        let handle = opened.map_err(error_of_request)?;
        self.connections.insert(handle, HandleState::default());
        Ok(handle)
    }

    /// Sets an option of a connection or a listener: an `OPT_…` constant of [`crate::options`].
    ///
    /// # Errors
    /// Returns errno `ENOPROTOOPT` for an option that the program does not know,
    /// [`io::ErrorKind::InvalidInput`] for a value that it does not accept, or
    /// [`io::ErrorKind::NotConnected`] once the connection has ended.
    pub fn set_option(&mut self, handle: Handle, option: u32, value: u64) -> io::Result<()> {
        let now = self.request_time();
        let connection = self.connection_of(handle);
        let mut set = |handle| self.stack.set_option(now, handle, option, value);
        let unknown = Err(RequestError::Refused(Errno::UNKNOWN_OPTION));
        let outcome = match set(handle) {
            outcome if outcome == unknown && connection != handle => set(connection),
            outcome => outcome,
        };
        outcome.map_err(error_of_request)
    }

    /// Returns true if a connection is open.
    ///
    /// # Errors
    /// Returns the reason for which it could not be opened.
    pub fn connected(&mut self, handle: Handle) -> io::Result<bool> {
        let state = self.state(handle)?;
        match state.failure() {
            Some(error) => Err(error),
            None => Ok(state.connected),
        }
    }

    /// Reads received bytes; 0 means that the peer will send no more.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] while no bytes are available, or the reason for which the
    /// connection failed.
    pub fn read(&mut self, handle: Handle, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        // A spinning caller asks again and again: an empty answer must not cost a reading of the clock.
        if self.stack.readable(handle) > 0 {
            return self.stack.take(handle, out).map_err(error_of_request);
        }
        let state = self.state(handle)?;
        if let Some(error) = state.failure() {
            return Err(error);
        }
        if state.reset.is_some() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if state.eof || state.closed {
            return Ok(0);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Accepts bytes for sending; returns their number.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] while there is no room, [`io::ErrorKind::BrokenPipe`] after
    /// [`Endpoint::shutdown`], or the reason for which the connection failed.
    pub fn write(&mut self, handle: Handle, bytes: &[u8]) -> io::Result<usize> {
        self.write_by(handle, bytes.is_empty(), |stack, now| {
            stack.send(now, handle, bytes)
        })
    }

    /// Accepts bytes for sending without copying them; returns their number. Packets refer to the bytes, so
    /// the whole allocation behind `bytes` stays in memory until the peer has acknowledged the accepted ones.
    /// Fewer than 1,024 bytes are copied nevertheless, and so are bytes that a device cannot read in place
    /// (an adapter of DPDK, AF_XDP).
    ///
    /// # Errors
    /// As [`Endpoint::write`].
    pub fn write_shared(&mut self, handle: Handle, bytes: &Bytes) -> io::Result<usize> {
        self.write_by(handle, bytes.is_empty(), |stack, now| {
            stack.send_shared(now, handle, bytes)
        })
    }

    fn write_by(
        &mut self,
        handle: Handle,
        is_empty: bool,
        send: impl FnOnce(&mut Stack, Instant) -> Result<usize, RequestError>,
    ) -> io::Result<usize> {
        let state = self.state(handle)?;
        if let Some(error) = state.failure() {
            return Err(error);
        }
        if state.write_closed || state.closed || state.stopped.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if is_empty {
            return Ok(0);
        }
        let now = self.request_time();
        match send(&mut self.stack, now).map_err(error_of_request)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => {
                self.wrote = Some(now);
                Ok(n)
            }
        }
    }

    /// Announces that no more will be written; bytes already written still leave.
    pub fn shutdown(&mut self, handle: Handle) {
        let now = self.request_time();
        if let Some(state) = self.connections.get_mut(&handle)
            && !state.write_closed
        {
            state.write_closed = true;
            log::ended("shutdown", &self.stack, handle);
            self.stack.close(now, handle);
        }
    }

    /// Shuts a handle down and releases it: bytes already written still leave, and later input is discarded.
    /// The connection of a byte stream ends with it.
    pub fn close(&mut self, handle: Handle) {
        let is_read_open = self.is_read_open(handle);
        let Some(state) = self.connections.remove(&handle) else {
            return;
        };
        self.abort_waiting(state.waiting);
        log::ended("close", &self.stack, handle);
        let now = self.request_time();
        if state.connection.is_some() && is_read_open {
            // Stopping a stream that is over has no effect.
            let _ = self.stack.stop(now, handle, 0);
        }
        self.stack.finish(now, handle);
        state
            .connection
            .into_iter()
            .for_each(|connection| self.close(connection));
    }

    /// Releases a handle and drops its data in flight. The connection of a byte stream ends with it.
    pub fn abort(&mut self, handle: Handle) {
        log::ended("abort", &self.stack, handle);
        let now = self.request_time();
        self.stack.abort(now, self.connection_of(handle));
        self.give_back(handle);
    }

    /// Opens a stream within a connection, for a program that offers streams.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] while the peer allows no more of them or there is no room,
    /// [`io::ErrorKind::Unsupported`] if the program's connections have no streams, or the reason for which
    /// the connection failed.
    pub fn open_stream(&mut self, connection: Handle, direction: Direction) -> io::Result<Handle> {
        if let Some(error) = self.state(connection)?.failure() {
            return Err(error);
        }
        let now = self.request_time();
        let opened = self.stack.open_stream(now, connection, direction);
        let handle = opened
            .map_err(error_of_request)?
            .ok_or(io::ErrorKind::WouldBlock)?;
        let state = HandleState { connected: true, ..HandleState::default() };
        self.connections.insert(handle, state);
        self.wrote = Some(now);
        Ok(handle)
    }

    /// Gives up the sent bytes of a stream that have not arrived; the peer's application receives the reason.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`] if the program does not support reasons, or
    /// [`io::ErrorKind::NotConnected`] once the stream is over.
    pub fn reset(&mut self, stream: Handle, reason: u64) -> io::Result<()> {
        self.state(stream)?.write_closed = true;
        let now = self.request_time();
        self.stack.reset(now, stream, reason).map_err(error_of_request)
    }

    /// Stops reading a stream, and asks the peer not to send more; the peer's application receives the
    /// reason.
    ///
    /// # Errors
    /// As [`Endpoint::reset`].
    pub fn stop(&mut self, stream: Handle, reason: u64) -> io::Result<()> {
        self.state(stream)?.eof = true;
        let now = self.request_time();
        self.stack.stop(now, stream, reason).map_err(error_of_request)
    }

    /// Sends a datagram on a connection, beside its streams: it arrives whole or not at all (RFC 9221).
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] while there is no room, errno `EMSGSIZE` if it can never fit,
    /// the program's refusal, or the reason for which the connection failed.
    pub fn send_datagram(&mut self, connection: Handle, datagram: &[u8]) -> io::Result<()> {
        if let Some(error) = self.state(connection)?.failure() {
            return Err(error);
        }
        let now = self.request_time();
        let sent = self.stack.send_message(now, connection, datagram);
        if !sent.map_err(error_of_request)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.wrote = Some(now);
        Ok(())
    }

    /// Takes the next datagram received on a connection.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if no datagram is waiting, or the reason for which the
    /// connection failed.
    pub fn recv_datagram(&mut self, connection: Handle) -> io::Result<Vec<u8>> {
        let mut datagram = Vec::new();
        if self.stack.readable(connection) > 0 {
            let now = self.request_time();
            let taken = self.stack.recv_message(now, connection, &mut datagram);
            if taken.map_err(error_of_request)? {
                return Ok(datagram);
            }
        }
        let state = self.state(connection)?;
        Err(state.failure().unwrap_or_else(|| match state.closed {
            true => io::ErrorKind::ConnectionAborted.into(),
            false => io::ErrorKind::WouldBlock.into(),
        }))
    }

    /// Returns the reason for which the peer gave up sending on a stream, if it did.
    #[must_use]
    pub fn reset_reason(&self, stream: Handle) -> Option<u64> {
        self.connections.get(&stream)?.reset
    }

    /// Returns the reason for which the peer stopped reading a stream; `None` once it has all bytes.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] while neither has happened, or the reason for which the stream
    /// failed.
    pub fn stopped(&mut self, stream: Handle) -> io::Result<Option<u64>> {
        let state = self.state(stream)?;
        match (state.stopped, state.failure()) {
            (Some(reason), _) => Ok(Some(reason)),
            (None, Some(error)) => Err(error),
            (None, None) if state.closed => Ok(None),
            (None, None) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Returns true if this end sends on a stream.
    #[must_use]
    pub fn sends_on(&self, stream: Handle) -> bool {
        self.stack.sends_on(stream)
    }

    /// Returns true if bytes of a stream may still arrive.
    pub(crate) fn is_read_open(&self, stream: Handle) -> bool {
        let state = self.connections.get(&stream);
        state.is_some_and(|state| {
            !state.eof && !state.closed && state.reset.is_none() && state.failed.is_none()
        })
    }

    /// Returns the remote end of a connection.
    #[must_use]
    pub fn peer(&self, handle: Handle) -> Option<SocketAddr> {
        self.stack.peer(self.connection_of(handle))
    }

    /// Returns the local end of a connection or listener.
    #[must_use]
    pub fn local(&self, handle: Handle) -> Option<SocketAddr> {
        self.stack.local(self.connection_of(handle))
    }

    /// Returns a state variable that the program declares `observable`: `cwnd`, `srtt`, `cc.ssthresh`. For a
    /// byte stream within a connection, the connection's variables are included.
    #[must_use]
    pub fn observe(&self, handle: Handle, field: &str) -> Option<u64> {
        self.read_observable(handle, self.observable(handle, field)?)
    }

    /// Resolves the name of such a variable, for [`Endpoint::read_observable`].
    #[must_use]
    pub fn observable(&self, handle: Handle, field: &str) -> Option<Observable> {
        let own = self.stack.observable(handle, field);
        own.or_else(|| self.stack.observable(self.connection_of(handle), field))
    }

    /// Returns the value of such a variable.
    #[must_use]
    pub fn read_observable(&self, handle: Handle, observable: Observable) -> Option<u64> {
        let own = self.stack.read_observable(handle, observable);
        own.or_else(|| self.stack.read_observable(self.connection_of(handle), observable))
    }

    /// Returns the counters of the stack, which include every dropped or refused item, by cause.
    #[must_use]
    pub fn counters(&self) -> &StackCounters {
        self.stack.counters()
    }

    /// Returns the number of living contexts, including listeners.
    #[must_use]
    pub fn contexts(&self) -> usize {
        self.stack.contexts()
    }

    /// Returns the bytes held for applications over all connections: those accepted for sending and not yet
    /// acknowledged, and the memory of received data.
    #[must_use]
    pub fn held_bytes(&self) -> (u64, u64) {
        self.stack.held_bytes()
    }

    /// Appends the handles that have changed since the last call, for callers with too many to ask each.
    /// Changes are recorded from the first call on, and a handle may appear several times.
    pub fn take_changed(&mut self, into: &mut Vec<Handle>) {
        into.append(self.changed.get_or_insert_default());
    }

    /// Appends the message sockets and calls that have changed since the last call.
    pub(crate) fn take_changed_messages(&mut self, into: &mut Vec<Key>) {
        self.messages.take_changed(into);
    }

    /// Calls `act` with messages, the stack and the time; the resulting packets leave with the next poll.
    pub(crate) fn with_messages<T>(
        &mut self,
        act: impl FnOnce(&mut Messages, &mut Stack, Instant) -> T,
    ) -> T {
        let now = self.request_time();
        let result = act(&mut self.messages, &mut self.stack, now);
        if self.messages.take_wrote() {
            self.wrote = Some(now);
        }
        result
    }

    pub(crate) fn messages(&self) -> &Messages {
        &self.messages
    }

    pub(crate) fn messages_mut(&mut self) -> &mut Messages {
        &mut self.messages
    }

    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Returns the time of a request. Bytes written before leave at the latest request's time, because time
    /// does not go backwards for the stack.
    pub(crate) fn request_time(&mut self) -> Instant {
        let now = self.device.now();
        self.wrote = self.wrote.map(|_| now);
        now
    }

    pub(crate) fn state(&mut self, handle: Handle) -> io::Result<&mut HandleState> {
        self.connections
            .get_mut(&handle)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn note(&mut self, handle: Handle, notice: Notice) {
        if let Notice::Accepted(child) = notice {
            self.note_accepted(handle, child);
        }
        let Some(state) = self.connections.get_mut(&handle) else {
            return;
        };
        match notice {
            Notice::Connected => state.connected = true,
            Notice::Eof => state.eof = true,
            Notice::Closed => state.closed = true,
            Notice::Failed(errno) => state.failed = Some(errno),
            Notice::Reset(reason) => state.reset = Some(reason),
            Notice::Stopped(reason) => state.stopped = Some(reason),
            Notice::Accepted(_) | Notice::Readable | Notice::Writable | Notice::Message(_) => {}
        }
        self.note_change(handle);
        self.forget_ended(handle, notice);
    }

    pub(crate) fn note_change(&mut self, handle: Handle) {
        self.changed.iter_mut().for_each(|changed| changed.push(handle));
    }

    /// Releases a handle and the handles that wait to be accepted under it. The program continues by itself.
    fn give_back(&mut self, handle: Handle) {
        let Some(state) = self.connections.remove(&handle) else {
            return;
        };
        self.abort_waiting(state.waiting);
        self.stack.release(handle);
        state
            .connection
            .into_iter()
            .for_each(|connection| self.give_back(connection));
    }

    fn abort_waiting(&mut self, waiting: VecDeque<Handle>) {
        waiting.into_iter().for_each(|waiting| self.abort(waiting));
    }
}

impl HandleState {
    fn failure(&self) -> Option<io::Error> {
        self.failed.map(Errno::to_io)
    }

    /// Returns the reason why no connection or stream can be accepted now.
    pub(crate) fn nothing_waits(&self) -> io::Error {
        self.failure().unwrap_or_else(|| match self.closed {
            true => io::ErrorKind::ConnectionAborted.into(),
            false => io::ErrorKind::WouldBlock.into(),
        })
    }
}
