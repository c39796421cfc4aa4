//! TCP's behaviour according to RFCs and formulas: a stack in virtual time against a peer that the test
//! plays, and two stacks over a bad link.
//!
//! The whole suite runs twice: here as machine code, and on the interpreter in `../tcp_interp`.

/// The engine in this run of the suite.
const ENGINE: hawser_load::Engine = hawser_load::Engine::Native;

include!("suite.rs");
