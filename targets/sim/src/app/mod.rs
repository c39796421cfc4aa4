//! Applications on simulated hosts.
//!
//! A flow is one connection between two [`Endpoint`]s. Which end may send how much, and when,
//! is decided by a [`Script`], one file each:
//!
//! | script | what it does |
//! |---|---|
//! | [`bulk`] | sends so many bytes each way, as fast as the transport takes them |
//! | [`request`] | asks, waits for the answer, thinks, asks again |
//! | [`messages`] | sends messages at a pace, each way, and times each |
//!
//! What arrives is checked ([`payload`]): of a stream every byte, that it is what was sent, in order, once; of
//! messages that each is whole, and comes once.
//!
//! [`streams`] are several within a connection, each checked by itself, with a beginning and an end of its own.
//!
//! [`calls`] need no connection: messages from endpoint to endpoint, with a reply or without.
//!
//! [`works`] are between queue pairs: memory of the other host that is written, read and changed.

use std::time::Duration;

use hawser_time::Instant;

pub mod bulk;
pub mod calls;
pub mod endpoint;
pub mod messages;
pub mod payload;
pub mod request;
mod state;
pub(crate) mod stream;
pub mod streams;
mod whole;
pub mod works;

pub use calls::Agent;
pub use endpoint::{Close, Endpoint, EndpointReport, Open, Plan, Shared};
pub use payload::Carries;
pub use state::Application;

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Client,
    /// The one that listens.
    Server,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// What one end of a flow does: how far it may send, given what it has received.
///
/// Both ends know the whole plan, sizes included. Positions are bytes from the start of a
/// direction.
pub trait Script {
    /// How many bytes may have been sent by `now`, when `received` have come.
    fn allowance(&mut self, now: Instant, received: u64) -> u64;

    /// When [`Script::allowance`] grows though nothing is received.
    fn wake_at(&self) -> Option<Instant>;

    /// How many bytes it sends in all.
    fn outgoing(&self) -> u64;

    /// How many bytes it receives in all.
    fn incoming(&self) -> u64;

    /// Called after bytes were handed over: `sent` so far, less than its allowance where the transport
    /// takes no more.
    fn on_sent(&mut self, _now: Instant, _sent: u64) {}

    /// Called after bytes of a stream were received: `received` so far.
    fn on_received(&mut self, _now: Instant, _received: u64) {}

    /// Called after the n-th message of those that are delivered whole was received, the first being 0.
    fn on_message(&mut self, _now: Instant, _n: usize) {}

    /// Times that it has measured: of exchanges, of messages.
    fn times(&self) -> &[Duration] {
        &[]
    }
}
