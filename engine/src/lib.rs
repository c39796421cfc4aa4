//! Runs a transport program: events in, instructions out.
//!
//! * [`program`]: what the engine knows of a program
//! * [`wire`]: what the engine knows of packets' ways in and out
//! * [`net`]: below the transport: addresses, neighbours, IP, ICMP
//!
//! Invariants: the engine owns no thread, no clock and no socket; time and random bits come in
//! with each call. It names no transport program.

#![warn(missing_docs)]

pub mod net;
pub mod program;
pub mod wire;
