//! The session's view of a transport: a connected, ordered byte stream, and its statistics.
//!
//! * [`Carrier`]: the stream; [`Description`]: its properties; [`send`]: sends a whole queue
//! * [`OpenError`]: reasons why a carrier could not be opened
//! * [`Statistics`]: figures of one carrier, which schedulers and the detection of lost carriers read;
//!   [`observables`]: the same figures from the variables of a transport program
//!
//! This crate performs no I/O; the crates beside it do.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod carrier;
mod error;
pub mod observables;
mod statistics;

pub use carrier::{Carrier, Description, send};
pub use error::OpenError;
pub use statistics::Statistics;
