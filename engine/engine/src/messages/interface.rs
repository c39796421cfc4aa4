//! The interface for applications.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_ir::AppOp;
use hawser_time::Instant;

use super::error::MessageError;
use super::options::MessageOptions;
use super::state::{
    Call, CallProgress, HandleOwner, Incoming, Messages, Outstanding, RequestId, Socket, check_size,
};
use crate::{Handle, Stack};

/// No function here waits: the resulting packets leave with the stack's next poll.
impl Messages {
    /// Opens a message socket at an address of the stack; port 0 stands for any free one. If the program
    /// offers only streams, messages are framed on connections. With port 0, peers cannot open a connection
    /// to the socket then.
    ///
    /// # Errors
    /// Returns [`MessageError::NoMessages`] if the program offers neither messages nor streams, and otherwise
    /// the reason for which the program or the stack refused.
    pub fn bind(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        local: SocketAddr,
        options: &MessageOptions,
    ) -> Result<Socket, MessageError> {
        self.open_socket(stack, now, local, options)
    }

    /// Closes a socket: its calls end, unanswered requests are dropped, and replies still leave.
    pub fn unbind(&mut self, stack: &mut Stack, now: Instant, socket: Socket) {
        self.close_socket(stack, now, socket.0);
    }

    /// Returns the local address of a socket.
    #[must_use]
    pub fn local(&self, socket: Socket) -> Option<SocketAddr> {
        self.bound(socket.0).ok().map(|bound| bound.local)
    }

    /// Returns the options of a socket.
    ///
    /// # Errors
    /// Returns [`MessageError::Over`] if the socket was closed.
    pub fn options(&self, socket: Socket) -> Result<&MessageOptions, MessageError> {
        Ok(&self.bound(socket.0)?.options)
    }

    /// Begins a call or a message. No packet leaves until [`Messages::offer`] passes its bytes. `deadline`
    /// limits its duration; `None` lets it last for as long as the transport keeps trying.
    ///
    /// # Errors
    /// Returns [`MessageError::Over`] if the socket was closed.
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

    /// Passes a call's bytes to the transport. Returns false if there is no room for it now;
    /// [`Key::Room`](super::Key::Room) follows.
    ///
    /// # Errors
    /// Returns `EMSGSIZE`, `EINVAL` for an empty message, `EOPNOTSUPP` for a message that the program does
    /// not carry, or the reason for which the stack refused.
    pub fn offer(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        call: Call,
        message: &[u8],
    ) -> Result<bool, MessageError> {
        self.offer_call(stack, now, call.0, message)
    }

    /// Begins a call or a message and passes its bytes; returns `None` if there is no room.
    ///
    /// # Errors
    /// As [`Messages::begin`] and [`Messages::offer`].
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

    /// Returns true if a call waits for room and is not over.
    #[must_use]
    pub fn is_unsent(&self, call: Call) -> bool {
        let unsent = |call: &Outstanding| call.at == CallProgress::Unsent && call.outcome.is_none();
        self.calls.get(&call.0).is_some_and(unsent)
    }

    /// Returns the outcome of a call once it is over, and then removes the call. The outcome of a message has
    /// no bytes.
    ///
    /// # Errors
    /// Returns `ETIMEDOUT`, `ECANCELED`, or the error that the program or the connection reported;
    /// [`MessageError::Over`] for a call that was already removed.
    pub fn outcome(&mut self, call: Call) -> Result<Option<Vec<u8>>, MessageError> {
        self.take_outcome(call.0)
    }

    /// Cancels a call in any state: its outcome is `ECANCELED`, unless it already has one.
    pub fn cancel(&mut self, stack: &mut Stack, now: Instant, call: Call) {
        self.end_call(stack, now, call.0, MessageError::Canceled);
    }

    /// Removes a call that is over or that has sent no bytes.
    pub fn forget(&mut self, call: Call) {
        self.forget_call(call.0);
    }

    /// Returns the next request that a socket has received; `None` if no request is waiting.
    ///
    /// # Errors
    /// Returns the reason for which the socket has stopped.
    pub fn next_request(&mut self, socket: Socket) -> Result<Option<Incoming>, MessageError> {
        self.take_request(socket.0)
    }

    /// Replies to a request. If the caller does not wait any more, the reply is discarded.
    ///
    /// # Errors
    /// Returns `EMSGSIZE`, `EINVAL` for an empty reply, or [`MessageError::Over`] for a request that was
    /// already answered.
    pub fn answer(
        &mut self,
        stack: &mut Stack,
        now: Instant,
        request: RequestId,
        reply: &[u8],
    ) -> Result<(), MessageError> {
        self.reply_to(stack, now, request.0, reply)
    }

    /// Drops a request without a reply. If messages are framed on connections, its caller gets `ECANCELED`;
    /// otherwise the caller's deadline ends the call.
    pub fn drop_request(&mut self, stack: &mut Stack, now: Instant, request: RequestId) {
        self.leave_unanswered(stack, now, request.0);
    }

    /// Opens the connection to a peer that its calls will use, if messages are framed on connections and it
    /// does not exist yet. Returns false if there is no room for one more.
    ///
    /// # Errors
    /// Returns the reason for which the stack or the program refused.
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

    /// Closes the idle connections that a socket has opened.
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

    /// Returns the number of connections, including closing ones.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Returns true if a handle of the stack belongs to a message socket.
    #[must_use]
    pub fn owns(&self, handle: Handle) -> bool {
        self.owners.contains_key(&handle)
    }

    /// Returns the stack's handle that carries a call: its own, or that of its connection.
    #[must_use]
    pub fn handle_of(&self, call: Call) -> Option<Handle> {
        match self.calls.get(&call.0)?.at {
            CallProgress::Native(handle) => Some(handle),
            CallProgress::Framed(connection) => Some(self.connections.get(&connection)?.handle),
            CallProgress::Unsent | CallProgress::Over => None,
        }
    }

    /// Returns the stack's handle that carries the reply to a request.
    #[must_use]
    pub fn handle_for(&self, request: RequestId) -> Option<Handle> {
        let owned = |(handle, owner): (&Handle, &HandleOwner)| {
            matches!(owner, HandleOwner::Request(id) if *id == request.0).then_some(*handle)
        };
        let connection =
            |c: &&super::connection::FramedConnection| c.serving.values().any(|id| *id == request.0);
        let framed = self.connections.values().find(connection).map(|c| c.handle);
        framed.or_else(|| self.owners.iter().find_map(owned))
    }
}
