//! Which transports serve a request, in what order: NEAT's policy manager, with its files.
//!
//! The ranking itself is a pure function ([`rank`]); here are the folders that it reads, and what
//! watches them.
//!
//! * [`Folders`]: where profiles, policies and nodes of the CIB lie; [`Folders::load`] reads them
//! * [`Watch`]: reads them again when they change, and keeps the last good ones when they are bad

mod files;
mod watch;

pub use hawser_policy::*;

pub use files::{Base, FileError, Folders, Learnt, Role, format_of, role_of, text};
pub use watch::{Event, Watch, WatchError};
