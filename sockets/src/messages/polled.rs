//! Messages in the polled API.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_ir::AppOp;

use super::{Call, Incoming, MessageError, MessageOptions, RequestId, Socket};
use crate::endpoint::Endpoint;

/// The message functions do not wait: the resulting packets leave with the next [`Endpoint::poll`].
impl Endpoint {
    /// Opens a message socket at an address of the stack; port 0 stands for any free one. If the program
    /// offers only streams, messages are framed on connections. With port 0, peers cannot open a connection
    /// to the socket then.
    ///
    /// # Errors
    /// Returns [`MessageError::NoMessages`] if the program offers neither messages nor streams, and otherwise
    /// the reason for which the program or the stack refused.
    pub fn bind(&mut self, local: SocketAddr, options: &MessageOptions) -> Result<Socket, MessageError> {
        self.with_messages(|messages, stack, now| messages.bind(stack, now, local, options))
    }

    /// Closes a socket: its calls end, unanswered requests are dropped, and replies still leave.
    pub fn unbind(&mut self, socket: Socket) {
        self.with_messages(|messages, stack, now| messages.unbind(stack, now, socket));
    }

    /// Returns the local address of a socket.
    #[must_use]
    pub fn bound(&self, socket: Socket) -> Option<SocketAddr> {
        self.messages().local(socket)
    }

    /// Calls a peer, which receives the message once and whole; [`Endpoint::reply`] returns its reply.
    /// Returns `None` if there is no room now, for calls or for their bytes.
    ///
    /// # Errors
    /// Returns `EMSGSIZE`, `EINVAL` for an empty message, `EOPNOTSUPP` for a program without calls, or the
    /// reason for which the stack refused.
    pub fn call(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<Call>, MessageError> {
        let deadline = self.messages().options(socket)?.deadline;
        self.call_with(socket, peer, message, deadline)
    }

    /// [`Endpoint::call`] with its own deadline; `None` lets it last for as long as the transport keeps
    /// trying.
    ///
    /// # Errors
    /// As [`Endpoint::call`].
    pub fn call_with(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        message: &[u8],
        deadline: Option<Duration>,
    ) -> Result<Option<Call>, MessageError> {
        self.offer(socket, AppOp::Call, peer, message, deadline)
    }

    /// Sends a message without a reply; an empty result of [`Endpoint::reply`] reports that the peer has it.
    ///
    /// # Errors
    /// As [`Endpoint::call`]; also `EOPNOTSUPP` for a program that carries only calls.
    pub fn send(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<Call>, MessageError> {
        let deadline = self.messages().options(socket)?.deadline;
        self.offer(socket, AppOp::Message, peer, message, deadline)
    }

    fn offer(
        &mut self,
        socket: Socket,
        op: AppOp,
        peer: SocketAddr,
        message: &[u8],
        deadline: Option<Duration>,
    ) -> Result<Option<Call>, MessageError> {
        self.with_messages(|messages, stack, now| {
            messages.begin_with(stack, now, (socket, op, peer), message, deadline)
        })
    }

    /// Returns the reply to a call; `None` while it has not arrived. Once a reply or an error was returned,
    /// the call is over.
    ///
    /// # Errors
    /// Returns `ETIMEDOUT`, `ECANCELED`, or the error that the program or the connection reported;
    /// [`MessageError::Over`] for a call that was already over.
    pub fn reply(&mut self, call: Call) -> Result<Option<Vec<u8>>, MessageError> {
        self.messages_mut().outcome(call)
    }

    /// Cancels a call in any state: [`Endpoint::reply`] returns `ECANCELED`, unless the reply has already
    /// arrived.
    pub fn cancel(&mut self, call: Call) {
        self.with_messages(|messages, stack, now| {
            messages.cancel(stack, now, call);
        });
    }

    /// Returns the next request that a socket has received; `None` if no request is waiting.
    ///
    /// # Errors
    /// Returns the reason for which the socket has stopped.
    pub fn next_request(&mut self, socket: Socket) -> Result<Option<Incoming>, MessageError> {
        self.messages_mut().next_request(socket)
    }

    /// Replies to a request. If the caller does not wait any more, the reply is discarded.
    ///
    /// # Errors
    /// Returns `EMSGSIZE`, `EINVAL` for an empty reply, or [`MessageError::Over`] for a request that was
    /// already answered.
    pub fn answer(&mut self, request: RequestId, reply: &[u8]) -> Result<(), MessageError> {
        self.with_messages(|messages, stack, now| messages.answer(stack, now, request, reply))
    }

    /// Drops a request without a reply. If messages are framed on connections, its caller gets `ECANCELED`;
    /// otherwise the caller's deadline ends the call.
    pub fn drop_request(&mut self, request: RequestId) {
        self.with_messages(|messages, stack, now| messages.drop_request(stack, now, request));
    }

    /// Answers all received requests and returns their number. The result of `answer` is not sent if the
    /// caller wants no reply.
    ///
    /// # Errors
    /// As [`Endpoint::next_request`] and [`Endpoint::answer`].
    pub fn serve(
        &mut self,
        socket: Socket,
        mut answer: impl FnMut(&Incoming) -> Vec<u8>,
    ) -> Result<usize, MessageError> {
        let mut count = 0;
        while let Some(request) = self.next_request(socket)? {
            let reply = answer(&request);
            if request.wants_reply {
                self.answer(request.id, &reply)?;
            } else {
                self.drop_request(request.id);
            }
            count += 1;
        }
        Ok(count)
    }
}
