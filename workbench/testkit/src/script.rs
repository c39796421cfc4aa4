//! Behaviour scripts in packetdrill's syntax, run against a transport program.
//!
//! A script lists the packets of a TCP's peer, the calls of the application and the expected results, each
//! with its time. [`run`] takes a script from its text to a [`ScriptReport`]. The scripted peer is the other
//! end of the wire, the program under test runs on the engine's stack, and time is virtual.
//!
//! * [`syntax`]: text to tree
//! * [`run`]: a script's run; [`ScriptEnvironment`] is its environment
//! * [`Scripts`]: a program, by name or by file, set up to run scripts; [`find`]: scripts in folders
//! * [`Table`]: a program's declarations (`script.toml`): TCP_INFO, sysctls
//!
//! docs/scripts.md describes the language and its departures from packetdrill.
//!
//! Invariants: a script executes nothing outside this crate. Shell commands are only parsed for the settings
//! that they make. A script from any source ends with a report, in bounded memory.

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
    IpVersion, Leniency, MAX_TIME_ON_HOST, MakeProgram, Observe, ReadFile, RunTarget, ScriptEnvironment,
    ScriptFailure, ScriptOutcome, ScriptReport, System, Table, TableError, run,
};
pub use scripts::{FindError, RunOptions, Scripts, ScriptsError, find};
