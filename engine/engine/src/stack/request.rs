//! The requests of applications. A request runs its chain at once; its packets leave with the next
//! [`Stack::poll`].

use std::net::SocketAddr;

use bytes::Bytes;
use hawser_ir::AppOp;
use hawser_ir::abi::{Id, OPT_REUSE_PORT, Op};
use hawser_ir::buf::{Input, NET_ZERO};
use hawser_time::Instant;

use super::{RequestError, Stack};
use crate::chain::{Buffer, Cause, Denied, InputOutcome};
use crate::data::{PagePool, Units};
use crate::net;
use crate::state::{ANYBODY, Errno, FlowEnd, FlowKey, GivenUp, Handle, Notice, PortClaim, Slot};
use crate::tables::op_index;

const OP_ZERO: Op = Op {
    self_id: Id::NONE,
    local_ip: [0; 16],
    remote_ip: [0; 16],
    addr: 0,
    len: 0,
    sub: 0,
    arg: 0,
    path_mtu: 0,
    backlog: 0,
    local_port: 0,
    remote_port: 0,
    option: 0,
    code: 0,
    flags: 0,
    key: 0,
    remote_key: 0,
    at: 0,
    remote_at: 0,
    value: 0,
    swap: 0,
    link_mtu: 0,
    receive_limit: 0,
};

impl Stack {
    /// Opens a listener. Its new connections are reported by [`Notice::Accepted`]. The unspecified address
    /// stands for all of the stack's own.
    ///
    /// # Errors
    /// See [`RequestError`]; no state remains.
    pub fn listen(&mut self, now: Instant, local: SocketAddr, backlog: u32) -> Result<Handle, RequestError> {
        self.listen_with(now, local, backlog, &[])
    }

    /// [`Stack::listen`] with options that are set before the first connection arrives: pairs of an `OPT_…`
    /// constant of [`hawser_ir::abi`] and a value. Connections inherit them.
    ///
    /// # Errors
    /// See [`RequestError`] and [`Stack::set_option`]; no state remains.
    pub fn listen_with(
        &mut self,
        now: Instant,
        local: SocketAddr,
        backlog: u32,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let address = if local.ip().is_unspecified() {
            [0; 16]
        } else {
            net::to_bytes(local.ip())
        };
        let flow = FlowKey { local: (address, local.port()), remote: ANYBODY };
        let op = Op { backlog, ..self.opening(&flow) };
        self.open(now, AppOp::Listen, op, flow, options)
    }

    /// Opens a connection. [`Notice::Connected`] or [`Notice::Failed`] reports the result. The stack chooses
    /// the local address and port unless they are given (port 0 counts as not given).
    ///
    /// # Errors
    /// See [`RequestError`]; no state remains.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Result<Handle, RequestError> {
        self.connect_with(now, remote, local, &[])
    }

    /// [`Stack::connect`] with options that are set, in order, before the first packet leaves: pairs of an
    /// `OPT_…` constant of [`hawser_ir::abi`] and a value.
    ///
    /// # Errors
    /// See [`RequestError`] and [`Stack::set_option`]; no state remains.
    pub fn connect_with(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let source = local.filter(|local| !local.ip().is_unspecified());
        let source = source.map_or(ANYBODY.0, |local| net::to_bytes(local.ip()));
        let route = self.route(source, remote)?;
        self.calls += 1;
        let port = local.map_or(0, |local| local.port());
        self.connect_as(now, self.calls, route, port, options)
    }

    /// Opens a connection under a number that the caller chooses, on a [`Stack::route`].
    pub(super) fn connect_as(
        &mut self,
        now: Instant,
        number: u64,
        (source, far, path_mtu): ([u8; 16], FlowEnd, u32),
        port: u16,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let port = match port {
            0 => self.chains.state.ports.pick(source, far).ok_or(
                match self.chains.state.ports.is_reached(0, far) {
                    true => RequestError::NoPort,
                    false => RequestError::OtherShard,
                },
            )?,
            port => port,
        };
        if !self.chains.state.ports.is_reached(port, far) {
            return Err(RequestError::OtherShard);
        }
        let flow = FlowKey { local: (source, port), remote: far };
        let op = Op { path_mtu, sub: number, ..self.opening(&flow) };
        self.open(now, AppOp::Connect, op, flow, options)
    }

    /// Returns an opening request, with the values that are common to all of them.
    fn opening(&self, flow: &FlowKey) -> Op {
        let limit = self.chains.state.limits.rx_bytes;
        Op {
            link_mtu: self.interface.mtu(),
            receive_limit: u32::try_from(limit).unwrap_or(u32::MAX),
            ..op_of(flow)
        }
    }

    /// Returns the source address towards a peer, the peer's end, and the largest packet on the path. The
    /// source is `source` unless that is [`ANYBODY`]'s.
    pub(super) fn route(
        &mut self,
        source: [u8; 16],
        peer: SocketAddr,
    ) -> Result<([u8; 16], FlowEnd, u32), RequestError> {
        let mut net = NET_ZERO;
        net.dst_ip = net::to_bytes(peer.ip());
        net.src_ip = source;
        let path_mtu = self
            .interface
            .route(&mut net)
            .map_err(RequestError::Unreachable)?;
        if net.src_ip == ANYBODY.0 {
            let source = self.interface.source_towards(&net.dst_ip);
            net.src_ip = source.map_err(RequestError::Unreachable)?;
        }
        Ok((net.src_ip, (net.dst_ip, peer.port()), path_mtu))
    }

    /// Runs `listen` or `connect` for a new handle, then its options, then the raised events.
    fn open(
        &mut self,
        now: Instant,
        kind: AppOp,
        op: Op,
        flow: FlowKey,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let parser = self.chains.tables.app[op_index(kind)].ok_or(RequestError::Unsupported(kind))?;
        let shared = kind == AppOp::Listen && options.contains(&(OPT_REUSE_PORT, 1));
        let ports = &mut self.chains.state.ports;
        let taken = match shared {
            true if ports.share(flow.local) => PortClaim::Alone,
            true => PortClaim::No,
            false => ports.take(flow.local, flow.remote),
        };
        if taken == PortClaim::No {
            return Err(RequestError::AddressInUse);
        }
        let Some(handle) = self.chains.state.handles.open() else {
            self.chains.state.ports.give(flow.local, flow.remote);
            return Err(RequestError::Limit("handles"));
        };
        let application = Cause::application(Buffer::default());
        let cause = Cause { flow: Some(flow), handle: Some(handle), shared, ..application };
        // Raised events run after the options are set.
        let budget = std::mem::take(&mut self.chains.state.raised.budget);
        let outcome = self.run(now, kind, parser, &op, &cause);
        let context = self
            .chains
            .state
            .handles
            .get(handle)
            .and_then(|entry| entry.context);
        let result = match (outcome, context) {
            (Ok(_), Some(slot)) => {
                let entry = self.chains.state.contexts.entry_mut(slot);
                (entry.owns_port, entry.flow) = (true, Some(flow));
                self.set_first_options(now, handle, options)
            }
            // The program has no chain for the request, or the request failed and ended its context at once.
            (outcome, _) => {
                self.chains.state.ports.give(flow.local, flow.remote);
                self.chains.state.handles.close(handle);
                Err(match outcome {
                    Err(Denied::Refused(Errno::OVERFLOW)) => {
                        RequestError::ReceiveBuffer(self.chains.state.limits.rx_bytes)
                    }
                    Err(denied) => denied.into(),
                    // If ids are made of the two ends, the request went to the existing connection, which
                    // ignored it.
                    Ok(_) if taken == PortClaim::Shared => RequestError::AddressInUse,
                    Ok(_) => RequestError::NothingOpened,
                })
            }
        };
        self.chains.state.raised.budget = budget;
        self.chains.memory.begin_input();
        self.chains.run_raised(now, &cause);
        result.map(|()| handle)
    }

    /// Copies bytes into the sending unit and returns how many were accepted, which is fewer than given if
    /// room is short. If it returns 0 for lack of room, [`Notice::Writable`] follows when there is room. If
    /// it returns 0 because the program refused with `EAGAIN`, the notice follows when bytes have left the
    /// sending units and once the program has reacted to another event.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn send(&mut self, now: Instant, handle: Handle, bytes: &[u8]) -> Result<usize, RequestError> {
        let (slot, len) = self.sendable(handle, bytes.len())?;
        let buffer = Buffer::after(&mut self.last_buffer, &bytes[..len], &[]);
        self.send_buffer(now, (handle, slot), buffer)
    }

    /// [`Stack::send`] without a copy: the sending unit and its packets refer to the bytes until the program
    /// no longer needs them. Fewer than 1,024 bytes are copied nevertheless.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn send_shared(
        &mut self,
        now: Instant,
        handle: Handle,
        bytes: &Bytes,
    ) -> Result<usize, RequestError> {
        let (slot, len) = self.sendable(handle, bytes.len())?;
        let bytes = bytes.slice(..len);
        let buffer = Buffer::shared(&mut self.last_buffer, &bytes);
        self.send_buffer(now, (handle, slot), buffer)
    }

    /// Returns the context, and how many of `len` bytes it has room for. If it has no room, a notice will
    /// report room later.
    fn sendable(&mut self, handle: Handle, len: usize) -> Result<(Slot, usize), RequestError> {
        let slot = self.context_of(handle)?;
        let room = self.chains.state.room_to_send(slot) as usize;
        let room = len.min(room).min(u32::MAX as usize);
        if room == 0 && len > 0 {
            self.chains.state.block(slot, false);
        }
        Ok((slot, room))
    }

    fn send_buffer(
        &mut self,
        now: Instant,
        on: (Handle, Slot),
        buffer: Buffer<'_>,
    ) -> Result<usize, RequestError> {
        let parser = self.sends()?;
        let len = buffer.len();
        let is_taken = len > 0 && self.offer(now, on, parser, buffer)?;
        Ok(if is_taken { len } else { 0 })
    }

    /// Returns the program's parser for `send`.
    pub(super) fn sends(&self) -> Result<usize, RequestError> {
        self.chains.tables.app[op_index(AppOp::Send)].ok_or(RequestError::Unsupported(AppOp::Send))
    }

    /// Offers bytes that fit to the program. Returns false if the program has no room of its own.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        (handle, slot): (Handle, Slot),
        parser: usize,
        buffer: Buffer<'_>,
    ) -> Result<bool, RequestError> {
        let mut op = self.op(slot);
        (op.addr, op.len) = (buffer.addr(), buffer.len() as u64);
        let cause = Cause { handle: Some(handle), ..Cause::application(buffer) };
        match self.run(now, AppOp::Send, parser, &op, &cause) {
            Ok(_) => Ok(true),
            Err(Denied::NoRoom) => {
                self.chains.state.block(slot, true);
                Ok(false)
            }
            // The program lacks room of its own kind, such as room for another message.
            Err(Denied::Refused(Errno::AGAIN)) => {
                self.chains.state.put_off(slot);
                Ok(false)
            }
            Err(denied) => Err(denied.into()),
        }
    }

    /// Copies received bytes out and returns their number; 0 if no bytes are available now. The program is
    /// notified afterwards.
    ///
    /// # Errors
    /// Returns [`RequestError::BadHandle`].
    pub fn recv(&mut self, now: Instant, handle: Handle, out: &mut [u8]) -> Result<usize, RequestError> {
        let (len, unreported) = self.read(handle, |units, pages| units.read(out, pages))?;
        unreported.into_iter().for_each(|slot| self.deliver(now, slot));
        Ok(len)
    }

    /// Does the same as `recv`, but notifies the program with the next [`Stack::poll`],
    /// [`Stack::close`] or [`Stack::finish`]. The application's answer can leave before that.
    ///
    /// # Errors
    /// Returns [`RequestError::BadHandle`].
    pub fn take(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, RequestError> {
        let (len, unreported) = self.read(handle, |units, pages| units.read(out, pages))?;
        unreported
            .into_iter()
            .for_each(|slot| self.chains.state.defer(slot));
        Ok(len)
    }

    /// Moves received bytes out by a function that returns their number. Returns the number, and the context
    /// whose program is still to be notified.
    pub(super) fn read(
        &mut self,
        handle: Handle,
        from: impl FnOnce(&mut Units, &mut PagePool) -> usize,
    ) -> Result<(usize, Option<Slot>), RequestError> {
        let entry = self
            .chains
            .state
            .handles
            .get_mut(handle)
            .ok_or(RequestError::BadHandle)?;
        let Some(slot) = entry.context else {
            let Some(after) = &mut entry.after else {
                return Ok((0, None));
            };
            let before = after.units.receiving_memory();
            let len = from(&mut after.units, &mut self.chains.state.pages);
            self.chains.state.rx_held -= before - after.units.receiving_memory();
            return Ok((len, None));
        };
        let entry = self.chains.state.contexts.entry_mut(slot);
        let before = entry.units.receiving_memory();
        let len = from(&mut entry.units, &mut self.chains.state.pages);
        self.chains.state.rx_held -= before - entry.units.receiving_memory();
        if len == 0 || !self.chains.state.reports_taken {
            return Ok((len, None));
        }
        entry.deferred.taken += len as u64;
        Ok((len, Some(slot)))
    }

    /// Returns the number of bytes that can be read now.
    #[must_use]
    pub fn readable(&self, handle: Handle) -> usize {
        let units = self
            .chains
            .state
            .handles
            .get(handle)
            .and_then(|entry| match entry.context {
                Some(slot) => Some(&self.chains.state.contexts.entry(slot).units),
                None => entry.after.as_ref().map(|after| &after.units),
            });
        units.map_or(0, |units| units.readable() as usize)
    }

    /// Returns the number of bytes that [`Stack::send`] would accept now.
    #[must_use]
    pub fn writable(&self, handle: Handle) -> usize {
        self.context_of(handle)
            .map_or(0, |slot| self.chains.state.room_to_send(slot)) as usize
    }

    /// Ends sending by the application. The handle remains valid until it is released.
    pub fn close(&mut self, now: Instant, handle: Handle) {
        let Some(entry) = self.chains.state.handles.get_mut(handle) else {
            return;
        };
        let first = !std::mem::replace(&mut entry.closing, true);
        if let (true, Some(slot)) = (first, entry.context) {
            self.chains.state.contexts.entry_mut(slot).deferred.close = true;
            self.deliver(now, slot);
        }
    }

    /// Drops the connection and all its data at once. The context of a program without `abort` ends without a
    /// packet to the peer.
    pub fn abort(&mut self, now: Instant, handle: Handle) {
        if let Ok(slot) = self.context_of(handle) {
            self.chains.state.contexts.entry_mut(slot).deferred.abort = true;
            self.deliver(now, slot);
        }
    }

    /// Releases the handle. A connection that was closed continues to its orderly end; any other is aborted
    /// with the next poll, and the program is notified. Bytes that arrive later are discarded.
    pub fn release(&mut self, handle: Handle) {
        let Some(mut entry) = self.chains.state.handles.close(handle) else {
            return;
        };
        if let Some(mut after) = entry.after.take() {
            self.chains.state.rx_held -= after.units.receiving_memory();
            after
                .units
                .clear(&mut self.chains.state.chunks, &mut self.chains.state.pages);
        }
        let Some(slot) = entry.context else { return };
        let context = self.chains.state.contexts.entry_mut(slot);
        context.handle = None;
        context.orphan = true;
        context.deferred.abort |= !entry.closing;
        context.deferred.release = true;
        self.chains.state.discard_unread(slot);
        self.chains.state.defer(slot);
    }

    /// Combines [`Stack::close`] and [`Stack::release`], as the operating system's `close` does. The program
    /// first receives `release`, so that it can end the connection accordingly: if data is unread, its loss
    /// is not an orderly end.
    pub fn finish(&mut self, now: Instant, handle: Handle) {
        // Reports of read bytes come before the release.
        self.context_of(handle)
            .into_iter()
            .for_each(|slot| self.deliver(now, slot));
        let Some(entry) = self.chains.state.handles.get_mut(handle) else {
            return;
        };
        let first = !std::mem::replace(&mut entry.closing, true);
        let context = entry.context;
        if let (true, Some(slot)) = (first, context) {
            self.chains.state.contexts.entry_mut(slot).deferred.close = true;
        }
        self.release(handle);
        context.into_iter().for_each(|slot| self.deliver(now, slot));
    }

    /// Returns the oldest notice that has not been taken yet.
    pub fn next_notice(&mut self) -> Option<(Handle, Notice)> {
        loop {
            match self.chains.state.handles.next_notice()? {
                (handle, notice, true) => return Some((handle, notice)),
                // The listener is gone, so no application can learn of this connection.
                (_, Notice::Accepted(child), false) => self.release(child),
                (_, _, false) => {}
            }
        }
    }

    /// Accepts a connection that [`Notice::Accepted`] reported, which frees a place in the listener's queue.
    /// An application with its own queue calls this when a connection leaves that queue, so that the backlog
    /// bounds it.
    pub fn accept(&mut self, listener: Handle) {
        self.context_of(listener)
            .into_iter()
            .for_each(|slot| self.chains.state.accepted(slot));
    }

    /// Returns the remote end of a connection.
    #[must_use]
    pub fn peer(&self, handle: Handle) -> Option<SocketAddr> {
        self.flow(handle)?.remote()
    }

    /// Returns the local end of a connection or listener.
    #[must_use]
    pub fn local(&self, handle: Handle) -> Option<SocketAddr> {
        Some(self.flow(handle)?.local())
    }

    fn flow(&self, handle: Handle) -> Option<FlowKey> {
        let entry = self.chains.state.handles.get(handle)?;
        match entry.context {
            Some(slot) => self.chains.state.contexts.entry(slot).flow,
            None => entry.after.as_ref()?.flow,
        }
    }

    /// Returns the context that a handle's requests go to.
    pub(super) fn context_of(&self, handle: Handle) -> Result<Slot, RequestError> {
        let entry = self
            .chains
            .state
            .handles
            .get(handle)
            .ok_or(RequestError::BadHandle)?;
        entry.context.ok_or(RequestError::NotConnected)
    }

    /// Runs the chains of a request.
    pub(super) fn run(
        &mut self,
        now: Instant,
        kind: AppOp,
        parser: usize,
        op: &Op,
        cause: &Cause<'_>,
    ) -> Result<InputOutcome, Denied> {
        let input = (parser, Input::App(kind, op));
        self.chains.input(now, input, cause, &mut self.work.events)
    }

    /// Returns a request about a context.
    #[inline] // The result is large and is built in place.
    pub(super) fn op(&self, slot: Slot) -> Op {
        let flow = self.chains.state.contexts.entry(slot).flow.as_ref();
        let mut op = flow.map_or(OP_ZERO, op_of);
        op.self_id = self.chains.state.contexts.first_id(slot);
        op.path_mtu = flow.map_or(0, |flow| self.interface.path_mtu(flow.remote.0));
        op
    }

    /// Delivers all deferred requests for which there is room; returns true if it delivered any.
    pub(super) fn deliver_all(&mut self, now: Instant) -> bool {
        let count = self.chains.state.deferred.len();
        for _ in 0..count {
            let Some(slot) = self.chains.state.deferred.pop_front() else {
                break;
            };
            if self.chains.state.contexts.is_live(slot) {
                self.chains.state.contexts.entry_mut(slot).deferred.listed = false;
                self.deliver(now, slot);
            }
        }
        count > self.chains.state.deferred.len()
    }

    /// Delivers a context's deferred requests. Requests without room, and requests that the program refuses
    /// with `EAGAIN`, wait for the next poll.
    pub(super) fn deliver(&mut self, now: Instant, slot: Slot) {
        while self.chains.state.contexts.is_live(slot) {
            let deferred = &mut self.chains.state.contexts.entry_mut(slot).deferred;
            // The release comes before the report of discarded bytes, because those were not read.
            let (kind, len, arg) = if std::mem::take(&mut deferred.abort) {
                (AppOp::Abort, 0, 0)
            } else if std::mem::take(&mut deferred.release) {
                (AppOp::Release, 0, 0)
            } else if deferred.taken > 0 {
                (AppOp::Recv, std::mem::take(&mut deferred.taken), 0)
            } else if deferred.given_up {
                match self.chains.state.next_given_up(slot) {
                    Some((kind, reason)) => (kind, 0, reason),
                    None => continue,
                }
            } else if std::mem::take(&mut deferred.close) {
                (AppOp::Close, 0, 0)
            } else {
                return;
            };
            if !self.request(now, slot, kind, (len, arg)) {
                let deferred = &mut self.chains.state.contexts.entry_mut(slot).deferred;
                match kind {
                    AppOp::Abort => deferred.abort = true,
                    AppOp::Recv => deferred.taken += len,
                    AppOp::Close => deferred.close = true,
                    AppOp::Release => deferred.release = true,
                    AppOp::Reset => self.chains.state.give_up(slot, GivenUp::reset(arg)),
                    AppOp::Stop => self.chains.state.give_up(slot, GivenUp::stop(arg)),
                    AppOp::Listen
                    | AppOp::Connect
                    | AppOp::Send
                    | AppOp::Message
                    | AppOp::Call
                    | AppOp::Open
                    | AppOp::Post
                    | AppOp::Option => {}
                }
                return self.chains.state.defer(slot);
            }
        }
    }

    /// Runs one request about a context. Returns false if the request has to be repeated, because there was
    /// no room or the program refused with `EAGAIN`. A request that the program does not offer is skipped,
    /// except that a program without `abort` loses the context.
    fn request(&mut self, now: Instant, slot: Slot, kind: AppOp, (len, arg): (u64, u64)) -> bool {
        let Some(parser) = self.chains.tables.app[op_index(kind)] else {
            if kind == AppOp::Abort {
                self.chains.state.notify_context(slot, Notice::Closed);
                self.chains.end_context(slot);
            }
            return true;
        };
        let mut op = self.op(slot);
        (op.len, op.arg) = (len, arg);
        let handle = self.chains.state.contexts.entry(slot).handle;
        let cause = Cause { handle, slot: Some(slot), ..Cause::application(Buffer::default()) };
        let outcome = self.run(now, kind, parser, &op, &cause);
        !matches!(outcome, Err(Denied::NoRoom | Denied::Refused(Errno::AGAIN)))
    }
}

/// Returns true if the program accepted a request, and false if it is to be repeated later.
pub(super) fn is_taken(outcome: Result<InputOutcome, Denied>) -> Result<bool, RequestError> {
    match outcome {
        Ok(_) => Ok(true),
        Err(Denied::NoRoom | Denied::Refused(Errno::AGAIN)) => Ok(false),
        Err(denied) => Err(denied.into()),
    }
}

#[inline]
pub(super) fn op_of(flow: &FlowKey) -> Op {
    Op {
        local_ip: flow.local.0,
        local_port: flow.local.1,
        remote_ip: flow.remote.0,
        remote_port: flow.remote.1,
        ..OP_ZERO
    }
}
