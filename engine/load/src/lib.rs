//! The transport programs that come with Hawser, and the adapters that run a program in the engine.
//!
//! Each program is a folder in `transports/`. The build script checks all of them and compiles them to
//! machine code by way of C.
//!
//! * [`LoadedProgram`]: a program by name, on a chosen engine; [`Engine`]: the engines
//! * [`builtin()`], [`names`]: the programs that come with Hawser; [`load`]: a user's own program
//! * [`Interpreted`], [`Native`]: a program behind the engine's interface, by interpretation and as machine
//!   code
//! * [`Attached`]: machine code with some of its chains replaced by interpreted ones
//! * [`Attachments`]: the attachments of one running program, and changes to them
//! * [`build`], [`emit`], [`Library`]: programs as shared libraries
//! * [`programs`]: programs by name or by file, with params as users write them
//! * [`parse_params`]: settings such as `MIN_RTO=200ms`
//! * [`script_table`], [`departures`]: a program's declarations for behaviour scripts

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
#[allow(unsafe_code)] // Calls generated C.
mod native;
mod params;
pub mod programs;
mod scripts;
mod unsupported;

pub use attached::Attached;
pub use attachments::{Attachments, CheckedChange, Installed};
pub use builtin::{Rejected, builtin, load, names};
pub use engine::{Engine, UnknownEngine};
pub use error::{AttachError, RunError};
pub use hawser_emit_c::Machine;
pub use hawser_interp::Unsupported;
pub use hawser_ir::UnknownParam;
pub use interpreted::Interpreted;
pub use library::{BuildError, Library, LibraryError, build, emit, emit_chains, texts_in_library};
pub use loaded::{LoadError, LoadedProgram};
pub use native::Native;
pub use params::{ParamError, parse_param, parse_params, parse_value};
pub use scripts::{departures, script_table};
