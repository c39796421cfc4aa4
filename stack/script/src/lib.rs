//! Behaviour scripts in packetdrill's syntax, run against a transport program.
//!
//! A script says what a TCP's peer sends, what the application calls, and what must come of it,
//! each with its time. [`run`] takes one from its text to a [`Report`]: the scripted peer is the
//! other end of the wire, the program under test runs on the engine's stack, and time is virtual.
//!
//! * [`syntax`]: text to tree
//! * [`run`]: a script's run; [`Bench`] is what it runs against
//! * [`Scripts`]: a program, by name or by file, set up to run them; [`find`]: scripts in folders
//! * [`Table`]: what a program declares (`script.toml`): TCP_INFO, sysctls
//!
//! docs/scripts.md describes the language and where it departs from packetdrill.
//!
//! Invariants: nothing that a script says is executed outside this crate: shell commands are read
//! for what they set. A script from anywhere ends with a report, in bounded memory.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod departures;
mod python;
mod run;
mod scripts;
pub mod syntax;
mod wire;

pub use departures::{Departures, DeparturesError};
pub use run::{
    Bench, Failure, IpVersion, Leniency, MAX_TIME_ON_HOST, MakeProgram, Observe, ReadFile, Report, System,
    Table, TableError, Target, Verdict, run,
};
pub use scripts::{FindError, Options, Scripts, ScriptsError, find};
