//! Why a lab does not come up, or does not do what it is asked.

use std::fmt;
use std::io;
use std::path::PathBuf;

use hawser_host::netns::NamespaceError;
use rustix::io::Errno;

use crate::rules::trace::TraceError;
use crate::spec::SpecError;

/// What went wrong. The text has what would help.
#[derive(Debug)]
pub enum LabError {
    /// The file, or what was asked, is wrong.
    Spec(SpecError),
    /// A trace cannot be read.
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: TraceError,
    },
    /// The kernel refuses a namespace, a link, an address or a route.
    Namespace(NamespaceError),
    /// There is no such host or link.
    Unknown {
        /// `host` or `link`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The kernel carries this link, which can change rate and queue, and nothing else.
    NotACell {
        /// The link.
        link: String,
    },
    /// A host cannot be given names of its own.
    Names(ViewError),
    /// Anything else.
    Io {
        /// What was tried.
        action: String,
        /// How it failed.
        error: io::Error,
    },
    /// The thread that carries packets has ended.
    Stopped,
}

/// Why a host cannot be given names of its own.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// There is no directory that could be covered for a moment.
    #[error("none of /mnt, /media and /tmp is a directory")]
    NoDirectory,
    /// A file that the lab's is to be laid over is missing.
    #[error("{} does not exist; make an empty one", .0.display())]
    Missing(PathBuf),
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for ViewError {
    fn from(error: Errno) -> ViewError {
        ViewError::System(error.into())
    }
}

impl LabError {
    /// For a failed operation.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let action = action.into();
        move |error| LabError::Io { action, error }
    }
}

impl From<NamespaceError> for LabError {
    fn from(error: NamespaceError) -> LabError {
        LabError::Namespace(error)
    }
}

impl From<ViewError> for LabError {
    fn from(error: ViewError) -> LabError {
        LabError::Names(error)
    }
}

impl From<SpecError> for LabError {
    fn from(error: SpecError) -> LabError {
        LabError::Spec(error)
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Spec(error) => error.fmt(f),
            LabError::Trace { path, error } => write!(f, "the trace {}: {error}", path.display()),
            LabError::Namespace(error) => error.fmt(f),
            LabError::Unknown { kind, name, known } => {
                write!(f, "there is no {kind} `{name}`; there are: {}", known.join(", "))
            }
            LabError::NotACell { link } => write!(
                f,
                "the kernel carries the link `{link}`, which can change its rate and queue alone; give it \
                 through = \"cell\""
            ),
            LabError::Names(error) => write!(f, "cannot give a host names of its own: {error}"),
            LabError::Io { action, error } => write!(f, "cannot {action}: {error}"),
            LabError::Stopped => f.write_str("the lab's forwarder has ended"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LabError::Spec(error) => Some(error),
            LabError::Namespace(error) => Some(error),
            LabError::Names(error) => Some(error),
            LabError::Io { error, .. } => Some(error),
            LabError::Trace { .. }
            | LabError::Unknown { .. }
            | LabError::NotACell { .. }
            | LabError::Stopped => None,
        }
    }
}
