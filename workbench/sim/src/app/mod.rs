//! Applications on simulated hosts.
//!
//! A flow is one connection between two [`Endpoint`]s. A [`Script`] decides how much each end may send, and
//! when. Each script has its own file:
//!
//! | script | behaviour |
//! |---|---|
//! | [`bulk`] | sends a number of bytes each way, as fast as the transport accepts them |
//! | [`request`] | asks, waits for the answer, thinks, asks again |
//! | [`messages`] | sends messages at a pace, each way, and times each |
//!
//! [`payload`] checks all received data: every byte of a stream must be the byte sent, in order, once; every
//! message must be whole and arrive once.
//!
//! [`streams`] are several streams within a connection. Each has its own beginning and end, and is checked by
//! itself.
//!
//! [`calls`] need no connection: they are messages from endpoint to endpoint, with or without a reply.
//!
//! [`works`] run between queue pairs: they write, read and change memory of the other host.

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
mod whole_messages;
pub mod works;

pub use calls::Agent;
pub use endpoint::{Close, EndPlan, Endpoint, EndpointReport, Open, SharedListener};
pub use payload::Carries;
pub use state::Application;

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSide {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

/// Both ends, the client first.
pub(crate) const SIDES: [FlowSide; 2] = [FlowSide::Client, FlowSide::Server];

impl FlowSide {
    /// Returns the other end.
    #[must_use]
    pub fn other(self) -> FlowSide {
        match self {
            FlowSide::Client => FlowSide::Server,
            FlowSide::Server => FlowSide::Client,
        }
    }
}

/// The behaviour of one end of a flow: how much it may send, given how much it has received.
///
/// Both ends know the whole plan, including sizes. Positions are bytes from the start of a direction.
pub trait Script {
    /// Returns the total number of bytes that may have been sent by `now`, given that `received` have
    /// arrived.
    fn allowance(&mut self, now: Instant, received: u64) -> u64;

    /// Returns the time at which [`Script::allowance`] grows even if no data is received.
    fn wake_at(&self) -> Option<Instant>;

    /// Returns the total number of bytes that it sends.
    fn outgoing(&self) -> u64;

    /// Returns the total number of bytes that it receives.
    fn incoming(&self) -> u64;

    /// Called after bytes were handed over. `sent` is the number so far, which is less than the allowance if
    /// the transport accepts no more.
    fn on_sent(&mut self, _now: Instant, _sent: u64) {}

    /// Called after bytes of a stream were received. `received` is the number so far.
    fn on_received(&mut self, _now: Instant, _received: u64) {}

    /// Called after the n-th whole message was received, counted from 0.
    fn on_message(&mut self, _now: Instant, _n: usize) {}

    /// Returns the times that it has measured, of exchanges or messages.
    fn times(&self) -> &[Duration] {
        &[]
    }
}
