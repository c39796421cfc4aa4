//! A gateway: the far end of sessions, which connects onwards to allowed destinations only. The near end is
//! [`hawser::session::relay`].
//!
//! ```text
//!   application ─ Gateway::connect ═ session over many paths ═ serve ─ TCP ─► destination
//! ```
//!
//! A client authenticates with a [`Token`](hawser::session::relay::Token) on its session's first stream. Every other
//! stream names a [`Destination`](hawser::session::relay::Destination) and then becomes a connection to it. By
//! default a gateway connects nowhere: an [`AllowList`] lists the allowed destinations, and
//! [`check`](destination::check) compares every *resolved* address with it. docs/gateway-protocol.md
//! specifies the protocol byte by byte; docs/gateway.md is for operators.
//!
//! * [`serve`], [`GatewayConfig`], [`Clients`], [`GatewayLimits`], [`GatewayEvent`]: the far end
//! * [`destination`]: the allowed destinations, as a pure function

#![forbid(unsafe_code)]

mod clients;
pub mod destination;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod limits;
mod outbound;
mod relay;
mod server;

pub use clients::{Clients, ClientsError, ClientsFileError};
pub use destination::AllowList;
pub use limits::GatewayLimits;
pub use relay::{DisconnectReason, RelayedBytes};
pub use server::{GatewayConfig, GatewayEvent, serve};
