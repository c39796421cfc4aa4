//! Errors of building and operating a lab.

use std::fmt;
use std::io;
use std::path::PathBuf;

use hawser_host::netns::NamespaceError;
use rustix::io::Errno;

use crate::rules::trace::TraceError;
use crate::spec::SpecError;

/// A lab could not be built, or an operation on it failed. The message includes a remedy.
#[derive(Debug)]
pub enum LabError {
    /// The lab file, or the request, is invalid.
    Spec(SpecError),
    /// A trace could not be read.
    Trace {
        /// The path of the trace.
        path: PathBuf,
        /// The fault of the trace.
        error: TraceError,
    },
    /// The kernel rejected a namespace, a link, an address or a route.
    Namespace(NamespaceError),
    /// The host or link does not exist.
    Unknown {
        /// The kind of the name: `host` or `link`.
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The kernel carries this link, so that only its rate and queue can be changed.
    NotACell {
        /// The name of the link.
        link: String,
    },
    /// The view of a host with its own names could not be made.
    Names(ViewError),
    /// An operation of the system failed.
    Io {
        /// The operation that was attempted.
        action: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The thread that carries packets has ended.
    Stopped,
}

/// The view of a host with its own names could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// There is no directory that could be covered temporarily.
    #[error("none of /mnt, /media and /tmp is a directory")]
    NoDirectory,
    /// A system file over which the lab mounts its own is missing.
    #[error("{} does not exist; create an empty one", .0.display())]
    Missing(PathBuf),
    /// The system rejected an operation.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for ViewError {
    fn from(error: Errno) -> ViewError {
        ViewError::System(error.into())
    }
}

impl LabError {
    /// Returns a function that makes an error of a failed operation.
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
                write!(f, "unknown {kind} `{name}`; known names: {}", known.join(", "))
            }
            LabError::NotACell { link } => write!(
                f,
                "the kernel carries the link `{link}` and can change only its rate and queue; give it \
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
