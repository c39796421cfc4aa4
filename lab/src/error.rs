//! Errors of building and operating a lab.

use std::io;
use std::path::PathBuf;

use hawser_host::netns::NamespaceError;
use rustix::io::Errno;

use crate::rules::trace::TraceError;
use crate::spec::SpecError;

/// A lab could not be built, or an operation on it failed. The message includes a remedy.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The lab file, or the request, is invalid.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// A trace could not be read.
    #[error("the trace {}: {error}", path.display())]
    Trace {
        /// The path of the trace.
        path: PathBuf,
        /// The fault of the trace.
        error: TraceError,
    },
    /// The kernel rejected a namespace, a link, an address or a route.
    #[error("{0}")]
    Namespace(#[from] NamespaceError),
    /// The host or link does not exist.
    #[error("unknown {kind} `{name}`; known names: {}", known.join(", "))]
    Unknown {
        /// The kind of the name: `host` or `link`.
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The kernel carries this link, so that only its rate and queue can be changed.
    #[error(
        "the kernel carries the link `{link}` and can change only its rate and queue; give it \
         through = \"cell\""
    )]
    NotACell {
        /// The name of the link.
        link: String,
    },
    /// The view of a host with its own names could not be made.
    #[error("cannot give a host names of its own: {0}")]
    Names(#[from] ViewError),
    /// An operation of the system failed.
    #[error("cannot {action}: {error}")]
    Io {
        /// The operation that was attempted.
        action: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The thread that carries packets has ended.
    #[error("the lab's forwarder has ended")]
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
