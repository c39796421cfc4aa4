//! Runs a transport program: events in, instructions out.
//!
//! [`Stack`] is the entire engine of one shard. It runs any [`Program`](program::Program) over any
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
//! From the bottom to the top, each module depends only on those before it:
//!
//! * [`program`], [`wire`], [`front`], [`net`]: the interfaces to programs and devices, and the layers below
//!   the transport
//! * `config`, `tables`, `cuts`, `externs`, `counters`, `rand`, `ids`, `scalar`: limits, a program's tables,
//!   small helpers
//! * `data`: ordered data, sent and received
//! * `state`: everything that outlives a call, each part with its bound
//! * `interact`: the state as a provider of the interactive layer
//! * `chain`: the processing of one event, from its ids to the effects of its records
//! * `stack`: the calls of the driver and of applications
//! * [`messages`]: whole messages and calls over a stack, either carried by its program or framed on its
//!   streams
//!
//! Invariants: the engine owns no thread, no clock and no socket; time and random bits are arguments of each
//! call. It names no transport program. Every table and queue has a stated limit ([`StackLimits`]). The same
//! calls with the same frames have the same effects. State and working memory are separate: data that is kept
//! from call to call is in `state`, and all other memory has no meaning between two calls.

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
pub mod verbs;
pub mod wire;

pub use chain::{CounterIncrement, EventTap, MemorySnapshot, ReceivedPacket, TapEvent};
pub use config::{StackConfig, StackConfigError, StackLimits};
pub use counters::StackCounters;
pub use externs::known_externs;
pub use hash::{ByHandle, ByNumber};
pub use interact::schema;
pub use rand::Seed;
pub use stack::{
    AnotherProgram, ConnectionStatus, Direction, Observable, RequestError, Stack, Step, StepError, Swap,
    SwapError, WorkRequest,
};
pub use state::{Errno, ForwardTo, ForwardedEvent, Handle, MAX_PIECES, Notice, Region, Slice};
