//! Errors of the exchange of one-time codes.
//!
//! They exist without the feature `codes` too: a server may end any session because it requires a code.

use std::io;
use std::time::Duration;

use hawser_session_machine::SessionEnd;

use super::error::SessionError;

/// The maximum duration of an exchange.
pub const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why the code exchange failed and the session is not used.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The peer does not know the code.
    #[error("the one-time code is wrong")]
    Wrong,
    /// The server asks for a code, and the client gave none.
    #[error("the server requires its one-time code, but none was given")]
    Missing,
    /// The server has received too many wrong codes before.
    #[error("the server received too many wrong codes and accepts no more clients")]
    Exhausted,
    /// The exchange took too long.
    #[error("the server did not answer the one-time code within {} s; it may not use one", EXCHANGE_TIMEOUT.as_secs())]
    Late,
    /// The peer sent something that is not part of the exchange.
    #[error("the peer violated the exchange of one-time codes")]
    Protocol,
    /// The session ended.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<SessionError> for CodeError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Code(error) => error,
            error => Self::Io(error.into()),
        }
    }
}

impl CodeError {
    /// Returns the error that a server reported by the code of CLOSE.
    pub(super) fn of_end(end: SessionEnd) -> Option<CodeError> {
        match end {
            SessionEnd::ByPeer(7) => Some(Self::Wrong),
            SessionEnd::ByPeer(8) => Some(Self::Missing),
            SessionEnd::ByPeer(9) => Some(Self::Exhausted),
            _ => None,
        }
    }
}
