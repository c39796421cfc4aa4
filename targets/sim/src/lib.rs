//! The simulator: hosts, links and faults under virtual time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod checksum;
pub mod dice;
pub mod frame;
pub mod link;
