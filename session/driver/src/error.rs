//! Errors, with an enum for each operation, so that callers match on cases and not on texts.
//!
//! If an interface requires an [`io::Error`], each is converted to a suitable kind.

use std::io;

use hawser_carriers::OpenError;
use hawser_carriers::quic::QuicError;
use hawser_carriers::sctp::SctpError;
use hawser_session_machine::{SessionEnd, StreamError};

use super::code_error::CodeError;

/// A session, or one of its streams, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No path candidate led to the server.
    #[error("no path candidate led to the server: {}{}", reasons.join("; "), hint_of(hint.as_deref()))]
    Unreachable {
        /// The reasons of up to four candidates.
        reasons: Vec<String>,
        /// A possible explanation.
        hint: Option<String>,
    },
    /// The peer ended the session over its one-time code.
    #[error(transparent)]
    Code(CodeError),
    /// The session has ended.
    #[error(transparent)]
    Ended(SessionEnd),
    /// The stream cannot be opened or written to.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The peer reset the stream with this code.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
}

fn hint_of(hint: Option<&str>) -> String {
    hint.map_or_else(String::new, |hint| format!(" ({hint})"))
}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> Self {
        let kind = match &error {
            SessionError::Unreachable { .. } => io::ErrorKind::ConnectionRefused,
            SessionError::Code(_) => io::ErrorKind::PermissionDenied,
            SessionError::Ended(_) => io::ErrorKind::ConnectionAborted,
            SessionError::Stream(StreamError::Unknown(_) | StreamError::Finished(_)) => {
                io::ErrorKind::BrokenPipe
            }
            SessionError::Stream(StreamError::Limit(_)) => io::ErrorKind::QuotaExceeded,
            SessionError::Stream(StreamError::Closed) => io::ErrorKind::NotConnected,
            SessionError::Reset(_) => io::ErrorKind::ConnectionReset,
        };
        Self::new(kind, error)
    }
}

/// A session could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No path candidate was given.
    #[error("a session needs at least one path candidate")]
    NoCandidate,
    /// A secure session was requested without a TLS configuration.
    #[error("a secure session needs a TLS configuration")]
    NoTls,
    /// The name is not valid for a server's certificate.
    #[error("{0:?} is not a server name")]
    ServerName(String),
    /// The system has no random numbers.
    #[error("the system provides no random numbers: {0}")]
    Random(getrandom::Error),
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::Random(_) => io::ErrorKind::Other,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// A server could not listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// QUIC was requested without a certificate.
    #[error("QUIC needs a certificate")]
    NoCertificate,
    /// A server of secure sessions requested SCTP, which has no security.
    #[error("SCTP has no security and can be used in insecure sessions only")]
    Insecure,
    /// The SCTP library refused.
    #[error(transparent)]
    Sctp(#[from] SctpError),
    /// The transport could not open a listener.
    #[error(transparent)]
    Transport(#[from] OpenError),
    /// QUIC could not open a listener.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<ListenError> for io::Error {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::System(error) => error,
            ListenError::Sctp(error) => error.into(),
            ListenError::Transport(error) => error.into(),
            ListenError::Quic(error) => error.into(),
            error => Self::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

/// A path candidate did not lead to a carrier.
#[derive(Debug, thiserror::Error)]
#[error("{transport}{}: {}", over(interface.as_deref()), in_words(fault))]
pub struct CandidateError {
    /// The name of the transport.
    pub transport: String,
    /// The interface, if the candidate is bound to one.
    pub interface: Option<String>,
    /// The reason.
    pub fault: CandidateFault,
}

/// The reason why no carrier was opened.
#[derive(Debug, thiserror::Error)]
pub enum CandidateFault {
    /// QUIC always uses TLS, and the session has no TLS configuration.
    #[error("QUIC needs TLS")]
    NoTls,
    /// SCTP is only for insecure sessions.
    #[error("SCTP has no security")]
    Insecure,
    /// The server's certificate cannot have the name that the server gave.
    #[error(transparent)]
    Name(#[from] ConnectError),
    /// SCTP could not open an association.
    #[error(transparent)]
    Sctp(#[from] SctpError),
    /// QUIC could not open a connection.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// Another transport could not open a connection.
    #[error(transparent)]
    Transport(#[from] OpenError),
}

impl CandidateFault {
    /// Returns true if this side does not trust the server's certificate.
    pub(super) fn is_distrust(&self) -> bool {
        match self {
            Self::Transport(OpenError::Handshake { error, .. }) => {
                let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
                matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
            }
            Self::Quic(QuicError::Broken(broken)) => broken.is_distrust(),
            _ => false,
        }
    }
}

/// Reasons against a certificate, by rustls's names and in plain words.
const REASONS: [(&str, &str); 4] = [
    (
        "invalid peer certificate: ApplicationVerificationFailure",
        "its certificate is not the pinned one",
    ),
    (
        "invalid peer certificate: UnknownIssuer",
        "its certificate is not signed by a trusted authority",
    ),
    (
        "invalid peer certificate: BadSignature",
        "its certificate has an invalid signature",
    ),
    (
        "invalid peer certificate: BadEncoding",
        "its certificate cannot be read",
    ),
];

fn in_words(fault: &CandidateFault) -> String {
    let replaced = |text: String, (name, plain): &(&str, &str)| text.replace(name, plain);
    REASONS.iter().fold(fault.to_string(), replaced)
}

fn over(interface: Option<&str>) -> String {
    interface.map_or_else(String::new, |interface| format!(" over {interface}"))
}
