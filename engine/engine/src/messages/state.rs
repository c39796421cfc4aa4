//! The state of all message sockets, and the operations common to both ways of carrying messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use hawser_ir::{AppOp, Module, ParserInput};
use hawser_time::Instant;

use super::connection::{self, FramedConnection};
use super::error::MessageError;
use super::options::MessageOptions;
use crate::hash::{ByHandle, ByNumber};
use crate::{Errno, Handle, Notice, RequestError, Stack};

/// The backlog of a listener for connections with framed messages.
const BACKLOG: u32 = 128;

/// The time for which a dropped request is remembered, so that its caller's repetitions are recognised; used
/// if calls have no deadline.
const DROPPED: Duration = Duration::from_secs(60);

/// A message socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Socket(pub(super) u64);

/// A call or a message in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call(pub(super) u64);

/// The identifier of a received request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub(super) u64);

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its identifier, for [`Messages::answer`].
    pub id: RequestId,
    /// The address of its sender.
    pub peer: SocketAddr,
    /// True if its sender waits for a reply; false if it did not ask for one or is gone.
    pub wants_reply: bool,
    /// The bytes of the whole message.
    pub message: Vec<u8>,
}

/// The way in which a program carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// The program offers the request `call` or `message`, and carries messages itself.
    Native,
    /// The program offers connections of one stream, on which messages are framed.
    Framed,
}

impl Carriage {
    /// Returns the carriage of a program; `None` if it offers neither.
    #[must_use]
    pub fn from_module(module: &Module) -> Option<Carriage> {
        let offers = |op| {
            let mut parsers = module.parsers.iter();
            parsers.any(|parser| parser.source == ParserInput::App(op))
        };
        if offers(AppOp::Call) || offers(AppOp::Message) {
            return Some(Carriage::Native);
        }
        // On a connection with streams, data sent on the connection itself is a datagram, which may be lost.
        (offers(AppOp::Connect) && !offers(AppOp::Open)).then_some(Carriage::Framed)
    }
}

/// The subject of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A call is over.
    Call(Call),
    /// A socket has a request, or will never have one again.
    Requests(Socket),
    /// A socket may have room for a call.
    Room(Socket),
}

/// The owner of a handle of the stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum HandleOwner {
    Socket(u64),
    /// A call, if the program carries messages.
    Call(u64),
    /// A request, if the program carries messages.
    Request(u64),
    /// A connection with framed messages.
    Connection(u64),
}

/// An object with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Call(u64),
    Request(u64),
    Connection(u64),
}

/// The state of a message socket.
#[derive(Debug)]
pub(super) struct Bound {
    /// True if the program carries messages itself.
    pub(super) is_native: bool,
    /// The stack's listener; `None` if messages are framed and peers cannot connect.
    pub(super) listener: Option<Handle>,
    pub(super) local: SocketAddr,
    pub(super) options: MessageOptions,
    /// The requests that the application has not taken.
    pub(super) queue: VecDeque<u64>,
    /// The number of calls in progress or with an outcome that has not been taken.
    pub(super) calls: usize,
    /// The number of unanswered requests, including those in the queue.
    pub(super) serving: usize,
    /// The unanswered requests whose reply waits for room in the program, the oldest first.
    pub(super) replying: BTreeSet<u64>,
    /// The requests whose reply the program has accepted but the caller has not acknowledged, the oldest
    /// first.
    pub(super) replied: BTreeSet<u64>,
    /// True if a call found no room.
    pub(super) wants_room: bool,
    /// The reason for which the socket has stopped.
    pub(super) failed: Option<MessageError>,
    /// The connections by their remote end. `connections` has all of them; a connection that is about to
    /// close is only there.
    pub(super) by_peer: BTreeMap<SocketAddr, u64>,
    pub(super) connections: BTreeSet<u64>,
    /// The connections with bytes that are not read for lack of room.
    pub(super) paused: VecDeque<u64>,
    /// The number of bytes of frames that the stack has not accepted.
    pub(super) unsent: usize,
}

/// The progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallProgress {
    /// No bytes of it have left, for lack of room.
    Unsent,
    Native(Handle),
    Framed(u64),
    Over,
}

/// A call or a message whose outcome an application waits for.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) socket: u64,
    pub(super) op: AppOp,
    pub(super) peer: SocketAddr,
    pub(super) at: CallProgress,
    pub(super) began: Instant,
    pub(super) due: Option<Instant>,
    /// True if it counts towards its socket's calls.
    pub(super) is_counted: bool,
    pub(super) outcome: Option<Result<Vec<u8>, MessageError>>,
}

/// The origin of a request, to which its reply is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestOrigin {
    Native(Handle),
    Framed {
        connection: u64,
        number: u64,
    },
    /// No caller waits for the reply: the message did not ask for one, or its caller is gone.
    Nobody,
}

/// The progress of a request.
#[derive(Debug)]
pub(super) enum RequestProgress {
    /// The request waits in the queue.
    Waiting(Vec<u8>),
    /// The application has taken the request.
    Taken,
    /// The reply waits for room.
    Replying(Vec<u8>),
    /// The reply is on its way.
    Replied,
    /// The application dropped it.
    Dropped,
}

/// A received request that is being served.
#[derive(Debug)]
pub(super) struct ServedRequest {
    pub(super) socket: u64,
    pub(super) peer: SocketAddr,
    pub(super) origin: RequestOrigin,
    pub(super) progress: RequestProgress,
    pub(super) due: Option<Instant>,
}

/// All message sockets of a stack.
pub struct Messages {
    pub(super) sockets: ByNumber<Bound>,
    pub(super) calls: ByNumber<Outstanding>,
    pub(super) requests: ByNumber<ServedRequest>,
    pub(super) connections: ByNumber<FramedConnection>,
    pub(super) owners: ByHandle<HandleOwner>,
    pub(super) due: BTreeSet<(Instant, Due)>,
    /// The last number assigned.
    pub(super) last: u64,
    pub(super) ephemeral: RangeInclusive<u16>,
    /// The changes since the last call of `Messages::take_changed`, once they are asked for.
    pub(super) changed: Option<Vec<Key>>,
    /// True if the stack has new data that has to leave.
    pub(super) wrote: bool,
    /// The sockets that have room for requests again, with connections that wait for it.
    pub(super) roomy: Vec<u64>,
    /// The bytes that were read last.
    pub(super) buffer: Vec<u8>,
}

impl Messages {
    /// Creates an empty set of sockets. Sockets that do not choose a port get one of `ephemeral`.
    pub fn new(ephemeral: RangeInclusive<u16>) -> Messages {
        Messages {
            sockets: ByNumber::default(),
            calls: ByNumber::default(),
            requests: ByNumber::default(),
            connections: ByNumber::default(),
            owners: ByHandle::default(),
            due: BTreeSet::new(),
            last: 0,
            ephemeral,
            changed: None,
            wrote: false,
            roomy: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Takes the changes since the last call; they are recorded from the first call on.
    pub fn take_changed(&mut self, into: &mut Vec<Key>) {
        into.append(self.changed.get_or_insert_default());
    }

    /// Returns true if new data was passed to the stack since the last call.
    pub fn take_wrote(&mut self) -> bool {
        std::mem::take(&mut self.wrote)
    }

    /// Returns the time of the next work for [`Messages::work`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Handles a notice; returns false if its handle belongs to no message socket.
    pub fn note(&mut self, stack: &mut Stack, now: Instant, handle: Handle, notice: Notice) -> bool {
        if self.owners.is_empty() {
            return false;
        }
        match self.owners.get(&handle) {
            None => return false,
            Some(HandleOwner::Call(call)) => self.note_call(stack, now, (*call, handle), notice),
            Some(HandleOwner::Request(request)) => self.note_request(stack, now, (*request, handle), notice),
            Some(HandleOwner::Connection(connection)) => {
                self.note_connection(stack, now, *connection, notice)
            }
            Some(HandleOwner::Socket(socket)) => self.note_socket(stack, now, (*socket, handle), notice),
        }
        true
    }

    pub(super) fn note_socket(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (socket, handle): (u64, Handle),
        notice: Notice,
    ) {
        let Some(bound) = self.sockets.get_mut(&socket) else {
            return;
        };
        match notice {
            Notice::Accepted(child) => {
                stack.accept(handle);
                match bound.is_native {
                    true => self.incoming(stack, now, socket, child),
                    false => self.accepted(stack, now, socket, child),
                }
            }
            Notice::Writable => self.room(socket),
            Notice::Failed(errno) => self.socket_failed(socket, RequestError::Refused(errno)),
            Notice::Closed => self.socket_failed(socket, RequestError::NotConnected),
            Notice::Connected
            | Notice::Readable
            | Notice::Eof
            | Notice::Reset(_)
            | Notice::Stopped(_)
            | Notice::Message(_) => {}
        }
    }

    pub(super) fn socket_failed(&mut self, socket: u64, error: RequestError) {
        if let Some(bound) = self.sockets.get_mut(&socket) {
            bound.failed.get_or_insert(MessageError::Request(error));
            self.change(Key::Requests(Socket(socket)));
        }
    }

    /// Does work that waited for room or that is due.
    pub fn work(&mut self, stack: &mut Stack, now: Instant) {
        self.resume_paused(stack, now);
        while let Some(&(at, due)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            match due {
                Due::Call(call) => self.end_call(stack, now, call, MessageError::Deadline),
                Due::Request(request) => self.end_request(stack, now, request),
                Due::Connection(connection) => self.look_after(stack, now, connection),
            }
        }
    }

    /// Returns an unused number.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn change(&mut self, key: Key) {
        self.changed.iter_mut().for_each(|changed| changed.push(key));
    }

    /// Records that there may be room for calls of a socket.
    pub(super) fn room(&mut self, socket: u64) {
        if let Some(bound) = self.sockets.get_mut(&socket)
            && std::mem::take(&mut bound.wants_room)
        {
            self.change(Key::Room(Socket(socket)));
        }
    }

    // ---- Sockets

    /// Opens a socket; port 0 stands for any free one.
    pub(super) fn open_socket(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        local: SocketAddr,
        options: &MessageOptions,
    ) -> Result<Socket, MessageError> {
        let carriage = Carriage::from_module(stack.module()).ok_or(MessageError::NoMessages)?;
        let is_native = carriage == Carriage::Native;
        let opened = match (is_native, local.port()) {
            (true, 0) => self.listen_anywhere(stack, now, local),
            (false, 0) => Ok((None, local)),
            (true, _) => stack
                .listen(now, local, BACKLOG)
                .map(|handle| (Some(handle), local)),
            (false, _) => connection::listen(stack, now, local, BACKLOG).map(|handle| (Some(handle), local)),
        };
        let (listener, local) = opened.map_err(MessageError::Request)?;
        let socket = self.next_number();
        if let Some(handle) = listener {
            self.owners.insert(handle, HandleOwner::Socket(socket));
        }
        let bound = Bound {
            is_native,
            listener,
            local,
            options: options.clone(),
            queue: VecDeque::new(),
            calls: 0,
            serving: 0,
            replying: BTreeSet::new(),
            replied: BTreeSet::new(),
            wants_room: false,
            failed: None,
            by_peer: BTreeMap::new(),
            connections: BTreeSet::new(),
            paused: VecDeque::new(),
            unsent: 0,
        };
        self.sockets.insert(socket, bound);
        Ok(Socket(socket))
    }

    /// Opens an endpoint at the first free port.
    pub(super) fn listen_anywhere(
        &self,
        stack: &mut Stack,
        now: Instant,
        local: SocketAddr,
    ) -> Result<(Option<Handle>, SocketAddr), RequestError> {
        for port in self.ephemeral.clone() {
            let at = SocketAddr::new(local.ip(), port);
            match stack.listen(now, at, BACKLOG) {
                Err(RequestError::AddressInUse) => {}
                Err(RequestError::Refused(Errno::ADDRESS_IN_USE)) => {}
                opened => return opened.map(|handle| (Some(handle), at)),
            }
        }
        Err(RequestError::NoPort)
    }

    /// Closes a socket: its calls end, requests without a reply are dropped, and replies already given still
    /// leave.
    pub(super) fn close_socket(&mut self, stack: &mut Stack, now: Instant, socket: u64) {
        let calls = self.calls.iter().filter(|(_, call)| call.socket == socket);
        let calls: Vec<u64> = calls.map(|(call, _)| *call).collect();
        for call in calls {
            self.end_call(stack, now, call, MessageError::Over);
        }
        let of_socket = |served: &&ServedRequest| served.socket == socket;
        let requests = self
            .requests
            .iter()
            .filter(|(_, served)| of_socket(served) && !matches!(served.progress, RequestProgress::Replied));
        let requests: Vec<u64> = requests.map(|(request, _)| *request).collect();
        for request in requests {
            self.end_request(stack, now, request);
        }
        let Some(mut bound) = self.sockets.remove(&socket) else {
            return;
        };
        for connection in std::mem::take(&mut bound.connections) {
            self.close_connection(stack, now, connection);
        }
        if let Some(handle) = bound.listener {
            self.owners.remove(&handle);
            stack.finish(now, handle);
        }
        self.wrote = true;
        self.change(Key::Requests(Socket(socket)));
        self.change(Key::Room(Socket(socket)));
    }

    pub(super) fn bound(&self, socket: u64) -> Result<&Bound, MessageError> {
        self.sockets.get(&socket).ok_or(MessageError::Over)
    }

    // ---- Calls

    /// Begins a call or a message; [`Messages::offer_call`] passes its bytes later.
    pub(super) fn begin_call(
        &mut self,
        now: Instant,
        socket: u64,
        op: AppOp,
        peer: SocketAddr,
        deadline: Option<Duration>,
    ) -> u64 {
        let call = self.next_number();
        let due = deadline.map(|limit| now + limit);
        if let Some(at) = due {
            self.due.insert((at, Due::Call(call)));
        }
        let outstanding = Outstanding {
            socket,
            op,
            peer,
            at: CallProgress::Unsent,
            began: now,
            due,
            is_counted: false,
            outcome: None,
        };
        self.calls.insert(call, outstanding);
        call
    }

    /// Passes a call's bytes to the transport. Returns false if there is no room for it now.
    pub(super) fn offer_call(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        call: u64,
        message: &[u8],
    ) -> Result<bool, MessageError> {
        let outstanding = self.calls.get(&call).ok_or(MessageError::Over)?;
        let (socket, op, peer) = (outstanding.socket, outstanding.op, outstanding.peer);
        let bound = self.sockets.get_mut(&socket).ok_or(MessageError::Over)?;
        if let Some(error) = &bound.failed {
            return Err(error.clone());
        }
        check_size(message.len(), &bound.options)?;
        let at = if bound.calls >= bound.options.calls {
            None
        } else if bound.is_native {
            self.offer_native(stack, now, (socket, call), op, peer, message)?
        } else {
            self.offer_framed(stack, now, (socket, call), op, peer, message)?
        };
        let bound = self.sockets.get_mut(&socket).ok_or(MessageError::Over)?;
        let Some(at) = at else {
            bound.wants_room = true;
            return Ok(false);
        };
        self.wrote = true;
        bound.calls += 1;
        if let Some(outstanding) = self.calls.get_mut(&call) {
            outstanding.is_counted = true;
            // The call may be over already, if its connection broke at once.
            if outstanding.outcome.is_none() {
                outstanding.at = at;
            }
        }
        Ok(true)
    }

    /// Records the outcome of a call, which is kept until the application has taken it.
    pub(super) fn settle(&mut self, call: u64, outcome: Result<Vec<u8>, MessageError>) {
        let Some(outstanding) = self.calls.get_mut(&call) else {
            return;
        };
        if outstanding.outcome.is_none() {
            outstanding.outcome = Some(outcome);
            outstanding.at = CallProgress::Over;
            if let Some(at) = outstanding.due.take() {
                self.due.remove(&(at, Due::Call(call)));
            }
            self.change(Key::Call(Call(call)));
        }
    }

    /// Ends a call from this side, and gives up its data in flight.
    pub(super) fn end_call(&mut self, stack: &mut Stack, now: Instant, call: u64, error: MessageError) {
        let Some(outstanding) = self.calls.get(&call) else {
            return;
        };
        let at = outstanding.at;
        self.settle(call, Err(error));
        match at {
            CallProgress::Native(handle) => {
                self.owners.remove(&handle);
                stack.abort(now, handle);
                stack.release(handle);
                self.wrote = true;
            }
            CallProgress::Framed(connection) => self.cancel_framed(stack, now, connection, call),
            CallProgress::Unsent | CallProgress::Over => {}
        }
    }

    /// Returns the outcome of a call once it is over, and then removes the call.
    pub(super) fn take_outcome(&mut self, call: u64) -> Result<Option<Vec<u8>>, MessageError> {
        let outstanding = self.calls.get_mut(&call).ok_or(MessageError::Over)?;
        match outstanding.outcome.take() {
            None => Ok(None),
            Some(outcome) => {
                self.forget_call(call);
                outcome.map(Some)
            }
        }
    }

    pub(super) fn forget_call(&mut self, call: u64) {
        let Some(outstanding) = self.calls.remove(&call) else {
            return;
        };
        if let Some(at) = outstanding.due {
            self.due.remove(&(at, Due::Call(call)));
        }
        if outstanding.is_counted
            && let Some(bound) = self.sockets.get_mut(&outstanding.socket)
        {
            bound.calls -= 1;
            self.room(outstanding.socket);
        }
    }

    // ---- Requests

    /// Queues a request that has been received completely.
    pub(super) fn enqueue(
        &mut self,
        socket: u64,
        peer: SocketAddr,
        origin: RequestOrigin,
        message: Vec<u8>,
    ) -> u64 {
        let request = self.next_number();
        if let Some(bound) = self.sockets.get_mut(&socket) {
            bound.queue.push_back(request);
            bound.serving += 1;
        }
        let served = ServedRequest {
            socket,
            peer,
            origin,
            progress: RequestProgress::Waiting(message),
            due: None,
        };
        self.requests.insert(request, served);
        self.change(Key::Requests(Socket(socket)));
        request
    }

    /// Returns the next request that the application has not taken.
    pub(super) fn take_request(&mut self, socket: u64) -> Result<Option<Incoming>, MessageError> {
        let bound = self.sockets.get_mut(&socket).ok_or(MessageError::Over)?;
        let Some(request) = bound.queue.pop_front() else {
            return bound.failed.clone().map_or(Ok(None), Err);
        };
        let served = self.requests.get_mut(&request).ok_or(MessageError::Over)?;
        let (peer, wants_reply) = (served.peer, !matches!(served.origin, RequestOrigin::Nobody));
        let RequestProgress::Waiting(message) =
            std::mem::replace(&mut served.progress, RequestProgress::Taken)
        else {
            return Err(MessageError::Over);
        };
        Ok(Some(Incoming {
            id: RequestId(request),
            peer,
            wants_reply,
            message,
        }))
    }

    /// Sends the reply to a request.
    pub(super) fn reply_to(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        request: u64,
        reply: &[u8],
    ) -> Result<(), MessageError> {
        let served = self.requests.get(&request).ok_or(MessageError::Over)?;
        if !matches!(served.progress, RequestProgress::Taken) {
            return Err(MessageError::Over);
        }
        let (socket, origin) = (served.socket, served.origin);
        check_size(reply.len(), &self.bound(socket)?.options)?;
        self.wrote = true;
        match origin {
            RequestOrigin::Native(handle) => self.answer_native(stack, now, (request, handle), reply),
            RequestOrigin::Framed { connection, number } => {
                self.answer_framed(stack, now, (connection, number), reply);
                self.finish_request(request);
                Ok(())
            }
            RequestOrigin::Nobody => {
                self.finish_request(request);
                Ok(())
            }
        }
    }

    /// Drops a request that the application has taken and will not answer.
    pub(super) fn leave_unanswered(&mut self, stack: &mut Stack, now: Instant, request: u64) {
        let Some(served) = self.requests.get_mut(&request) else {
            return;
        };
        if !matches!(served.progress, RequestProgress::Taken) {
            return;
        }
        let RequestOrigin::Native(_) = served.origin else {
            return self.end_request(stack, now, request);
        };
        // If a program forgets a call at once, its peer may repeat it, and the request would arrive twice.
        served.progress = RequestProgress::Dropped;
        let limit = self
            .sockets
            .get(&served.socket)
            .and_then(|bound| bound.options.deadline);
        let at = now + limit.unwrap_or(DROPPED);
        served.due = Some(at);
        self.due.insert((at, Due::Request(request)));
    }

    /// Gives up a request in any state.
    pub(super) fn end_request(&mut self, stack: &mut Stack, now: Instant, request: u64) {
        let Some(served) = self.requests.get(&request) else {
            return;
        };
        match served.origin {
            RequestOrigin::Native(handle) => {
                self.owners.remove(&handle);
                stack.abort(now, handle);
                stack.release(handle);
                self.wrote = true;
            }
            RequestOrigin::Framed { connection, number } => {
                self.refuse_framed(stack, now, connection, number)
            }
            RequestOrigin::Nobody => {}
        }
        self.finish_request(request);
    }

    /// Removes a request that is done, which makes room for another.
    pub(super) fn finish_request(&mut self, request: u64) {
        let Some(served) = self.requests.remove(&request) else {
            return;
        };
        if let Some(at) = served.due {
            self.due.remove(&(at, Due::Request(request)));
        }
        let Some(bound) = self.sockets.get_mut(&served.socket) else {
            return;
        };
        bound.replying.remove(&request);
        if !bound.replied.remove(&request) {
            bound.serving -= 1;
        }
        if matches!(served.progress, RequestProgress::Waiting(_)) {
            bound.queue.retain(|waiting| *waiting != request);
        }
        if !bound.paused.is_empty() {
            self.roomy.push(served.socket);
        }
    }
}

/// Checks the size of a message.
pub(super) fn check_size(len: usize, options: &MessageOptions) -> Result<(), MessageError> {
    match len {
        0 => Err(MessageError::Empty),
        len if len > options.size => {
            Err(MessageError::TooLong { len: len as u64, longest: options.size as u64 })
        }
        _ => Ok(()),
    }
}
