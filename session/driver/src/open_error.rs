//! Reasons why a document's session could not be opened.

use std::io;

use hawser_race::resolve::{BadName, ConfigError};

use super::document::{StartError, Warning};
use super::error::{ConnectError, SessionError};
use super::state::StateError;
use super::trust::TrustError;

/// A document's session, or the fallback that it allows, could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A stack of the document could not be started.
    #[error(transparent)]
    Stack(#[from] StartError),
    /// The system could not list its interfaces.
    #[error("cannot list the interfaces: {0}")]
    Interfaces(#[source] io::Error),
    /// The system's resolver configuration cannot be used.
    #[error(transparent)]
    Resolver(#[from] ConfigError),
    /// A name in the document is invalid.
    #[error(transparent)]
    Name(#[from] BadName),
    /// No candidate is left.
    #[error("{}", reasons.join("; "))]
    NoCandidate {
        /// The names without an address, and other reasons.
        reasons: Vec<String>,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The scheduler does not exist.
    #[error("unknown scheduler {0:?}")]
    Scheduler(String),
    /// The quota of every path is spent.
    #[error("the quota of every path is used up: {}", joined(warnings))]
    QuotaSpent {
        /// The warnings, with the bytes used.
        warnings: Vec<Warning>,
    },
    /// The state file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The session could not begin.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The session ended before a carrier was up.
    #[error(transparent)]
    Session(#[from] SessionError),
}

fn joined(warnings: &[Warning]) -> String {
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    warnings.join("; ")
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match error {
            OpenError::Interfaces(error) => return error,
            OpenError::Trust(error) => return error.into(),
            OpenError::State(error) => return error.into(),
            OpenError::Connect(error) => return error.into(),
            OpenError::Session(error) => return error.into(),
            OpenError::Stack(_) => io::ErrorKind::Other,
            OpenError::NoCandidate { .. } => io::ErrorKind::NotFound,
            OpenError::QuotaSpent { .. } => io::ErrorKind::QuotaExceeded,
            OpenError::Resolver(_) | OpenError::Name(_) | OpenError::Scheduler(_) => {
                io::ErrorKind::InvalidInput
            }
        };
        Self::new(kind, error)
    }
}
