//! One ordered session over many carriers at once, which outlives each of them.
//!
//! [`Session`] is a machine: events in, instructions out. It performs no I/O, reads no clock and draws no
//! random numbers. `docs/session-protocol.md` defines the bytes on a carrier. The design is that of MULTI
//! (Hätönen, Rao, Tarkoma), and includes parts that the paper leaves as future work.
//!
//! ```text
//!   application ── write, read, finish ──┐             ┌── Notice: readable, writable, closed
//!                                        ▼             │
//!   carriers ── connected, received, ─► Session ── Instruction: connect, send, close
//!               room, lost                ▲  │
//!                                  opener ┘  └ scheduler: which carrier takes the next segment
//! ```
//!
//! * [`Session`]: one session, of either side; [`Acceptor`]: a server's acceptor, which distinguishes new
//!   sessions from carriers that join one
//! * [`scheduler`]: chooses the carrier that takes the next segment; one file for each scheduler
//! * [`Opening`], [`Candidate`]: which carriers are opened, and when
//! * `segment`: the wire format; `secret`: proofs; `send`, `receive`, `ranges`: a stream's halves; `path`:
//!   one carrier
//!
//! Invariants: a byte is kept until the peer's session, not only its transport, has acknowledged it. Carriers
//! are always read; a slow application stops credit, not carriers. Memory is bounded by the credit given, the
//! send buffers and the stated limits.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod acceptor;
#[cfg(test)]
mod attacks;
mod config;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod interact;
mod opening;
mod path;
mod ranges;
mod receive;
#[cfg(test)]
mod regressions;
pub mod scheduler;
mod secret;
mod segment;
mod send;
mod session;
#[cfg(feature = "sim")]
pub mod sim;
mod stream;
mod streams;
mod window;

pub use acceptor::{Acceptor, AcceptorConfig, CarrierDecision};
pub use config::Config;
pub use opening::{Candidate, Opening};
pub use path::PathCounts;
pub use secret::Exporter;
pub use segment::{Malformed, PathStatus, Refusal, Security, SessionId, VERSION};
pub use session::{
    Counters, INTERRUPTED, Instruction, Loss, MemoryUse, Notice, PathReport, PathState, ReadError, Session,
    SessionEnd, StreamError,
};
pub use stream::Priority;

/// The number of a carrier within its session. The client assigns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CarrierId(pub u32);

impl std::fmt::Display for CarrierId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}
