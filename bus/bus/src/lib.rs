//! The central handler of the interactive layer (iTCP, sections 2.2 to 2.4). It records which provider
//! publishes which events, which subscribers receive them, and which variables each subscriber may change.
//!
//! A *provider* is described by a [`Schema`]: events with fields, and state variables with access rights.
//! Each part of the system that runs a provider (a stack, a session, a race) holds a [`Source`] in its own
//! thread. A component that wants events joins the [`Bus`] as a [`Subscriber`] and subscribes with a
//! [`Subscription`]. Signals pass the subscription's filters at the source, in the paper's order:
//! subscription, time, frequency. They then go to a [`Tware`] that lives in the source itself, or into a
//! bounded [`Ring`](ring::Ring) from which another thread or process takes them.
//!
//! ```text
//!   Subscriber ──subscribe, probe, modify──► Bus ──orders──► Source, in the provider's thread
//!     ▲                                                    │ filters, leases, rights
//!     └───────────────── signals through a ring ◄──────────┘
//! ```
//!
//! State that a provider exposes as documents instead of numbers goes through [`Documents`].
//!
//! Invariants: a source never waits for a subscriber. Signals that do not fit in a queue are counted there.
//! Every modification is a lease, which ends by itself. No machine here reads a clock: the provider passes
//! `now` in, by its own clock.

#![forbid(unsafe_code)]

mod attach;
mod audit;
mod bus;
mod documents;
mod error;
mod filter;
mod flow;
mod lease;
mod map;
mod modifications;
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
pub mod twares;

pub use attach::{Attachable, Attachment, AttachmentChange, Step, Stepping};
pub use audit::{Audit, AuditAction, AuditEntry, RequestOrigin};
pub use bus::{Bus, PendingAnswer, SourceInfo, Subscribed, WallClock};
pub use documents::{DocumentWatch, Documents, Fault, NextEvent, WatchEnd};
pub use error::{BusError, Refusal};
pub use filter::{Filter, FilterState, Passage};
pub use flow::{ATTRIBUTES, FlowId, FlowInfo, SourceFlow, SourceId};
pub use lease::{Lease, LeaseTable};
pub use modifications::{Hands, Modification};
pub use notice::{MAX_NOTICES, Notice};
pub use pattern::Pattern;
pub use rights::{Grant, Rights};
pub use schema::{
    Access, EventId, EventType, Field, MAX_EVENTS, MAX_FIELDS, MAX_VARIABLES, Schema, SchemaError, ValueKind,
    Variable, VariableId,
};
pub use scope::{Rule, RuleError, Scope};
pub use signal::{MAX_VALUES, Signal, SignalBuf, SubscriptionId};
pub use source::{ProviderState, SharedSubscription, Source};
pub use subscriber::{FlowSnapshot, Subscriber};
pub use subscription::{Statistics, Subscription, TwarePlacement};
pub use tware::{Tware, run_waiting};
