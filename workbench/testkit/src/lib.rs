//! Tests of transport programs by the packets that they send and receive.

#![forbid(unsafe_code)]
pub mod script;
pub mod step;
