//! The simulator: hosts, links and faults under virtual time.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod capture;
mod checksum;
pub mod dice;
pub mod faulty;
pub mod frame;
mod inbox;
pub mod link;
pub mod pcap;
pub mod report;
pub mod scenario;
pub mod segment;
pub mod trace;
pub mod wire;
pub mod world;
