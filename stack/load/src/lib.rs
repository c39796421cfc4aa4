//! The transport programs that come with Hawser, and what puts a program behind the engine.
//!
//! Each program is a folder here; the build script runs the compiler over all of them, and makes
//! machine code of them by way of C.
//!
//! * [`Loaded`]: a program by name, on the engine of choice; [`Engine`]: which there are
//! * [`builtin()`], [`names`]: programs that come with Hawser; [`load`]: one of the user's own
//! * [`Interpreted`], [`Native`]: a program behind the engine's interface, by interpretation and as
//!   machine code
//! * [`Attached`]: machine code with interpreted chains in place of some of its own
//! * [`Attachments`]: what is attached to one running program now, and each change of it
//! * [`build`], [`emit`], [`Library`]: programs as shared libraries
//! * [`programs`]: programs by name or by file, with params as a user writes them
//! * [`parse_params`]: settings such as `MIN_RTO=200ms`
//! * [`script_table`], [`departures`]: what a program declares to behaviour scripts

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod attached;
mod attachments;
mod bounds;
mod builtin;
mod engine;
mod error;
mod interpreted;
mod library;
mod limits;
mod loaded;
#[allow(unsafe_code)] // It calls generated C.
mod native;
mod params;
pub mod programs;
mod scripts;
mod unsupported;

pub use attached::Attached;
pub use attachments::{Attachments, Installed, Next};
pub use builtin::{Rejected, builtin, load, names};
pub use engine::{Engine, UnknownEngine};
pub use error::{AttachError, RunError};
pub use hawser_emit_c::Machine;
pub use hawser_interp::Unsupported;
pub use hawser_ir::UnknownParam;
pub use interpreted::Interpreted;
pub use library::{BuildError, Library, LibraryError, build, emit, emit_chains, texts_in_library};
pub use loaded::{LoadError, Loaded};
pub use native::Native;
pub use params::{ParamError, parse_param, parse_params, parse_value};
pub use scripts::{departures, script_table};
