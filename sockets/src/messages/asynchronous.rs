//! Messages on a tokio runtime.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hawser_ir::AppOp;
use tokio::task::JoinSet;

use super::{Call, Key, MessageError, MessageOptions, RequestId, Socket};
use crate::endpoint::Endpoint;
use crate::network::{Network, Shared};

impl Network {
    /// Opens a message socket at an address of the stack; port 0 stands for any free one. See
    /// [`Endpoint::bind`].
    ///
    /// # Errors
    /// As [`Endpoint::bind`].
    pub fn bind(&self, local: SocketAddr) -> Result<MessageSocket, MessageError> {
        self.bind_with(local, &MessageOptions::default())
    }

    /// [`Network::bind`] with limits and times chosen by the caller.
    ///
    /// # Errors
    /// As [`Endpoint::bind`].
    pub fn bind_with(
        &self,
        local: SocketAddr,
        options: &MessageOptions,
    ) -> Result<MessageSocket, MessageError> {
        let mut inner = self.shared.lock();
        let socket = inner.living()?.endpoint.bind(local, options)?;
        drop(inner);
        self.shared.kick();
        let shared = self.shared.clone();
        Ok(MessageSocket { open: Arc::new(Open { shared, socket }), requests: options.requests })
    }
}

/// A socket that is closed when its last holder drops it.
struct Open {
    shared: Arc<Shared>,
    socket: Socket,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.lock().endpoint.unbind(self.socket);
        self.shared.kick();
    }
}

/// Sends and receives whole messages and calls. Clones share the socket; it is closed with the last of them.
///
/// ```no_run
/// # async fn run(network: hawser_sockets::Network) -> Result<(), Box<dyn std::error::Error>> {
/// let server = network.bind("10.9.0.2:7000".parse()?)?;
/// server.serve(|request| async move { request.message().to_vec() }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MessageSocket {
    open: Arc<Open>,
    requests: usize,
}

impl MessageSocket {
    /// Returns the local address of the socket.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        self.open.shared.lock().endpoint.bound(self.open.socket)
    }

    /// Calls a peer, which receives the message once and whole; the future returns its reply. Dropping the
    /// future cancels the call.
    pub fn call<'a>(&self, peer: SocketAddr, message: &'a [u8]) -> PendingCall<'a> {
        self.begin(AppOp::Call, peer, message, Deadline::OfSocket)
    }

    /// [`MessageSocket::call`] with its own deadline; `None` lets it last for as long as the transport keeps
    /// trying.
    pub fn call_with<'a>(
        &self,
        peer: SocketAddr,
        message: &'a [u8],
        deadline: Option<Duration>,
    ) -> PendingCall<'a> {
        self.begin(AppOp::Call, peer, message, Deadline::Own(deadline))
    }

    /// Sends a message without a reply, and waits until the peer has it.
    ///
    /// # Errors
    /// As for a [`PendingCall`]; also `EOPNOTSUPP` for a program that carries only calls.
    pub async fn send(&self, peer: SocketAddr, message: &[u8]) -> Result<(), MessageError> {
        let sent = self.begin(AppOp::Message, peer, message, Deadline::OfSocket);
        sent.await.map(drop)
    }

    fn begin<'a>(
        &self,
        op: AppOp,
        peer: SocketAddr,
        message: &'a [u8],
        deadline: Deadline,
    ) -> PendingCall<'a> {
        let socket = self.open.socket;
        let begun = self
            .open
            .shared
            .lock()
            .endpoint
            .with_messages(|messages, _, now| {
                let limit = match deadline {
                    Deadline::OfSocket => messages.options(socket)?.deadline,
                    Deadline::Own(limit) => limit,
                };
                messages.begin(now, socket, op, peer, limit)
            });
        PendingCall {
            open: self.open.clone(),
            call: begun.as_ref().copied().ok(),
            refused: begun.err(),
            message,
        }
    }

    /// Waits for the next request. Several tasks may wait.
    ///
    /// # Errors
    /// Returns the reason for which the socket has stopped.
    pub async fn accept(&self) -> Result<Request, MessageError> {
        let socket = self.open.socket;
        let incoming = std::future::poll_fn(|cx| {
            let mut inner = self.open.shared.lock();
            match inner
                .living()
                .and_then(|inner| inner.endpoint.next_request(socket))
            {
                Ok(Some(incoming)) => Poll::Ready(Ok(incoming)),
                Ok(None) => {
                    inner.wake_later(Key::Requests(socket), cx.waker());
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(error)),
            }
        });
        let incoming = incoming.await?;
        Ok(Request {
            open: self.open.clone(),
            id: Some(incoming.id),
            peer: incoming.peer,
            wants_reply: incoming.wants_reply,
            message: incoming.message,
        })
    }

    /// Answers requests by a function, each in its own task, with as many at a time as the socket's options
    /// allow requests. The function's result is not sent if the caller wants no reply. An empty reply drops
    /// the request, and so does one beyond the size limit.
    ///
    /// # Errors
    /// Returns only if the socket has stopped, with the reason.
    pub async fn serve<F, Reply>(&self, answer: F) -> Result<(), MessageError>
    where
        F: Fn(Arc<Request>) -> Reply,
        Reply: Future<Output = Vec<u8>> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        loop {
            while tasks.try_join_next().is_some() {}
            if tasks.len() >= self.requests.max(1) {
                tasks.join_next().await;
                continue;
            }
            let request = Arc::new(self.accept().await?);
            let reply = answer(request.clone());
            tasks.spawn(async move {
                let reply = reply.await;
                request.respond(&reply)
            });
        }
    }
}

/// A call in progress: a future of the reply. Dropping it cancels the call.
///
/// Its errors are `EMSGSIZE`, `EINVAL` for an empty message, `ETIMEDOUT`, `ECANCELED`, `EOPNOTSUPP`, and the
/// errors that the program or the connection reported: see [`MessageError`].
#[must_use = "a call begins when it is awaited"]
pub struct PendingCall<'a> {
    open: Arc<Open>,
    /// The call until it is over.
    call: Option<Call>,
    refused: Option<MessageError>,
    message: &'a [u8],
}

impl PendingCall<'_> {
    /// Returns a handle that can cancel the call while another task awaits it.
    #[must_use]
    pub fn canceler(&self) -> Canceler {
        Canceler { shared: Arc::downgrade(&self.open.shared), call: self.call }
    }
}

impl Future for PendingCall<'_> {
    type Output = Result<Vec<u8>, MessageError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.refused.take() {
            return Poll::Ready(Err(error));
        }
        let Some(call) = self.call else {
            return Poll::Ready(Err(MessageError::Over));
        };
        let shared = self.open.shared.clone();
        let mut inner = shared.lock();
        let message = self.message;
        let advanced = inner
            .living()
            .and_then(|inner| advance(&mut inner.endpoint, call, message));
        match advanced {
            Ok((None, is_unsent)) => {
                inner.wake_later(Key::Call(call), cx.waker());
                if is_unsent {
                    inner.wake_later(Key::Room(self.open.socket), cx.waker());
                }
                drop(inner);
                // The call was accepted, or it has a new deadline.
                shared.kick();
                Poll::Pending
            }
            Ok((Some(reply), _)) => {
                self.call = None;
                Poll::Ready(Ok(reply))
            }
            Err(error) => {
                drop(inner);
                self.give_up();
                Poll::Ready(Err(error))
            }
        }
    }
}

/// Takes a call's outcome, or offers its bytes if there was no room before. The second value is true if there
/// is still no room.
fn advance(
    endpoint: &mut Endpoint,
    call: Call,
    message: &[u8],
) -> Result<(Option<Vec<u8>>, bool), MessageError> {
    endpoint.with_messages(|messages, stack, now| {
        if let Some(reply) = messages.outcome(call)? {
            return Ok((Some(reply), false));
        }
        if !messages.is_unsent(call) {
            return Ok((None, false));
        }
        let is_taken = messages.offer(stack, now, call, message)?;
        // The connection may break at once.
        Ok((messages.outcome(call)?, !is_taken))
    })
}

impl PendingCall<'_> {
    fn give_up(&mut self) {
        let Some(call) = self.call.take() else { return };
        let mut inner = self.open.shared.lock();
        inner.forget_waker(Key::Call(call));
        inner.endpoint.with_messages(|messages, stack, now| {
            messages.cancel(stack, now, call);
            messages.forget(call);
        });
        drop(inner);
        self.open.shared.kick();
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Cancels a call that another task awaits; that task gets `ECANCELED`.
#[derive(Clone)]
pub struct Canceler {
    shared: std::sync::Weak<Shared>,
    call: Option<Call>,
}

impl Canceler {
    /// Cancels the call, unless it is over.
    pub fn cancel(&self) {
        let (Some(shared), Some(call)) = (self.shared.upgrade(), self.call) else {
            return;
        };
        shared.lock().endpoint.with_messages(|messages, stack, now| {
            messages.cancel(stack, now, call);
        });
        shared.kick();
    }
}

/// A received request. If it is dropped without a reply, it is not answered. If messages are framed on
/// connections, its caller then gets `ECANCELED`; otherwise the caller's deadline ends the call.
pub struct Request {
    open: Arc<Open>,
    /// The identifier until the request is answered.
    id: Option<RequestId>,
    peer: SocketAddr,
    wants_reply: bool,
    message: Vec<u8>,
}

impl Request {
    /// Returns the address of the sender.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the bytes of the whole message.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// Returns true if its sender waits for a reply.
    #[must_use]
    pub fn wants_reply(&self) -> bool {
        self.wants_reply
    }

    /// Replies to the request. If the caller does not wait any more, the reply is discarded.
    ///
    /// # Errors
    /// Returns `EMSGSIZE`, or `EINVAL` for an empty reply; the request can then still be answered. Returns
    /// [`MessageError::Over`] if it was already answered or the socket is gone.
    pub fn respond(&self, reply: &[u8]) -> Result<(), MessageError> {
        let id = self.id.ok_or(MessageError::Over)?;
        let mut inner = self.open.shared.lock();
        let result = inner.living().and_then(|inner| match self.wants_reply {
            true => inner.endpoint.answer(id, reply),
            false => {
                inner.endpoint.drop_request(id);
                Ok(())
            }
        });
        drop(inner);
        self.open.shared.kick();
        result
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            // A request that was answered is no longer known, so this has no effect on it.
            self.open.shared.lock().endpoint.drop_request(id);
            self.open.shared.kick();
        }
    }
}

/// The maximum duration of a call.
#[derive(Clone, Copy, Debug)]
enum Deadline {
    OfSocket,
    Own(Option<Duration>),
}
