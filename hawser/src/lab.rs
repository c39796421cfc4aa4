//! Emulated networks on this machine: hosts, links, names, timelines.

pub use hawser_lab::*;
