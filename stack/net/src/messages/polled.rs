//! Messages in the polled API.

use std::net::SocketAddr;
use std::time::Duration;

use hawser_ir::AppOp;

use super::{Call, Incoming, MessageError, MessageOptions, RequestId, Socket};
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
        self.with_messages(|messages, stack, now| messages.unbind(stack, now, socket));
    }

    /// Where a socket is.
    #[must_use]
    pub fn bound(&self, socket: Socket) -> Option<SocketAddr> {
        self.messages().local(socket)
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
        let deadline = self.messages().options(socket)?.deadline;
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

    /// The reply to a call; `None` while there is none. Once there was one, or an error, the call is over.
    ///
    /// # Errors
    /// `ETIMEDOUT`, `ECANCELED`, what the program or the connection reported; [`MessageError::Over`] for a call that
    /// was over.
    pub fn reply(&mut self, call: Call) -> Result<Option<Vec<u8>>, MessageError> {
        self.messages_mut().outcome(call)
    }

    /// Gives a call up, wherever it is: [`Endpoint::reply`] says `ECANCELED`, unless the reply was there already.
    pub fn cancel(&mut self, call: Call) {
        self.with_messages(|messages, stack, now| {
            messages.cancel(stack, now, call);
        });
    }

    /// The next request that has come to a socket; `None` while there is none.
    ///
    /// # Errors
    /// Why the socket does nothing any more.
    pub fn next_request(&mut self, socket: Socket) -> Result<Option<Incoming>, MessageError> {
        self.messages_mut().next_request(socket)
    }

    /// Replies to a request. Where nobody waits any more, the reply goes nowhere.
    ///
    /// # Errors
    /// `EMSGSIZE`, `EINVAL` for an empty one; [`MessageError::Over`] for a request that was answered.
    pub fn answer(&mut self, request: RequestId, reply: &[u8]) -> Result<(), MessageError> {
        self.with_messages(|messages, stack, now| messages.answer(stack, now, request, reply))
    }

    /// Drops a request without a reply. Framed on connections, its caller gets `ECANCELED`; else its deadline ends it.
    pub fn drop_request(&mut self, request: RequestId) {
        self.with_messages(|messages, stack, now| messages.drop_request(stack, now, request));
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
