//! The transports for a request, in order: NEAT's policy manager, with its files.
//!
//! The ranking itself is a pure function ([`rank`]). This module has the folders from which it is configured,
//! and the watch on them.
//!
//! * [`Folders`]: the folders of profiles, policies and nodes of the CIB; [`Folders::load`] reads them
//! * [`Watch`]: reads them again when they change, and keeps the last valid content when they are faulty

mod files;
mod watch;

pub use hawser_policy::*;

pub use files::{Base, FileError, Folders, Learnt, Role, format_of, role_of, text};
pub use watch::{Event, Watch, WatchError};
