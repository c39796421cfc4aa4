//! The transport programs that come with Hawser, and what puts a program behind the engine.
//!
//! Each program is a folder here; the build script runs the compiler over all of them.
//!
//! * [`builtin()`], [`names`]: programs that come with Hawser
//! * [`load`]: a program of the user's own
//! * [`Interpreted`]: a program behind the engine's interface, by interpretation
//! * [`parse_params`]: settings such as `MIN_RTO=200ms`
//! * [`script_table`], [`departures`]: what a program says of itself to behaviour scripts

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod builtin;
mod interpreted;
mod params;
mod scripts;

pub use builtin::{Rejected, builtin, load, names};
pub use interpreted::Interpreted;
pub use params::{ParamError, parse_param, parse_params, parse_value};
pub use scripts::{departures, script_table};
