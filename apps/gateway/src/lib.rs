//! A gateway: the far end of sessions, which connects onwards to allowed destinations only. The near end
//! is [`hawser::gateway`].
//!
//! ```text
//!   application ─ Gateway::connect ═ session over many paths ═ serve ─ TCP ─► destination
//! ```
//!
//! A client proves itself with a [`Token`](hawser::gateway::Token) on its session's first stream; every other stream names a
//! [`Destination`](hawser::gateway::Destination) and then is a connection to it. A gateway reaches nothing by default: an
//! [`AllowList`] states what it does, and [`check`](destination::check) holds every *resolved* address
//! against it. The protocol is docs/gateway-protocol.md, byte by byte; docs/gateway.md is for those who
//! run one.
//!
//! * [`serve`], [`GatewayConfig`], [`Clients`], [`Limits`], [`Event`]: the far end
//! * [`destination`]: who may be reached, as a pure function

#![forbid(unsafe_code)]

mod clients;
pub mod destination;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod limits;
mod reach;
mod relay;
mod server;

pub use clients::{Clients, ClientsError, ClientsFileError};
pub use destination::AllowList;
pub use limits::Limits;
pub use relay::{Carried, End};
pub use server::{Event, GatewayConfig, serve};
