//! The simulator: hosts, links and faults under virtual time.
//!
//! A run is decided by its scenario and its seed alone. [`run`] takes a [`Scenario`] to a
//! [`Report`]; the report's trace hash shows whether two runs did the same.
//!
//! ```text
//! scenario ─ build ─► world: event core, one clock ─► run ─► report
//!                       │
//!                       ├─ host: stack, wire, applications (app)
//!                       ├─ switch: forwards by destination, along shortest paths (paths)
//!                       └─ link: pipes of seeded rules
//! ```
//!
//! * [`scenario`]: what there is and what happens, as TOML; [`swarm`]: scenarios drawn from a seed;
//!   [`shrink`]: smaller ones that still fail
//! * [`world`]: the event core; [`host`], [`app`], [`switch`]: what it runs; [`trace`]: its fingerprint
//! * [`paths`]: which way frames go through switches; [`map`]: the network as a drawing
//! * [`watch`]: how things are in the course of a run; [`standing`]: what the ends of a connection wait for at its end
//! * [`slowdown`]: what calls take, beside what they take alone
//! * [`link`]: what happens to frames, as rules; [`frame`], [`segment`]: what they happen to
//! * [`faulty`], [`capture`]: the same rules, and captures, in front of any [`Wire`]
//!
//! Invariants: no thread, no clock, no socket; nothing depends on the order of a hash map or on
//! an address in memory. It names no transport program.
//!
//! [`Wire`]: hawser_engine::wire::Wire
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod app;
mod build;
mod callers;
mod calling;
pub mod capture;
mod checksum;
mod device;
pub mod faulty;
pub mod frame;
pub mod host;
mod inbox;
pub mod link;
pub mod map;
mod overhear;
pub mod pcap;
pub mod pcapng;
pub mod report;
mod run;
pub mod segment;
pub mod shrink;
pub mod slowdown;
pub mod standing;
pub mod swarm;
pub mod switch;
pub mod trace;
pub mod watch;
mod wheel;
pub mod wire;
mod working;
pub mod world;

pub use hawser_scenario::{self as scenario, Scenario, ScenarioError, paths, rng};

pub use build::{OwnScript, Resolve, ResolveError, RunError, START};
pub use report::Report;
pub use run::{DEPTH_SPANS, DepthsOf, Options, Run, Show, run};
