//! The central handler of the interactive layer (iTCP, sections 2.2 to 2.4): who publishes what,
//! who receives it, and who may change it.
//!
//! A *provider* is described by a [`Schema`]: events with fields, state variables with rights. Each
//! part of the system that runs one (a stack, a session, a race) holds a [`Source`], in its own
//! thread. Whoever wants events joins the [`Bus`] as a [`Subscriber`] and subscribes with a
//! [`Subscription`]. Signals pass the subscription's filters at the source, in the paper's order, subscription,
//! time, frequency, and go to a [`Tware`] that lives in the source itself or into a bounded
//! [`Ring`](ring::Ring) from which another thread or process takes them.
//!
//! ```text
//!   Subscriber ──subscribe, probe, modify──► Bus ──orders──► Source, in the provider's thread
//!     ▲                                                    │ filters, leases, rights
//!     └───────────────── signals through a ring ◄──────────┘
//! ```
//!
//! What a provider knows as documents, and not in numbers, is beside that: [`Documents`].
//!
//! Invariants: a source never waits for a subscriber; what does not fit in a queue is counted
//! there; every modification is a lease, which ends by itself; no machine here reads a clock: `now`
//! comes in, by the provider's own.

#![forbid(unsafe_code)]

mod attach;
mod audit;
mod bus;
mod documents;
mod error;
mod filter;
mod flow;
mod hands;
mod hold;
mod map;
mod notice;
mod order;
mod pattern;
mod rights;
pub mod ring;
mod schema;
mod scope;
mod signal;
mod source;
mod subscriber;
mod subscription;
#[cfg(test)]
mod tests;
mod tware;

pub use attach::{Attachable, Attachment, Change, Step, Stepping};
pub use audit::{Act, Audit, Entry, Origin};
pub use bus::{Bus, Pending, SourceInfo, Subscribed, WallClock};
pub use documents::{Documents, Fault, NextEvent, Watch, WatchEnd};
pub use error::{BusError, Refusal};
pub use filter::{Filter, Gate, Passage};
pub use flow::{ATTRIBUTES, FlowId, FlowInfo, SourceId, Target};
pub use hands::{Hands, Modification};
pub use hold::{Hold, Holds};
pub use notice::{MAX_NOTICES, Notice};
pub use pattern::Pattern;
pub use rights::{Grant, Rights};
pub use schema::{
    Access, EventId, EventType, Field, Kind, MAX_EVENTS, MAX_FIELDS, MAX_VARIABLES, Schema, SchemaError,
    Variable, VariableId,
};
pub use scope::{Rule, RuleError, Scope};
pub use signal::{MAX_VALUES, Signal, SignalBuf, SubscriptionId};
pub use source::{Common, Source, State};
pub use subscriber::{Probe, Subscriber};
pub use subscription::{Place, Statistics, Subscription};
pub use tware::{Tware, run_waiting};
