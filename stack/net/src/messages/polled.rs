//! Messages in the polled API.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_ir::AppOp;
use hawser_time::Instant;

use super::error::MessageError;
use super::options::MessageOptions;
use super::state::{At, Call, Incoming, Messages, Outstanding, RequestId, Socket, check_size};
use crate::endpoint::Endpoint;

/// Messages. None of these waits: what they put into motion leaves with the next [`Endpoint::poll`].
impl Endpoint {
    /// Opens a socket of messages at an address of the stack; port 0: any that is free. Over a program that offers
    /// streams alone, messages are framed on connections; at port 0 nobody can open one to it then.
    ///
    /// # Errors
    /// [`MessageError::NoMessages`] when the program offers neither messages nor streams; else why the program or the
    /// stack refused.
    pub fn bind(&mut self, local: SocketAddr, options: &MessageOptions) -> Result<Socket, MessageError> {
        self.with_messages(|messages, stack, now| messages.bind(stack, now, local, options))
    }

    /// Gives a socket back: its calls end, requests that are not answered are dropped, replies still leave.
    pub fn unbind(&mut self, socket: Socket) {
        self.with_messages(|messages, stack, now| messages.unbind(stack, now, socket.0));
    }

    /// Where a socket is.
    #[must_use]
    pub fn bound(&self, socket: Socket) -> Option<SocketAddr> {
        self.messages().bound(socket.0).ok().map(|bound| bound.local)
    }

    /// Calls a peer: it gets the message once and whole, and [`Endpoint::reply`] has its reply. `None`: there is no room
    /// now, for calls or for their bytes.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EINVAL` for an empty message, `EOPNOTSUPP` for a program without calls; why the stack refused.
    pub fn call(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<Call>, MessageError> {
        let deadline = self.messages().bound(socket.0)?.options.deadline;
        self.call_with(socket, peer, message, deadline)
    }

    /// [`Endpoint::call`] with a deadline of its own; `None`: as long as the transport goes on trying.
    ///
    /// # Errors
    /// As those of [`Endpoint::call`].
    pub fn call_with(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        message: &[u8],
        deadline: Option<Duration>,
    ) -> Result<Option<Call>, MessageError> {
        self.offer(socket, AppOp::Call, peer, message, deadline)
    }

    /// Sends a message that has no reply; [`Endpoint::reply`] says that the peer has it, by no byte.
    ///
    /// # Errors
    /// As those of [`Endpoint::call`]; `EOPNOTSUPP` for a program that carries calls alone.
    pub fn send(
        &mut self,
        socket: Socket,
        peer: SocketAddr,
        message: &[u8],
    ) -> Result<Option<Call>, MessageError> {
        let deadline = self.messages().bound(socket.0)?.options.deadline;
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
            check_size(message.len(), &messages.bound(socket.0)?.options)?;
            let call = messages.begin(now, socket.0, op, peer, deadline);
            let offered = messages.offer(stack, now, call, message);
            if !matches!(offered, Ok(true)) {
                messages.forget(call);
            }
            Ok(offered?.then_some(Call(call)))
        })
    }

    /// The reply to a call; `None` while there is none. Once there was one, or an error, the call is over.
    ///
    /// # Errors
    /// `ETIMEDOUT`, `ECANCELED`, what the program or the connection reported; [`MessageError::Over`] for a call that
    /// was over.
    pub fn reply(&mut self, call: Call) -> Result<Option<Vec<u8>>, MessageError> {
        self.messages_mut().outcome(call.0)
    }

    /// Gives a call up, wherever it is: [`Endpoint::reply`] says `ECANCELED`, unless the reply was there already.
    pub fn cancel(&mut self, call: Call) {
        self.with_messages(|messages, stack, now| {
            messages.end_call(stack, now, call.0, MessageError::Canceled);
        });
    }

    /// The next request that has come to a socket; `None` while there is none.
    ///
    /// # Errors
    /// Why the socket does nothing any more.
    pub fn next_request(&mut self, socket: Socket) -> Result<Option<Incoming>, MessageError> {
        self.messages_mut().next_request(socket.0)
    }

    /// Replies to a request. Where nobody waits any more, the reply goes nowhere.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EINVAL` for an empty one; [`MessageError::Over`] for a request that was answered.
    pub fn answer(&mut self, request: RequestId, reply: &[u8]) -> Result<(), MessageError> {
        self.with_messages(|messages, stack, now| messages.answer(stack, now, request.0, reply))
    }

    /// Drops a request without a reply. Framed on connections, its caller gets `ECANCELED`; else its deadline ends it.
    pub fn drop_request(&mut self, request: RequestId) {
        self.with_messages(|messages, stack, now| messages.drop_request(stack, now, request.0));
    }

    /// Answers all requests that have come; how many there were. What `answer` gives is not sent where no reply is
    /// wanted.
    ///
    /// # Errors
    /// As those of [`Endpoint::next_request`] and [`Endpoint::answer`].
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

/// For `asynchronous`: a call whose bytes are offered until there is room for them.
impl Messages {
    pub(super) fn begin_call(
        &mut self,
        now: Instant,
        socket: u64,
        op: AppOp,
        peer: SocketAddr,
        deadline: Deadline,
    ) -> Result<u64, MessageError> {
        let limit = match deadline {
            Deadline::OfSocket => self.bound(socket)?.options.deadline,
            Deadline::Own(limit) => limit,
        };
        Ok(self.begin(now, socket, op, peer, limit))
    }

    /// Whether a call waits for room, and is not over.
    pub(super) fn is_unsent(&self, call: u64) -> bool {
        let unsent = |call: &Outstanding| call.at == At::Unsent && call.outcome.is_none();
        self.calls.get(&call).is_some_and(unsent)
    }
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deadline {
    OfSocket,
    Own(Option<Duration>),
}
