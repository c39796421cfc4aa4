//! Views into a run: the trace of its events, and a debugger.

#![forbid(unsafe_code)]
pub mod debug;
pub mod trace;
