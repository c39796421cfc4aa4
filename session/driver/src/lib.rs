//! Sessions over several carriers, on a tokio runtime.
//!
//! A task owns the carriers. The application's handles share the session through a mutex that is held for the
//! duration of one call. Handles operate on the session at once and wake the task, which carries out the
//! session's instructions.
//!
//! * [`Session`]: a session of either side; [`SessionStream`]: one of its streams
//! * [`open`], [`connect`], [`Server`]: create sessions by a document, from chosen candidates, or by
//!   listening
//! * [`open_any`], [`Server::accept_any`], [`Connection`]: also connect with peers that do not speak Hawser,
//!   if requested; [`PlainStream`]: the only stream of such a connection
//! * [`document`]: the description of a session, as JSON or TOML
//! * `Code`, `CodeGate` (feature `codes`): one-time codes, which decide who may use a session
//! * `names`: addresses of names, including late ones
//! * [`Network`]: interfaces and addresses; `manager` notifies sessions of their changes
//! * [`Identity`], [`Trust`]: certificates
//! * `state`: the file with the state that outlives a session; `quota_reservation`: a session's use of its
//!   quotas
//! * `unaccepted`: sessions that wait until the application accepts them, and may cost little until then
//! * [`admission`]: places of unauthenticated peers, with a share for each network
//! * [`network_identity`]: the current network, and the order of addresses from here
//! * `driver`: the task; `carriers`: one carrier as the task sees it; `shared`: the state that the task and
//!   the handles share; `waiters`, `progress`: waiting tasks, and timeouts

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod admission;
mod carriers;
mod client;
#[cfg(feature = "codes")]
mod code;
mod code_error;
pub mod document;
mod driver;
mod error;
mod handle;
mod log;
mod manager;
mod names;
mod network;
pub mod network_identity;
mod open;
mod open_error;
mod plain;
mod progress;
mod quota_reservation;
pub mod relay;
mod server;
mod shared;
mod state;
mod stream;
#[cfg(test)]
mod testing;
mod trust;
mod unaccepted;
mod waiters;

pub use client::{ClientConfig, PathCandidate, connect};
#[cfg(feature = "codes")]
pub use code::{Code, CodeGate, CodeSyntax, MAX_GUESSES};
pub use code_error::{CodeError, EXCHANGE_TIMEOUT};
pub use error::{CandidateError, CandidateFault, ConnectError, ListenError, SessionError};
pub use handle::{Observer, Session};
pub use hawser_carriers::mtp::{MtpOptions, MtpStack};
pub use hawser_carriers::quic::{Congestion, QuicOptions};
pub use hawser_carriers::sctp::{SctpError, SctpOptions};
pub use hawser_carriers::tcp::TcpOptions;
pub use hawser_carriers::{Description, Statistics};
pub use hawser_session_machine::scheduler;
pub use hawser_session_machine::{
    AcceptorConfig, Candidate, CarrierId, Config, Counters, INTERRUPTED, Loss, Notice, Opening, PathCounts,
    PathReport, PathState, PathStatus, Priority, Security, SessionEnd, SessionId, StreamError,
};
pub use network::{Attachment, InterfaceChange, Network, speaks_mptcp};
pub use open::{open, open_any};
pub use open_error::OpenError;
pub use plain::{Connection, PlainStream};
pub use server::{SchedulerMaker, Server, ServerConfig};
pub use shared::PathInfo;
pub use state::{StateError, StateFault};
pub use stream::SessionStream;
pub use trust::{ALPN, Identity, Trust, TrustError};
