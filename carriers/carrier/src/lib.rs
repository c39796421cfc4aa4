//! What a session knows of a transport: a connected, ordered byte stream, and what it tells of
//! itself.
//!
//! * [`Statistics`]: figures of one carrier, which schedulers and the detection of silence read
//!
//! Nothing here performs I/O; the crates beside this one do.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod statistics;

pub use statistics::Statistics;
