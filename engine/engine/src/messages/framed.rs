//! Messages framed on connections of a program that offers streams.
//!
//! There is one connection to each peer, which all calls to it share. Each call has its number, and replies
//! come in any order. A connection that breaks fails its calls, and the next call opens another.
//!
//! A peer can make this side hold only a bounded amount of memory. For each connection it is one incomplete
//! message and the bytes that were read with it. The numbers of requests and of connections are limited. A
//! peer that does not read its replies is not read from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use hawser_ir::AppOp;
use hawser_time::Instant;

use super::connection::{FramedConnection, OutgoingFrame, connect};
use super::error::{CANCELED, MESSAGE_SIZE, MessageError, PROTOCOL, RESET, TIMED_OUT};
use super::frame::{Decoder, Frame, FrameError, FrameKind, encode};
use super::state::{CallProgress, Due, HandleOwner, Key, Messages, RequestOrigin, RequestProgress, Socket};
use crate::{Errno, Handle, Notice, Stack};

/// The number of bytes read at a time.
const READ: usize = 1 << 16;

/// The time that a peer has for ending a connection that is being closed.
const LINGER: Duration = Duration::from_secs(5);

impl Messages {
    /// Puts a call on the connection to its peer, which is opened if necessary; returns `None` if there is no
    /// room.
    pub(super) fn offer_framed(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (socket, call): (u64, u64),
        op: AppOp,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<CallProgress>, MessageError> {
        let bound = self.bound(socket)?;
        if bound.unsent > 0 && bound.unsent + message.len() > bound.options.unsent {
            return Ok(None);
        }
        let connection = match bound.by_peer.get(&peer) {
            Some(connection) => *connection,
            None => match self.open(stack, now, socket, peer)? {
                Some(connection) => connection,
                None => return Ok(None),
            },
        };
        if let Some(c) = self.connections.get_mut(&connection) {
            c.calls.insert(call);
        }
        let kind = if op == AppOp::Call {
            FrameKind::Call
        } else {
            FrameKind::Message
        };
        // If the connection breaks at once, the call already has its outcome.
        self.push(stack, now, connection, kind, call, message);
        Ok(Some(CallProgress::Framed(connection)))
    }

    /// Opens a connection; returns `None` if the maximum number is in use and each of them is busy.
    pub(super) fn open(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: u64,
        peer: SocketAddr,
    ) -> Result<Option<u64>, MessageError> {
        if !self.make_room(stack, now, socket) {
            return Ok(None);
        }
        let local = self.bound(socket)?.local;
        let handle = connect(stack, now, peer, local).map_err(MessageError::Request)?;
        let connection = self.keep(now, socket, handle, peer, false);
        if let Some(bound) = self.sockets.get_mut(&socket) {
            bound.by_peer.insert(peer, connection);
        }
        Ok(Some(connection))
    }

    /// Handles a connection that a peer has opened.
    pub(super) fn accepted(&mut self, stack: &mut Stack, now: Instant, socket: u64, handle: Handle) {
        let Some(peer) = stack.peer(handle).filter(|_| self.make_room(stack, now, socket)) else {
            stack.abort(now, handle);
            return stack.release(handle);
        };
        let connection = self.keep(now, socket, handle, peer, true);
        if let Some(bound) = self.sockets.get_mut(&socket) {
            bound.by_peer.insert(peer, connection);
        }
        self.read(stack, now, connection);
    }

    /// Makes room for one more connection. If necessary it ends the connection that has been idle for
    /// longest. Returns false if each of them is busy.
    fn make_room(&mut self, stack: &mut Stack, now: Instant, socket: u64) -> bool {
        let Some(bound) = self.sockets.get(&socket) else {
            return false;
        };
        if bound.connections.len() < bound.options.connections {
            return true;
        }
        let connections = bound.connections.iter();
        let idle = connections.filter_map(|id| Some((*id, self.connections.get(id)?)));
        let idle = idle
            .filter(|(_, c)| c.is_idle())
            .min_by_key(|(_, c)| c.moved)
            .map(|(id, _)| id);
        idle.inspect(|id| self.end_connection(stack, now, *id, RESET))
            .is_some()
    }

    fn keep(
        &mut self,
        now: Instant,
        socket: u64,
        handle: Handle,
        peer: SocketAddr,
        is_accepted: bool,
    ) -> u64 {
        let connection = self.next_number();
        let (mut size, mut idle) = (0, Duration::ZERO);
        if let Some(bound) = self.sockets.get_mut(&socket) {
            (size, idle) = (bound.options.size, bound.options.idle);
            bound.connections.insert(connection);
        }
        self.owners.insert(handle, HandleOwner::Connection(connection));
        let due = now + idle;
        self.due.insert((due, Due::Connection(connection)));
        let kept = FramedConnection {
            socket,
            handle,
            peer,
            is_accepted,
            is_open: is_accepted,
            is_closing: false,
            is_at_end: false,
            is_paused: false,
            outgoing: VecDeque::new(),
            unsent: 0,
            incoming: Decoder::new(size),
            rest: Vec::new(),
            calls: BTreeSet::new(),
            serving: BTreeMap::new(),
            received: now,
            moved: now,
            due,
        };
        self.connections.insert(connection, kept);
        connection
    }

    /// Handles a notice about a connection.
    pub(super) fn note_connection(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        connection: u64,
        notice: Notice,
    ) {
        let Some(c) = self.connections.get_mut(&connection) else {
            return;
        };
        match notice {
            Notice::Connected => {
                (c.is_open, c.moved) = (true, now);
                self.flush(stack, now, connection);
            }
            Notice::Writable => self.flush(stack, now, connection),
            Notice::Readable => self.read(stack, now, connection),
            Notice::Eof | Notice::Closed => {
                c.is_at_end = true;
                self.read(stack, now, connection);
            }
            Notice::Failed(error) => {
                self.read(stack, now, connection);
                self.end_connection(stack, now, connection, error);
            }
            Notice::Accepted(_) | Notice::Reset(_) | Notice::Stopped(_) | Notice::Message(_) => {}
        }
    }

    // ---- Writing

    /// Appends a frame, and passes frames on as far as there is room.
    fn push(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        connection: u64,
        kind: FrameKind,
        number: u64,
        body: &[u8],
    ) {
        let Some(c) = self.connections.get_mut(&connection) else {
            return;
        };
        if c.outgoing.is_empty() {
            c.moved = now;
        }
        let bytes = encode(kind, number, body);
        let len = bytes.len();
        c.outgoing
            .push_back(OutgoingFrame { kind, number, bytes, taken: 0 });
        c.unsent += len;
        if let Some(bound) = self.sockets.get_mut(&c.socket) {
            bound.unsent += len;
        }
        self.flush(stack, now, connection);
    }

    fn flush(&mut self, stack: &mut Stack, now: Instant, connection: u64) {
        let Some(c) = self.connections.get_mut(&connection).filter(|c| c.is_open) else {
            return;
        };
        let (before, socket) = (c.unsent, c.socket);
        let failed = c.write(stack, now);
        let sent = before - c.unsent;
        let (is_done, is_paused) = (c.is_closing && c.outgoing.is_empty(), c.is_paused);
        if sent > 0 {
            self.wrote = true;
            if let Some(bound) = self.sockets.get_mut(&socket) {
                bound.unsent -= sent;
            }
            self.room(socket);
        }
        match failed {
            Some(error) => self.end_connection(stack, now, connection, error),
            None if is_done => {
                if let Some(c) = self.connections.get(&connection) {
                    stack.close(now, c.handle);
                    self.wrote = true;
                }
            }
            None if is_paused => self.resume(stack, now, connection),
            None => {}
        }
    }

    // ---- Reading

    /// Resumes reading from connections that were paused for lack of room.
    pub(super) fn resume_paused(&mut self, stack: &mut Stack, now: Instant) {
        while let Some(socket) = self.roomy.pop() {
            while let Some(bound) = self.sockets.get_mut(&socket)
                && bound.serving < bound.options.requests
                && let Some(connection) = bound.paused.pop_front()
            {
                self.resume(stack, now, connection);
            }
        }
    }

    /// Resumes reading from a connection that was paused.
    fn resume(&mut self, stack: &mut Stack, now: Instant, connection: u64) {
        if let Some(c) = self.connections.get_mut(&connection)
            && std::mem::take(&mut c.is_paused)
        {
            self.read(stack, now, connection);
        }
    }

    /// Reads received bytes as long as there is room for requests.
    fn read(&mut self, stack: &mut Stack, now: Instant, connection: u64) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(READ, 0);
        loop {
            if self.must_pause(connection) {
                break;
            }
            let Some(c) = self.connections.get_mut(&connection) else {
                break;
            };
            let rest = std::mem::take(&mut c.rest);
            if !rest.is_empty() {
                self.decode(stack, now, connection, &rest);
                continue;
            }
            match stack.take(c.handle, &mut buffer) {
                Ok(0) | Err(_) => {
                    if c.is_at_end {
                        self.end_connection(stack, now, connection, RESET);
                    }
                    break;
                }
                Ok(len) => {
                    // The report of the read bytes has to reach the program.
                    self.wrote = true;
                    (c.received, c.moved) = (now, now);
                    if !c.is_closing {
                        self.decode(stack, now, connection, &buffer[..len]);
                    }
                }
            }
        }
        self.buffer = buffer;
    }

    /// Returns true if a connection may not be read from now. In this case it is resumed once there is room.
    fn must_pause(&mut self, connection: u64) -> bool {
        let Some(c) = self.connections.get_mut(&connection) else {
            return true;
        };
        let Some(bound) = self.sockets.get_mut(&c.socket) else {
            return false;
        };
        // The peer has to read replies before it is read from again. If calls of ours wait for replies on the
        // connection, it is read in any case.
        let is_slow = c.unsent > bound.options.size.max(READ) && c.calls.is_empty();
        let is_full = bound.serving >= bound.options.requests && c.calls.is_empty();
        if c.is_closing || !(is_slow || is_full) {
            return false;
        }
        c.is_paused = true;
        if is_full && !bound.paused.contains(&connection) {
            bound.paused.push_back(connection);
        }
        true
    }

    /// Decodes frames from received bytes; bytes for which there is no room are kept.
    fn decode(&mut self, stack: &mut Stack, now: Instant, connection: u64, bytes: &[u8]) {
        let mut input = bytes;
        while !input.is_empty() {
            if self.must_pause(connection) {
                if let Some(c) = self.connections.get_mut(&connection) {
                    c.rest = input.to_vec();
                }
                return;
            }
            let Some(c) = self.connections.get_mut(&connection).filter(|c| !c.is_closing) else {
                return;
            };
            match c.incoming.feed(&mut input) {
                Ok(None) => {}
                Ok(Some(frame)) => self.take(stack, now, connection, frame),
                Err(error) => return self.unreadable(stack, now, connection, error),
            }
        }
    }

    /// Carries out a frame.
    fn take(&mut self, stack: &mut Stack, now: Instant, connection: u64, frame: Frame) {
        let Frame { kind, number, body } = frame;
        let Some(c) = self.connections.get_mut(&connection) else {
            return;
        };
        let (socket, peer) = (c.socket, c.peer);
        let is_overrun = self
            .sockets
            .get(&socket)
            .is_none_or(|bound| bound.serving >= bound.options.requests);
        match kind {
            FrameKind::Call if c.serving.contains_key(&number) => {
                self.end_connection(stack, now, connection, PROTOCOL);
            }
            // Replies to this side's calls come on the same connection, so it is read nevertheless.
            FrameKind::Call | FrameKind::Message if is_overrun => {
                let busy = Errno::NO_BUFFERS.0.to_be_bytes();
                self.push(stack, now, connection, FrameKind::Refused, number, &busy);
            }
            FrameKind::Call => {
                let origin = RequestOrigin::Framed { connection, number };
                let request = self.enqueue(socket, peer, origin, body);
                if let Some(c) = self.connections.get_mut(&connection) {
                    c.serving.insert(number, request);
                }
            }
            FrameKind::Message => {
                self.enqueue(socket, peer, RequestOrigin::Nobody, body);
                self.push(stack, now, connection, FrameKind::Received, number, &[]);
            }
            // A reply to an unknown call is ignored, because the call was given up.
            FrameKind::Reply | FrameKind::Received => {
                if c.calls.remove(&number) {
                    self.settle(number, Ok(body));
                }
            }
            FrameKind::Refused => {
                if c.calls.remove(&number) {
                    let error = body.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
                    let error = Errno(error);
                    self.settle(number, Err(MessageError::Refused { peer, error }));
                }
            }
            FrameKind::Cancel => {
                if let Some(request) = c.serving.remove(&number) {
                    self.leave_alone(request);
                }
            }
        }
    }

    /// Records that no caller waits for the reply any more. A call that the application has not taken yet is
    /// dropped.
    fn leave_alone(&mut self, request: u64) {
        let Some(served) = self.requests.get_mut(&request) else {
            return;
        };
        served.origin = RequestOrigin::Nobody;
        if matches!(served.progress, RequestProgress::Waiting(_)) {
            self.finish_request(request);
        }
    }

    /// Handles input that is not a frame or is too long, so that later bytes cannot be decoded. The caller
    /// receives the reason, and then the connection ends.
    fn unreadable(&mut self, stack: &mut Stack, now: Instant, connection: u64, error: FrameError) {
        match error {
            FrameError::TooLong { kind: FrameKind::Call | FrameKind::Message, number, .. } => {
                let why = MESSAGE_SIZE.0.to_be_bytes();
                self.stop_taking(connection);
                self.push(stack, now, connection, FrameKind::Refused, number, &why);
                self.close_connection(stack, now, connection);
            }
            FrameError::TooLong { number, len, .. } => {
                let c = self.connections.get_mut(&connection);
                let (socket, is_known) = c.map_or((0, false), |c| (c.socket, c.calls.remove(&number)));
                let longest = self.sockets.get(&socket).map_or(0, |bound| bound.options.size);
                if is_known {
                    let longest = longest as u64;
                    self.settle(number, Err(MessageError::TooLong { len, longest }));
                }
                self.end_connection(stack, now, connection, PROTOCOL);
            }
            FrameError::Malformed => self.end_connection(stack, now, connection, PROTOCOL),
        }
    }

    /// Lets the next call to the peer open another connection.
    fn stop_taking(&mut self, connection: u64) {
        let Some(c) = self.connections.get(&connection) else {
            return;
        };
        if let Some(bound) = self.sockets.get_mut(&c.socket)
            && bound.by_peer.get(&c.peer) == Some(&connection)
        {
            bound.by_peer.remove(&c.peer);
        }
    }

    // ---- Calls that are given up, replies

    /// Gives up a call.
    pub(super) fn cancel_framed(&mut self, stack: &mut Stack, now: Instant, connection: u64, call: u64) {
        let began = self.calls.get(&call).map(|call| call.began);
        let Some(c) = self.connections.get_mut(&connection) else {
            return;
        };
        if !c.calls.remove(&call) {
            return;
        }
        let of_call = |out: &OutgoingFrame| {
            out.number == call && matches!(out.kind, FrameKind::Call | FrameKind::Message)
        };
        let unsent = c.outgoing.iter().position(|out| of_call(out) && out.taken == 0);
        if let Some(out) = unsent.and_then(|at| c.outgoing.remove(at)) {
            c.unsent -= out.bytes.len();
            let socket = c.socket;
            if let Some(bound) = self.sockets.get_mut(&socket) {
                bound.unsent -= out.bytes.len();
            }
            self.room(socket);
        } else {
            self.push(stack, now, connection, FrameKind::Cancel, call, &[]);
        }
        // If no byte has arrived since the call began and the connection has no other use, its peer may be
        // gone.
        let is_dead = |c: &FramedConnection| {
            let is_silent = began.is_some_and(|began| c.received <= began && began < now);
            is_silent && c.calls.is_empty() && c.serving.is_empty()
        };
        if self.connections.get(&connection).is_some_and(is_dead) {
            self.end_connection(stack, now, connection, TIMED_OUT);
        }
    }

    pub(super) fn answer_framed(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (connection, number): (u64, u64),
        reply: &[u8],
    ) {
        if let Some(c) = self.connections.get_mut(&connection)
            && c.serving.remove(&number).is_some()
        {
            self.push(stack, now, connection, FrameKind::Reply, number, reply);
        }
    }

    /// Reports that there will be no reply to a peer's call.
    pub(super) fn refuse_framed(&mut self, stack: &mut Stack, now: Instant, connection: u64, number: u64) {
        if let Some(c) = self.connections.get_mut(&connection)
            && c.serving.remove(&number).is_some()
        {
            let why = CANCELED.0.to_be_bytes();
            self.push(stack, now, connection, FrameKind::Refused, number, &why);
        }
    }

    // ---- The end of a connection

    /// Checks whether a connection is still of use.
    pub(super) fn look_after(&mut self, stack: &mut Stack, now: Instant, connection: u64) {
        let Some(c) = self.connections.get_mut(&connection) else {
            return;
        };
        let idle = self
            .sockets
            .get(&c.socket)
            .map_or(LINGER, |bound| bound.options.idle);
        // The end that opened a connection closes it first, so that no call meets a connection that its
        // server is closing.
        let idle = match (c.is_closing, c.is_accepted && c.is_idle()) {
            (true, _) => LINGER,
            (false, true) => idle * 2,
            (false, false) => idle,
        };
        let is_waiting = c.is_open && c.outgoing.is_empty() && !c.incoming.is_within();
        let at = c.moved + idle;
        if at > now {
            c.due = at;
            self.due.insert((at, Due::Connection(connection)));
        } else if c.is_closing {
            self.end_connection(stack, now, connection, TIMED_OUT);
        } else if c.is_idle() {
            self.close_connection(stack, now, connection);
        } else if is_waiting || c.is_paused {
            // One of the ends takes long to reply or to accept requests, which is its application's decision.
            c.due = now + idle;
            let due = c.due;
            self.due.insert((due, Due::Connection(connection)));
        } else {
            self.end_connection(stack, now, connection, TIMED_OUT);
        }
    }

    /// Ends a connection in an orderly manner: frames already queued still leave.
    pub(super) fn close_connection(&mut self, stack: &mut Stack, now: Instant, connection: u64) {
        self.stop_taking(connection);
        let Some(c) = self.connections.get_mut(&connection) else {
            return;
        };
        (c.is_closing, c.moved) = (true, now);
        let at = now + LINGER;
        let before = std::mem::replace(&mut c.due, at);
        self.due.remove(&(before, Due::Connection(connection)));
        self.due.insert((at, Due::Connection(connection)));
        self.fail_calls(connection, RESET);
        match self.connections.get(&connection).is_some_and(|c| c.is_open) {
            true => self.flush(stack, now, connection),
            false => self.end_connection(stack, now, connection, RESET),
        }
    }

    /// Fails all calls on a connection.
    fn fail_calls(&mut self, connection: u64, error: Errno) {
        let Some(c) = self.connections.get_mut(&connection) else {
            return;
        };
        let peer = c.peer;
        let (calls, serving) = (std::mem::take(&mut c.calls), std::mem::take(&mut c.serving));
        for call in calls {
            self.settle(call, Err(MessageError::Broken { peer, error }));
        }
        for request in serving.into_values() {
            self.leave_alone(request);
        }
    }

    /// Ends a connection at once.
    fn end_connection(&mut self, stack: &mut Stack, now: Instant, connection: u64, error: Errno) {
        self.stop_taking(connection);
        self.fail_calls(connection, error);
        let Some(c) = self.connections.remove(&connection) else {
            return;
        };
        self.due.remove(&(c.due, Due::Connection(connection)));
        self.owners.remove(&c.handle);
        if let Some(bound) = self.sockets.get_mut(&c.socket) {
            bound.connections.remove(&connection);
            bound.paused.retain(|paused| *paused != connection);
            bound.unsent -= c.unsent;
            bound.wants_room = false;
            self.change(Key::Room(Socket(c.socket)));
        }
        self.wrote = true;
        if c.outgoing.is_empty() && (c.is_at_end || c.is_idle()) {
            return stack.finish(now, c.handle);
        }
        stack.abort(now, c.handle);
        stack.release(c.handle);
    }
}
