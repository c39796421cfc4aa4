//! The transports for a request, in order: NEAT's policy manager, with its files.
//!
//! The ranking itself is a pure function ([`rank`]). This module has the folders from which it is configured,
//! and the watch on them.
//!
//! * [`Folders`]: the folders of profiles, policies and nodes of the CIB; [`Folders::load`] reads them
//! * [`PolicyWatcher`]: reads them again when they change, and keeps the last valid content when they are
//!   faulty

mod files;
mod watch;

pub use hawser_policy::*;

pub use files::{FileError, FileRole, Folders, NodeFileTimes, PolicyFileContents, format_of, role_of, text};
pub use watch::{PolicyWatcher, ReloadEvent, WatchError};
