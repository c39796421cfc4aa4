//! What applications ask for. A request runs its chain at once; its packets leave with the next
//! [`Stack::poll`].

use std::net::SocketAddr;

use hawser_ir::AppOp;
use hawser_ir::abi::{Id, OPT_REUSE_PORT, Op};
use hawser_ir::buf::{Input, NET_ZERO};

use crate::chain::{Buffer, Cause, Denied};
use crate::contexts::Slot;
use crate::handles::{Errno, Flow, Handle, Notice};
use crate::net;
use crate::ports::ANYBODY;
use crate::stack::Stack;
use crate::tables::op_index;
use crate::wire::Nanos;

/// Why a request was turned down. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The program turned it down.
    #[error("{0}")]
    Refused(Errno),
    /// What the request may need is not free now; it can be repeated after a poll.
    #[error("no room for the request now")]
    WouldBlock,
    /// A stated limit is reached.
    #[error("the limit `{0}` is reached")]
    Limit(&'static str),
    /// The handle was released, or never was one.
    #[error("no such handle")]
    BadHandle,
    /// The connection is over, or this is no connection.
    #[error("not connected")]
    NotConnected,
    /// The address and port are in use.
    #[error("address in use")]
    AddressInUse,
    /// The program's chains ran, and none made a context or refused.
    #[error(
        "the program opened nothing: no chain made a context for the request; does `deploy` register its chains?"
    )]
    NothingOpened,
    /// All ephemeral ports are in use towards this remote end.
    #[error("no free port")]
    NoPort,
    /// There is no way to the remote address.
    #[error("{0}")]
    Unreachable(net::Unreachable),
    /// The program has no such request.
    #[error("the program does not know the request {0:?}")]
    Unsupported(AppOp),
}

impl RequestError {
    /// The nearest errno.
    #[must_use]
    pub fn errno(self) -> Errno {
        Errno(match self {
            RequestError::Refused(errno) => errno.0,
            RequestError::WouldBlock => 11,      // EAGAIN
            RequestError::Limit(_) => 105,       // ENOBUFS
            RequestError::BadHandle => 9,        // EBADF
            RequestError::NotConnected => 107,   // ENOTCONN
            RequestError::AddressInUse => 98,    // EADDRINUSE
            RequestError::NoPort => 99,          // EADDRNOTAVAIL
            RequestError::Unreachable(_) => 101, // ENETUNREACH
            RequestError::Unsupported(_) | RequestError::NothingOpened => 95, // EOPNOTSUPP
        })
    }
}

impl From<Denied> for RequestError {
    fn from(denied: Denied) -> RequestError {
        match denied {
            Denied::Refused(errno) => RequestError::Refused(errno),
            Denied::NoRoom => RequestError::WouldBlock,
            Denied::Limit(name) => RequestError::Limit(name),
        }
    }
}

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
};

impl Stack {
    /// Opens a listener. Its new connections come as [`Notice::Accepted`]. The unspecified address
    /// stands for all of the stack's own.
    ///
    /// # Errors
    /// See [`RequestError`]; nothing is left behind.
    pub fn listen(&mut self, now: Nanos, local: SocketAddr, backlog: u32) -> Result<Handle, RequestError> {
        self.listen_with(now, local, backlog, &[])
    }

    /// [`Stack::listen`] with options set before the first connection comes: pairs of an `OPT_…`
    /// constant of [`hawser_ir::abi`] and a value. Connections inherit them.
    ///
    /// # Errors
    /// See [`RequestError`] and [`Stack::set_option`]; nothing is left behind.
    pub fn listen_with(
        &mut self,
        now: Nanos,
        local: SocketAddr,
        backlog: u32,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let address = if local.ip().is_unspecified() {
            [0; 16]
        } else {
            net::to_bytes(local.ip())
        };
        let flow = Flow {
            local: (address, local.port()),
            remote: ANYBODY,
        };
        let op = Op {
            backlog,
            ..op_of(&flow)
        };
        self.open(now, AppOp::Listen, op, flow, options)
    }

    /// Opens a connection. Its end shows as [`Notice::Connected`] or [`Notice::Failed`]. The own
    /// address and port are chosen unless given (the port 0 counts as not given).
    ///
    /// # Errors
    /// See [`RequestError`]; nothing is left behind.
    pub fn connect(
        &mut self,
        now: Nanos,
        remote: SocketAddr,
        local: Option<SocketAddr>,
    ) -> Result<Handle, RequestError> {
        self.connect_with(now, remote, local, &[])
    }

    /// [`Stack::connect`] with options set before the first packet leaves, in order: pairs of an
    /// `OPT_…` constant of [`hawser_ir::abi`] and a value.
    ///
    /// # Errors
    /// See [`RequestError`] and [`Stack::set_option`]; nothing is left behind.
    pub fn connect_with(
        &mut self,
        now: Nanos,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let mut net = NET_ZERO;
        net.dst_ip = net::to_bytes(remote.ip());
        if let Some(local) = local.filter(|local| !local.ip().is_unspecified()) {
            net.src_ip = net::to_bytes(local.ip());
        }
        let path_mtu = self
            .interface
            .route(&mut net)
            .map_err(RequestError::Unreachable)?;
        let far = (net.dst_ip, remote.port());
        let port = match local.map_or(0, |local| local.port()) {
            0 => self.ports.pick(net.src_ip, far).ok_or(RequestError::NoPort)?,
            port => port,
        };
        let flow = Flow {
            local: (net.src_ip, port),
            remote: far,
        };
        let op = Op {
            path_mtu,
            ..op_of(&flow)
        };
        self.open(now, AppOp::Connect, op, flow, options)
    }

    /// Runs `listen` or `connect` for a new handle, then its options, then what all that raised.
    fn open(
        &mut self,
        now: Nanos,
        kind: AppOp,
        op: Op,
        flow: Flow,
        options: &[(u32, u64)],
    ) -> Result<Handle, RequestError> {
        let parser = self.tables.app[op_index(kind)].ok_or(RequestError::Unsupported(kind))?;
        let shared = kind == AppOp::Listen && options.contains(&(OPT_REUSE_PORT, 1));
        let taken = if shared {
            self.ports.share(flow.local)
        } else {
            self.ports.take(flow.local, flow.remote)
        };
        if !taken {
            return Err(RequestError::AddressInUse);
        }
        let Some(handle) = self.handles.open() else {
            self.ports.give(flow.local, flow.remote);
            return Err(RequestError::Limit("handles"));
        };
        let application = Cause::application(Buffer::default());
        let cause = Cause {
            flow: Some(flow),
            handle: Some(handle),
            shared,
            ..application
        };
        let budget = std::mem::take(&mut self.raise_budget);
        let outcome = self.input(now, parser, Input::App(kind, &op), &cause);
        let context = self.handles.get(handle).and_then(|entry| entry.context);
        let result = match (outcome, context) {
            (Ok(_), Some(slot)) => {
                let entry = self.contexts.entry_mut(slot);
                (entry.owns_port, entry.flow) = (true, Some(flow));
                self.set_first_options(now, handle, options)
            }
            // The program has no chain for it, or it failed and ended within the request.
            (outcome, _) => {
                self.ports.give(flow.local, flow.remote);
                self.handles.close(handle);
                Err(outcome
                    .err()
                    .map_or(RequestError::NothingOpened, RequestError::from))
            }
        };
        self.raise_budget = budget;
        self.scratch.fill(0);
        self.run_raised(now, &cause);
        result.map(|()| handle)
    }

    /// Copies bytes into the sending unit and returns how many were taken: fewer than given when
    /// room is short. After 0 for want of room, or because the program refused with `EAGAIN`,
    /// [`Notice::Writable`] comes when there is some, and when bytes have left the sending units.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn send(&mut self, now: Nanos, handle: Handle, bytes: &[u8]) -> Result<usize, RequestError> {
        let parser = self.tables.app[op_index(AppOp::Send)];
        let parser = parser.ok_or(RequestError::Unsupported(AppOp::Send))?;
        let slot = self.context_of(handle)?;
        let len = bytes.len().min(self.writable(handle)).min(u32::MAX as usize);
        if len == 0 {
            if !bytes.is_empty() {
                self.starve(slot, false);
            }
            return Ok(0);
        }
        let buffer = self.buffer(&bytes[..len], &[]);
        let op = Op {
            addr: buffer.addr(),
            len: len as u64,
            ..self.op(slot)
        };
        let cause = Cause {
            handle: Some(handle),
            ..Cause::application(buffer)
        };
        match self.input(now, parser, Input::App(AppOp::Send, &op), &cause) {
            Ok(_) => Ok(len),
            Err(Denied::NoRoom) => {
                self.starve(slot, true);
                Ok(0)
            }
            // The program has no room of its own kind: for another message, say.
            Err(Denied::Refused(Errno::AGAIN)) => {
                self.starve(slot, false);
                Ok(0)
            }
            Err(denied) => Err(denied.into()),
        }
    }

    /// Copies received bytes out and returns how many there were; 0 when there are none now. The
    /// program learns of it afterwards.
    ///
    /// # Errors
    /// [`RequestError::BadHandle`].
    pub fn recv(&mut self, now: Nanos, handle: Handle, out: &mut [u8]) -> Result<usize, RequestError> {
        let (len, owed) = self.read(handle, out)?;
        owed.into_iter().for_each(|slot| self.pay(now, slot));
        Ok(len)
    }

    /// The same, but the program learns of it with the next [`Stack::poll`], [`Stack::close`] or
    /// [`Stack::finish`]: what the application answers can leave before.
    ///
    /// # Errors
    /// [`RequestError::BadHandle`].
    pub fn take(&mut self, handle: Handle, out: &mut [u8]) -> Result<usize, RequestError> {
        let (len, owed) = self.read(handle, out)?;
        owed.into_iter().for_each(|slot| self.owe(slot));
        Ok(len)
    }

    /// Copies received bytes out. Returns how many, and the context that is to be told.
    fn read(&mut self, handle: Handle, out: &mut [u8]) -> Result<(usize, Option<Slot>), RequestError> {
        let entry = self.handles.get_mut(handle).ok_or(RequestError::BadHandle)?;
        let Some(slot) = entry.context else {
            let Some(after) = &mut entry.after else {
                return Ok((0, None));
            };
            let before = after.units.receiving_memory();
            let len = after.units.read(out, &mut self.pages);
            self.rx_held -= before - after.units.receiving_memory();
            return Ok((len, None));
        };
        let entry = self.contexts.entry_mut(slot);
        let before = entry.units.receiving_memory();
        let len = entry.units.read(out, &mut self.pages);
        self.rx_held -= before - entry.units.receiving_memory();
        if len == 0 || self.tables.app[op_index(AppOp::Recv)].is_none() {
            return Ok((len, None));
        }
        entry.owed.taken += len as u64;
        Ok((len, Some(slot)))
    }

    /// Bytes that can be read now.
    #[must_use]
    pub fn readable(&self, handle: Handle) -> usize {
        let units = self.handles.get(handle).and_then(|entry| match entry.context {
            Some(slot) => Some(&self.contexts.entry(slot).units),
            None => entry.after.as_ref().map(|after| &after.units),
        });
        units.map_or(0, |units| units.readable() as usize)
    }

    /// Bytes that [`Stack::send`] would take now.
    #[must_use]
    pub fn writable(&self, handle: Handle) -> usize {
        self.context_of(handle).map_or(0, |slot| self.room_to_send(slot)) as usize
    }

    /// The application will send no more. The handle lives on until it is released.
    pub fn close(&mut self, now: Nanos, handle: Handle) {
        let Some(entry) = self.handles.get_mut(handle) else {
            return;
        };
        let first = !std::mem::replace(&mut entry.closing, true);
        if let (true, Some(slot)) = (first, entry.context) {
            self.contexts.entry_mut(slot).owed.close = true;
            self.pay(now, slot);
        }
    }

    /// The application drops everything at once. A program without `abort` is not asked: its
    /// context ends without a word to the peer.
    pub fn abort(&mut self, now: Nanos, handle: Handle) {
        if let Ok(slot) = self.context_of(handle) {
            self.contexts.entry_mut(slot).owed.abort = true;
            self.pay(now, slot);
        }
    }

    /// The application forgets the handle. What it had closed goes on to its end; what it had not
    /// is aborted with the next poll; the program is told. Bytes that come in afterwards are thrown
    /// away.
    pub fn release(&mut self, handle: Handle) {
        let Some(mut entry) = self.handles.close(handle) else {
            return;
        };
        if let Some(mut after) = entry.after.take() {
            self.rx_held -= after.units.receiving_memory();
            after.units.clear(&mut self.chunks, &mut self.pages);
        }
        let Some(slot) = entry.context else { return };
        let context = self.contexts.entry_mut(slot);
        context.handle = None;
        context.orphan = true;
        context.owed.abort |= !entry.closing;
        context.owed.release = true;
        self.discard_unread(slot);
        self.owe(slot);
    }

    /// [`Stack::close`] and [`Stack::release`] at once, as the operating system's `close` is both.
    /// The program hears first that nobody will read, so that it can say goodbye accordingly: where
    /// data is unread, its loss is no orderly end.
    pub fn finish(&mut self, now: Nanos, handle: Handle) {
        // What was read comes before that nobody will read.
        self.context_of(handle)
            .into_iter()
            .for_each(|slot| self.pay(now, slot));
        let Some(entry) = self.handles.get_mut(handle) else {
            return;
        };
        let first = !std::mem::replace(&mut entry.closing, true);
        let context = entry.context;
        if let (true, Some(slot)) = (first, context) {
            self.contexts.entry_mut(slot).owed.close = true;
        }
        self.release(handle);
        context.into_iter().for_each(|slot| self.pay(now, slot));
    }

    /// The oldest notice that was not taken yet.
    pub fn next_notice(&mut self) -> Option<(Handle, Notice)> {
        loop {
            match self.handles.next_notice()? {
                (handle, notice, true) => return Some((handle, notice)),
                // The listener is gone: nobody will ever learn of this connection.
                (_, Notice::Accepted(child), false) => self.release(child),
                (_, _, false) => {}
            }
        }
    }

    /// The application takes a connection that [`Notice::Accepted`] told it of: a place in the
    /// listener's queue is free again. One that queues connections calls this when they leave its
    /// queue, so that the backlog bounds them.
    pub fn accept(&mut self, listener: Handle) {
        self.context_of(listener)
            .into_iter()
            .for_each(|slot| self.accepted(slot));
    }

    /// A connection has left the accept queue: the listener's program learns of it, as of bytes
    /// taken, with the next poll.
    pub(crate) fn accepted(&mut self, listener: Slot) {
        if self.tables.app[op_index(AppOp::Recv)].is_some() {
            self.contexts.entry_mut(listener).owed.taken += 1;
            self.owe(listener);
        }
    }

    /// The remote end of a connection.
    #[must_use]
    pub fn peer(&self, handle: Handle) -> Option<SocketAddr> {
        self.flow(handle)?.remote()
    }

    /// The local end of a connection, or what a listener listens on.
    #[must_use]
    pub fn local(&self, handle: Handle) -> Option<SocketAddr> {
        Some(self.flow(handle)?.local())
    }

    fn flow(&self, handle: Handle) -> Option<Flow> {
        let entry = self.handles.get(handle)?;
        match entry.context {
            Some(slot) => self.contexts.entry(slot).flow,
            None => entry.after.as_ref()?.flow,
        }
    }

    /// Notes that an application waits for room: for bytes, or for packets, which all share.
    fn starve(&mut self, slot: Slot, packets: bool) {
        let entry = self.contexts.entry_mut(slot);
        let first = !std::mem::replace(&mut entry.units.starved, true);
        if first && packets {
            self.starved.push((slot, entry.generation));
        }
    }

    /// Tells the applications that waited for packets to leave, when there is room.
    pub(crate) fn feed(&mut self) {
        if self.starved.is_empty() || self.packets.len() >= self.limits.pending_packets / 2 {
            return;
        }
        for (slot, generation) in std::mem::take(&mut self.starved) {
            if self.contexts.is_live(slot, generation) {
                self.contexts.entry_mut(slot).units.starved = false;
                self.notify_context(slot, Notice::Writable);
            }
        }
    }

    /// The context that a handle's requests go to.
    pub(crate) fn context_of(&self, handle: Handle) -> Result<Slot, RequestError> {
        let entry = self.handles.get(handle).ok_or(RequestError::BadHandle)?;
        entry.context.ok_or(RequestError::NotConnected)
    }

    /// A request about a context.
    pub(crate) fn op(&self, slot: Slot) -> Op {
        let flow = self.contexts.entry(slot).flow;
        let op = flow.as_ref().map_or(OP_ZERO, op_of);
        let path_mtu = flow.map_or(0, |flow| self.interface.path_mtu(flow.remote.0));
        Op {
            self_id: self.contexts.first_id(slot),
            path_mtu,
            ..op
        }
    }

    /// Notes that a context is owed something.
    pub(crate) fn owe(&mut self, slot: Slot) {
        let entry = self.contexts.entry_mut(slot);
        let owed = &mut entry.owed;
        if !owed.listed && (owed.abort || owed.close || owed.release || owed.taken > 0) {
            owed.listed = true;
            let generation = entry.generation;
            self.debts.push_back((slot, generation));
        }
    }

    /// Tells all contexts what they are owed, as far as there is room; true when it told any.
    pub(crate) fn pay_all(&mut self, now: Nanos) -> bool {
        let count = self.debts.len();
        for _ in 0..count {
            let Some((slot, generation)) = self.debts.pop_front() else {
                break;
            };
            if self.contexts.is_live(slot, generation) {
                self.contexts.entry_mut(slot).owed.listed = false;
                self.pay(now, slot);
            }
        }
        count > self.debts.len()
    }

    /// Tells a context what it is owed; the rest waits for the next poll.
    fn pay(&mut self, now: Nanos, slot: Slot) {
        let generation = self.contexts.entry(slot).generation;
        while self.contexts.is_live(slot, generation) {
            let owed = &mut self.contexts.entry_mut(slot).owed;
            // That nobody will read comes before what was thrown away: it is not read.
            let (kind, len) = if std::mem::take(&mut owed.abort) {
                (AppOp::Abort, 0)
            } else if std::mem::take(&mut owed.release) {
                (AppOp::Release, 0)
            } else if owed.taken > 0 {
                (AppOp::Recv, std::mem::take(&mut owed.taken))
            } else if std::mem::take(&mut owed.close) {
                (AppOp::Close, 0)
            } else {
                return;
            };
            if !self.tell(now, slot, kind, len) {
                let owed = &mut self.contexts.entry_mut(slot).owed;
                match kind {
                    AppOp::Abort => owed.abort = true,
                    AppOp::Recv => owed.taken += len,
                    AppOp::Close => owed.close = true,
                    AppOp::Release => owed.release = true,
                    AppOp::Listen | AppOp::Connect | AppOp::Send | AppOp::Option => {}
                }
                return self.owe(slot);
            }
        }
    }

    /// Runs one request about a context; false when there was no room for it. A program without
    /// this request is not told; one without `abort` loses the context.
    fn tell(&mut self, now: Nanos, slot: Slot, kind: AppOp, len: u64) -> bool {
        let Some(parser) = self.tables.app[op_index(kind)] else {
            if kind == AppOp::Abort {
                self.notify_context(slot, Notice::Closed);
                self.end_context(slot);
            }
            return true;
        };
        let op = Op { len, ..self.op(slot) };
        let handle = self.contexts.entry(slot).handle;
        let cause = Cause {
            handle,
            slot: Some(slot),
            ..Cause::application(Buffer::default())
        };
        self.input(now, parser, Input::App(kind, &op), &cause) != Err(Denied::NoRoom)
    }

    /// Throws away what nobody will read, and lets the program know.
    pub(crate) fn discard_unread(&mut self, slot: Slot) {
        let entry = self.contexts.entry_mut(slot);
        let before = entry.units.receiving_memory();
        let skipped = entry.units.skip(&mut self.pages);
        self.rx_held -= before - entry.units.receiving_memory();
        if skipped > 0 && self.tables.app[op_index(AppOp::Recv)].is_some() {
            entry.owed.taken += skipped;
            self.owe(slot);
        }
    }
}

fn op_of(flow: &Flow) -> Op {
    Op {
        local_ip: flow.local.0,
        local_port: flow.local.1,
        remote_ip: flow.remote.0,
        remote_port: flow.remote.1,
        ..OP_ZERO
    }
}
