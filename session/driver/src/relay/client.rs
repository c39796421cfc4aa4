//! The client's end of a gateway: one session with the gateway, and one of its streams for each destination.
//!
//! Invariants: a session is used only after the gateway has accepted it. There is one at a time; when it has
//! ended, the next call opens another. Dropping a call abandons only what that call began.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::document::{Document, Warning};
use crate::{Session, SessionStream, open};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::wire::{ACCEPTED, Greeting, RESET, Reply, Request};
use super::{Destination, Token};

/// The time within which the gateway must accept a session.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(15);
/// The time within which a request must be answered. It is longer than a gateway's own attempts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection through a gateway could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A session with the gateway could not be opened.
    #[error("the gateway cannot be reached: {0}")]
    Unreachable(io::Error),
    /// The gateway does not know the token, or allows no further session.
    #[error(
        "the gateway refused this client: its token is not in the gateway's file of clients, or it \
             has too many sessions there"
    )]
    Unauthenticated,
    /// The document disables security, but a token is only sent over TLS.
    #[error("a token is sent to a gateway over TLS only: its document must not have `none`")]
    Insecure,
    /// The gateway answered with a refusal.
    #[error("{0}")]
    Denied(Reply),
    /// The session ended, or allowed no further stream, before there was an answer.
    #[error("the gateway did not answer: {0}")]
    Broken(io::Error),
    /// The gateway did not accept the session within 15 s.
    #[error("the gateway cannot be reached: it did not accept the session in time")]
    NotAccepted,
    /// The gateway did not answer a request within 30 s.
    #[error("the gateway did not answer in time")]
    NoAnswer,
}

impl From<ClientError> for io::Error {
    fn from(error: ClientError) -> io::Error {
        let kind = match &error {
            ClientError::Unreachable(inner) | ClientError::Broken(inner) => inner.kind(),
            ClientError::Unauthenticated | ClientError::Denied(Reply::NotAllowed) => {
                io::ErrorKind::PermissionDenied
            }
            ClientError::Insecure => io::ErrorKind::InvalidInput,
            ClientError::Denied(Reply::Refused) => io::ErrorKind::ConnectionRefused,
            ClientError::Denied(Reply::NetworkUnreachable) => io::ErrorKind::NetworkUnreachable,
            ClientError::Denied(Reply::HostUnreachable) => io::ErrorKind::HostUnreachable,
            ClientError::Denied(Reply::TimedOut) | ClientError::NotAccepted | ClientError::NoAnswer => {
                io::ErrorKind::TimedOut
            }
            ClientError::Denied(Reply::Succeeded | Reply::Failure | Reply::UnknownKind) => {
                io::ErrorKind::Other
            }
        };
        io::Error::new(kind, error)
    }
}

/// A gateway, as its clients use it. Clones share its session.
#[derive(Clone)]
pub struct Gateway {
    near: Arc<Near>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Gateway").field(&self.name()).finish()
    }
}

struct Near {
    document: Document,
    token: Token,
    session: Mutex<Option<Session>>,
    /// True if the failure to open a session was reported since the last success.
    is_reported: AtomicBool,
}

impl Gateway {
    /// Creates a gateway whose session is opened when it is first needed.
    #[must_use]
    pub fn new(document: Document, token: Token) -> Gateway {
        Gateway {
            near: Arc::new(Near {
                document,
                token,
                session: Mutex::new(None),
                is_reported: AtomicBool::new(false),
            }),
        }
    }

    /// Creates a gateway, and opens its session at once. Also returns warnings about properties of `document`
    /// that this machine cannot provide.
    ///
    /// # Errors
    /// The gateway cannot be reached, or it refuses the token.
    pub async fn open(document: Document, token: Token) -> Result<(Gateway, Vec<Warning>), ClientError> {
        let gateway = Gateway::new(document, token);
        let (session, warnings) = gateway.near.dial().await?;
        *gateway.near.session.lock().await = Some(session);
        Ok((gateway, warnings))
    }

    /// Opens the session in advance, if there is none. A failure is logged.
    ///
    /// # Errors
    /// The gateway cannot be reached, or it refuses the token.
    pub async fn prepare(&self) -> Result<(), ClientError> {
        self.near.session().await.map(drop)
    }

    /// Opens a connection to `destination` through the gateway.
    ///
    /// # Errors
    /// See [`ClientError`]. If the session ended before the answer came, it is opened once more, because no
    /// byte of the connection was used.
    pub async fn connect(&self, destination: &Destination) -> Result<GatewayStream, ClientError> {
        let session = self.near.session().await?;
        let answered = match request(&session, destination).await {
            Err(ClientError::Broken(_)) if session.is_closed() => {
                request(&self.near.session().await?, destination).await
            }
            result => result,
        };
        log_answer(&self.name(), destination, answered.as_ref().err());
        answered
    }

    /// Returns the gateway's name, `HOST:PORT`.
    #[must_use]
    pub fn name(&self) -> String {
        self.near.name()
    }

    /// Returns the session, if there is one, for its paths and counts.
    pub async fn session(&self) -> Option<Session> {
        self.near
            .session
            .lock()
            .await
            .clone()
            .filter(|session| !session.is_closed())
    }

    /// Ends the session when all written data has been delivered. The next connection opens another.
    ///
    /// # Errors
    /// The session ended in another way.
    pub async fn close(&self) -> io::Result<()> {
        let session = self.near.session.lock().await.take();
        match session {
            Some(session) => Ok(session.close(0).await?),
            None => Ok(()),
        }
    }
}

impl Near {
    fn name(&self) -> String {
        let Document { host, port, .. } = &self.document;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    /// Returns the current session, or opens a new one. Concurrent callers wait for it.
    async fn session(&self) -> Result<Session, ClientError> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.is_closed()) {
            return Ok(session.clone());
        }
        let (session, _) = self.dial().await?;
        *current = Some(session.clone());
        Ok(session)
    }

    async fn dial(&self) -> Result<(Session, Vec<Warning>), ClientError> {
        let dialed = self.try_dial().await;
        self.log_session(dialed.as_ref().err());
        dialed
    }

    /// Logs that there is a session with the gateway, or the reason why there is none. The reason is a
    /// warning only once until there is a session.
    fn log_session(&self, error: Option<&ClientError>) {
        let gateway = self.name();
        let was_reported = self.is_reported.swap(error.is_some(), Ordering::Relaxed);
        match error {
            None => info!(?gateway, "the gateway accepted a session"),
            Some(error) if was_reported => debug!(?gateway, %error, "still no session with the gateway"),
            Some(error) => warn!(?gateway, %error, "no session with the gateway"),
        }
    }

    async fn try_dial(&self) -> Result<(Session, Vec<Warning>), ClientError> {
        if !self.document.is_secure() {
            return Err(ClientError::Insecure);
        }
        let accepted = async {
            let (session, warnings) = open(&self.document)
                .await
                .map_err(|error| ClientError::Unreachable(error.into()))?;
            let greeted = greet(&session, &self.token).await;
            match greeted {
                Ok(ACCEPTED) => Ok((session, warnings)),
                Ok(_) => Err(ClientError::Unauthenticated),
                Err(error) => Err(ClientError::Unreachable(error)),
            }
        };
        timeout(ACCEPT_TIMEOUT, accepted)
            .await
            .map_err(|_| ClientError::NotAccepted)?
    }
}

/// Sends this client's token, and returns the gateway's answer.
async fn greet(session: &Session, token: &Token) -> io::Result<u8> {
    session.opened().await?;
    let mut first = session.open()?;
    first
        .write_all(&Greeting { token: token.clone() }.encode())
        .await?;
    first.shutdown().await?;
    first.read_u8().await
}

async fn request(session: &Session, destination: &Destination) -> Result<GatewayStream, ClientError> {
    let mut stream = session
        .open()
        .map_err(|error| ClientError::Broken(error.into()))?;
    let request = Request { destination: destination.clone() };
    let answer = async {
        stream.write_all(&request.encode()).await?;
        stream.read_u8().await
    };
    let answer = timeout(ANSWER_TIMEOUT, answer)
        .await
        .map_err(|_| ClientError::NoAnswer)?;
    match answer.map(Reply::from_code) {
        Ok(Reply::Succeeded) => Ok(GatewayStream { stream }),
        Ok(reply) => Err(ClientError::Denied(reply)),
        Err(error) => Err(ClientError::Broken(error)),
    }
}

/// Logs the result of a request.
fn log_answer(gateway: &str, destination: &Destination, error: Option<&ClientError>) {
    let destination = destination.to_string();
    match error {
        None => debug!(?gateway, ?destination, "connected"),
        Some(error) => {
            let error = error.to_string();
            debug!(?gateway, ?destination, ?error, "not connected");
        }
    }
}

/// A connection through a gateway.
pub struct GatewayStream {
    stream: SessionStream,
}

impl GatewayStream {
    /// Abandons the connection, so that the destination sees a reset. Dropping it instead ends the written
    /// data, and discards unread data.
    pub fn reset(self) {
        // A stream that is over needs no reset.
        let _ = self.stream.reset(RESET);
    }
}

impl AsyncRead for GatewayStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for GatewayStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use hawser_testing::Log;

    use super::*;
    use crate::relay::Host;

    #[test]
    fn a_gateway_without_a_session_is_logged_once_as_warning() {
        let log = Log::start();
        let document = Document::new("gateway:4433").expect("a document");
        let gateway = Gateway::new(document, Token::generate().expect("a token"));
        gateway.near.log_session(Some(&ClientError::NotAccepted));
        gateway.near.log_session(Some(&ClientError::NotAccepted));
        gateway.near.log_session(None);
        gateway.near.log_session(Some(&ClientError::Unauthenticated));
        let levels: Vec<_> = log
            .lines()
            .iter()
            .map(|line| line[..5].trim().to_owned())
            .collect();
        assert_eq!(levels, ["WARN", "DEBUG", "INFO", "WARN"]);
    }

    #[test]
    fn a_refused_destination_is_logged_with_its_escaped_reason() {
        let log = Log::start();
        let destination = Destination::new(Host::Address([10, 0, 0, 9].into()), 22).expect("a port");
        let away = io::Error::new(io::ErrorKind::BrokenPipe, "gone\u{1b}[2J\nforged");
        log_answer(
            "gateway:4433",
            &destination,
            Some(&ClientError::Denied(Reply::NotAllowed)),
        );
        log_answer("gateway:4433", &destination, Some(&ClientError::Broken(away)));
        log.expect(&["DEBUG", "10.0.0.9:22", "does not allow this destination"]);
        log.expect(&[r"gone\u{1b}[2J\nforged"]);
    }
}
