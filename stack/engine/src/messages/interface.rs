//! What applications ask for.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_ir::AppOp;
use hawser_time::Instant;

use super::error::MessageError;
use super::options::MessageOptions;
use super::state::{At, Call, Incoming, Messages, Outstanding, Owner, RequestId, Socket, check_size};
use crate::{Handle, Stack};

/// None of these waits: what they put into motion leaves with the stack's next poll.
impl Messages {
    /// Opens a socket of messages at an address of the stack; port 0: any that is free. Over a program that offers
    /// streams alone, messages are framed on connections; at port 0 nobody can open one to it then.
    ///
    /// # Errors
    /// [`MessageError::NoMessages`] when the program offers neither messages nor streams; else why the program or the
    /// stack refused.
    pub fn bind(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        local: SocketAddr,
        options: &MessageOptions,
    ) -> Result<Socket, MessageError> {
        self.open_socket(stack, now, local, options)
    }

    /// Gives a socket back: its calls end, requests that are not answered are dropped, replies still leave.
    pub fn unbind(&mut self, stack: &mut Stack, now: Instant, socket: Socket) {
        self.close_socket(stack, now, socket.0);
    }

    /// Where a socket is.
    #[must_use]
    pub fn local(&self, socket: Socket) -> Option<SocketAddr> {
        self.bound(socket.0).ok().map(|bound| bound.local)
    }

    /// Its options.
    ///
    /// # Errors
    /// [`MessageError::Over`] when it was given back.
    pub fn options(&self, socket: Socket) -> Result<&MessageOptions, MessageError> {
        Ok(&self.bound(socket.0)?.options)
    }

    /// Begins a call or a message, of which nothing leaves until [`Messages::offer`] has its bytes. `deadline`: how long
    /// it may take; `None`: as long as the transport goes on trying.
    ///
    /// # Errors
    /// [`MessageError::Over`] when the socket was given back.
    pub fn begin(
        &mut self,
        now: Instant,
        socket: Socket,
        op: AppOp,
        peer: SocketAddr,
        deadline: Option<Duration>,
    ) -> Result<Call, MessageError> {
        self.bound(socket.0)?;
        Ok(Call(self.begin_call(now, socket.0, op, peer, deadline)))
    }

    /// Hands a call's bytes to the transport. False when there is no room for it now: [`Key::Room`](super::Key::Room)
    /// follows.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EINVAL` for an empty message, `EOPNOTSUPP` for what the program does not carry; why the stack
    /// refused.
    pub fn offer(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        call: Call,
        message: &[u8],
    ) -> Result<bool, MessageError> {
        self.offer_call(stack, now, call.0, message)
    }

    /// Begins a call or a message and hands its bytes over; `None` when there is no room.
    ///
    /// # Errors
    /// As those of [`Messages::begin`] and [`Messages::offer`].
    pub fn begin_with(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        (socket, op, peer): (Socket, AppOp, SocketAddr),
        message: &[u8],
        deadline: Option<Duration>,
    ) -> Result<Option<Call>, MessageError> {
        check_size(message.len(), self.options(socket)?)?;
        let call = self.begin(now, socket, op, peer, deadline)?;
        let offered = self.offer(stack, now, call, message);
        if !matches!(offered, Ok(true)) {
            self.forget(call);
        }
        Ok(offered?.then_some(call))
    }

    /// Whether a call waits for room, and is not over.
    #[must_use]
    pub fn is_unsent(&self, call: Call) -> bool {
        let unsent = |call: &Outstanding| call.at == At::Unsent && call.outcome.is_none();
        self.calls.get(&call.0).is_some_and(unsent)
    }

    /// The outcome of a call, once it is over; then the call is forgotten. That of a message has no byte.
    ///
    /// # Errors
    /// `ETIMEDOUT`, `ECANCELED`, what the program or the connection reported; [`MessageError::Over`] for a call that
    /// was over.
    pub fn outcome(&mut self, call: Call) -> Result<Option<Vec<u8>>, MessageError> {
        self.take_outcome(call.0)
    }

    /// Gives a call up, wherever it is: its outcome is `ECANCELED`, unless there is one already.
    pub fn cancel(&mut self, stack: &mut Stack, now: Instant, call: Call) {
        self.end_call(stack, now, call.0, MessageError::Canceled);
    }

    /// Forgets a call that is over, or of which nothing has left.
    pub fn forget(&mut self, call: Call) {
        self.forget_call(call.0);
    }

    /// The next request that has come to a socket; `None` while there is none.
    ///
    /// # Errors
    /// Why the socket does nothing any more.
    pub fn next_request(&mut self, socket: Socket) -> Result<Option<Incoming>, MessageError> {
        self.take_request(socket.0)
    }

    /// Replies to a request. Where nobody waits any more, the reply goes nowhere.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EINVAL` for an empty one; [`MessageError::Over`] for a request that was answered.
    pub fn answer(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        request: RequestId,
        reply: &[u8],
    ) -> Result<(), MessageError> {
        self.reply_to(stack, now, request.0, reply)
    }

    /// Drops a request without a reply. Framed on connections, its caller gets `ECANCELED`; else its deadline ends it.
    pub fn drop_request(&mut self, stack: &mut Stack, now: Instant, request: RequestId) {
        self.leave_unanswered(stack, now, request.0);
    }

    /// Opens the connection to a peer that its calls will use, where messages are framed on connections and there is
    /// none yet. False when there is no place for one more.
    ///
    /// # Errors
    /// Why the stack or the program refused.
    pub fn connect(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        socket: Socket,
        peer: SocketAddr,
    ) -> Result<bool, MessageError> {
        let bound = self.bound(socket.0)?;
        if bound.is_native || bound.by_peer.contains_key(&peer) {
            return Ok(true);
        }
        self.wrote = true;
        Ok(self.open(stack, now, socket.0, peer)?.is_some())
    }

    /// Closes the connections that a socket has opened and on which nothing is under way.
    pub fn disconnect(&mut self, stack: &mut Stack, now: Instant, socket: Socket) {
        let Ok(bound) = self.bound(socket.0) else {
            return;
        };
        let of_socket = bound.connections.iter().copied();
        let idle = |id: &u64| {
            let connection = self.connections.get(id);
            connection.is_some_and(|c| !c.is_accepted && !c.is_closing && c.is_idle())
        };
        let idle: Vec<u64> = of_socket.filter(idle).collect();
        for connection in idle {
            self.close_connection(stack, now, connection);
        }
    }

    /// How many connections there are, closing ones included.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Whether a handle of the stack belongs to a socket of messages.
    #[must_use]
    pub fn owns(&self, handle: Handle) -> bool {
        self.owners.contains_key(&handle)
    }

    /// The handle of the stack by which a call travels: its own, or that of its connection.
    #[must_use]
    pub fn handle_of(&self, call: Call) -> Option<Handle> {
        match self.calls.get(&call.0)?.at {
            At::Native(handle) => Some(handle),
            At::Framed(connection) => Some(self.connections.get(&connection)?.handle),
            At::Unsent | At::Over => None,
        }
    }

    /// The handle of the stack by which the reply to a request travels.
    #[must_use]
    pub fn handle_for(&self, request: RequestId) -> Option<Handle> {
        let owned = |(handle, owner): (&Handle, &Owner)| {
            matches!(owner, Owner::Request(id) if *id == request.0).then_some(*handle)
        };
        let connection = |c: &&super::connection::Connection| c.serving.values().any(|id| *id == request.0);
        let framed = self.connections.values().find(connection).map(|c| c.handle);
        framed.or_else(|| self.owners.iter().find_map(owned))
    }
}
