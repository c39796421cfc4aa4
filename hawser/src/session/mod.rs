//! Sessions over several carriers, on a tokio runtime.
//!
//! A task owns the carriers; the session itself is shared with the application's handles through a
//! mutex that is held for the length of one call. Handles work on the session at once and wake the
//! task, which does what the session asks for.
//!
//! * [`Session`]: a session of either side; [`SessionStream`]: one of its streams
//! * [`connect`], [`Server`]: the two ways to one
//! * `driver`: the task; `carriers`: one carrier as the task sees it

mod carriers;
mod client;
mod driver;
mod handle;
mod server;

pub use client::{ClientConfig, Way, connect};
pub use handle::{PathInfo, Session, SessionStream};
pub use hawser_session::scheduler;
pub use hawser_session::{
    Candidate, CarrierId, Config, Counters, Loss, Notice, Opening, PathReport, PathState, PathStatus,
    Priority, Security, SessionId,
};
pub use server::{Server, ServerConfig};
