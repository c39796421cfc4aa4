//! Runs a transport program: events in, instructions out.
//!
//! [`Stack`] is the whole of it, for one shard. It runs any [`Program`](program::Program) over any
//! [`Wire`](wire::Wire):
//!
//! ```text
//!  frames ─ net ─ parse ─┐                            ┌─ send_buffer, recv_buffer
//!  requests ──── parse ──┼─ chain (resolve, check, ───┼─ timers
//!  timers ───────────────┤         react, execute) ───┼─ contexts
//!  raised events ────────┘                            ├─ handles           notices
//!                                                     └─ packets ─ flush ─ net ─ frames
//! ```
//!
//! From the bottom to the top, each knowing those before it alone:
//!
//! * [`program`], [`wire`], [`front`], [`net`]: what the engine knows of a program, of devices; below the transport
//! * `config`, `tables`, `cuts`, `externs`, `counters`, `rand`, `ids`, `scalar`: limits, a program's tables, small things
//! * `data`: ordered data, sent and received
//! * `state`: all that outlives a call, each with its bound
//! * `interact`: the state as a provider of the interactive layer
//! * `chain`: one event's course, from its ids to the effects of its records
//! * `stack`: what the driver and the applications call
//! * [`messages`]: whole messages and calls over a stack, whether its program carries them or they are framed on its
//!   streams
//!
//! Invariants: the engine owns no thread, no clock and no socket; time and random bits come in
//! with each call. It names no transport program. Every table and queue has a stated limit
//! ([`Limits`]). The same calls with the same frames have the same effects. State and working memory
//! are apart: what is kept from call to call is in `state`, what means nothing between two is not.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod chain;
mod config;
mod counters;
mod cuts;
mod data;
mod externs;
pub mod front;
mod hash;
mod ids;
mod interact;
pub mod messages;
pub mod net;
pub mod program;
mod rand;
mod scalar;
mod stack;
mod state;
mod tables;
pub mod wire;

pub use chain::{Before, Counted, EventTap, Received, TapEvent};
pub use config::{ConfigError, Limits, StackConfig};
pub use counters::Counters;
pub use externs::known_externs;
pub use hash::{ByHandle, ByNumber};
pub use interact::schema;
pub use rand::Seed;
pub use stack::{
    AnotherProgram, Direction, Observable, RequestError, Stack, Standing, Step, StepError, Swap, SwapError,
    WorkRequest,
};
pub use state::{Errno, ForwardTo, ForwardedEvent, Handle, MAX_PIECES, Notice, Region, Slice};
