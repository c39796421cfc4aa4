//! Runs a transport program: events in, instructions out.
//!
//! [`Stack`] is the whole of it, for one shard. It runs any [`Program`](program::Program) over any
//! [`Wire`](wire::Wire):
//!
//! ```text
//!  frames ─ net ─ parse ─┐                            ┌─ txunit, rxunit   ordered data
//!  requests ──── parse ──┼─ chain (resolve, check, ───┼─ timers
//!  timers ───────────────┤         react) ─ execute ──┼─ contexts
//!  raised events ────────┘                            ├─ handles           notices
//!                                                     └─ packets ─ flush ─ net ─ frames
//! ```
//!
//! * [`program`]: what the engine knows of a program
//! * [`wire`]: what the engine knows of packets' ways in and out
//! * [`net`]: below the transport
//! * `stack`, `arrive`, `chain`, `resolve`, `execute`: the order of work; `request`, `options`: what
//!   applications ask for
//! * `contexts`, `units`, `txunit`, `rxunit`, `timers`, `packets`, `raised`, `handles`, `ports`:
//!   state, each with its bound; `paged`, `ids`: tables of them, and what finds them
//! * `flush`, `superframe`: building and sending; `tap`, `observe`, `counters`: looking on; `interact`:
//!   the interactive layer's subscribers
//!
//! Invariants: the engine owns no thread, no clock and no socket; time and random bits come in
//! with each call. It names no transport program. Every table and queue has a stated limit
//! ([`Limits`]). The same calls with the same frames have the same effects.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod arrive;
mod chain;
mod config;
mod contexts;
mod counters;
mod execute;
mod flush;
mod handles;
mod ids;
mod interact;
pub mod net;
mod observe;
mod options;
mod packets;
mod paged;
mod params;
mod ports;
pub mod program;
mod raised;
mod rand;
mod request;
mod resolve;
mod rxunit;
mod scalar;
mod shares;
mod stack;
mod superframe;
mod swap;
mod tables;
mod tap;
mod timers;
mod txunit;
mod units;
pub mod wire;

pub use config::{ConfigError, Limits, StackConfig};
pub use counters::Counters;
pub use handles::{Errno, Handle, Notice};
pub use interact::schema;
pub use params::AnotherProgram;
pub use rand::Seed;
pub use request::RequestError;
pub use stack::Stack;
pub use swap::{Step, Swap, SwapError};
pub use tap::{Tap, TapEvent};
pub use wire::Nanos;
