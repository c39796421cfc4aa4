//! What a session knows of a transport: a connected, ordered byte stream, and its
//! statistics.
//!
//! * [`Carrier`]: the stream; [`Description`]: what it is; [`send`]: all that waits, at once
//! * [`OpenError`]: why there is none
//! * [`Statistics`]: figures of one carrier, which schedulers and the detection of lost carriers read;
//!   [`observables`]: the same from the state variables of a transport program
//!
//! Nothing here performs I/O; the crates beside this one do.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod carrier;
mod error;
pub mod observables;
mod statistics;

pub use carrier::{Carrier, Description, send};
pub use error::OpenError;
pub use statistics::Statistics;
