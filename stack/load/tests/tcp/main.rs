//! TCP's behaviour, as RFCs and formulas have it: a stack in virtual time against a peer that the
//! test plays by hand, and two stacks over a bad link.
//!
//! The whole suite runs twice: here on machine code, and on the interpreter in `../tcp_interp`.

/// What runs the program in this run of the suite.
const ENGINE: hawser_load::Engine = hawser_load::Engine::Native;

include!("suite.rs");
