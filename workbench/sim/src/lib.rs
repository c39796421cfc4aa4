//! The simulator: hosts, links and faults under virtual time.
//!
//! A scenario and a seed determine a run completely. [`run`] takes a [`Scenario`] to a [`Report`]; two runs
//! with the same trace hash in their reports did the same.
//!
//! ```text
//! scenario ─ build ─► world: event core, one clock ─► run ─► report
//!                       │
//!                       ├─ host: stack, wire, applications (app)
//!                       ├─ switch: forwards by destination, along shortest paths (paths)
//!                       └─ link: pipes of seeded rules
//! ```
//!
//! * [`scenario`]: the topology, the faults and the traffic, as TOML
//! * `traffic`: the kinds of traffic, a file each
//! * [`world`]: the event core; [`host`], [`app`], [`switch`]: the nodes and applications that it runs;
//!   [`trace`]: its fingerprint
//! * [`paths`]: the paths of frames through switches; [`map`]: the network as a drawing
//! * [`watch`]: the state of a run while it goes on; [`end_status`]: the events that the ends of a connection
//!   still wait for when it stops
//! * [`slowdown`]: the time that calls take, relative to the time that they take alone
//! * [`link`]: the rules that links apply to frames; [`frame`], [`segment`]: frames, and the packets within
//!   super-segments
//! * [`faulty`], [`capture`]: the same rules, and captures, in front of any [`Wire`]
//!
//! Invariants: the simulator uses no thread, clock or socket. Its behaviour does not depend on the order of a
//! hash map or on an address in memory. It names no transport program.
//!
//! [`Wire`]: hawser_engine::wire::Wire
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod app;
mod build;
pub mod capture;
mod checksum;
mod device;
pub mod end_status;
pub mod faulty;
pub mod frame;
pub mod host;
mod inbox;
pub mod link;
pub mod map;
pub mod pcap;
pub mod pcapng;
pub mod report;
mod run;
pub mod scenario;
pub mod segment;
pub mod slowdown;
pub mod switch;
pub mod trace;
mod traffic;
pub mod watch;
mod wheel;
pub mod wire;
mod wire_watcher;
pub mod world;

pub use crate::scenario::{Scenario, ScenarioError, paths, rng};

pub use build::{OwnScript, Resolve, ResolveError, RunError, START};
pub use report::Report;
pub use run::{DEPTH_SPANS, DepthsOf, Options, Run, StackVisitor, run};
pub use traffic::{Volume, lower};
