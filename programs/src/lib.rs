//! The transport programs that come with Hawser, and what puts a program behind the engine.
//!
//! * [`interpreted`]: the interpreter as an engine's program
//! * [`params`]: `MIN_RTO=200ms`

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod interpreted;
pub mod params;

pub use interpreted::Interpreted;
pub use params::{ParamError, parse_param, parse_value};
