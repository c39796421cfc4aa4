//! A gateway: the far end of sessions, which connects onwards to allowed destinations only; and the
//! near end of it.
//!
//! ```text
//!   application ─ Gateway::connect ═ session over many paths ═ serve ─ TCP ─► destination
//! ```
//!
//! A client proves itself with a [`Token`] on its session's first stream; every other stream names a
//! [`Destination`] and then is a connection to it. A gateway reaches nothing by default: an
//! [`AllowList`] says what it does, and [`check`](destination::check) holds every *resolved* address
//! against it. The protocol is docs/gateway-protocol.md, byte by byte; docs/gateway.md is for those who
//! run one.
//!
//! * [`serve`], [`GatewayConfig`], [`Clients`], [`Limits`], [`Event`]: the far end
//! * [`Gateway`], [`GatewayStream`]: the near end
//! * [`destination`]: who may be reached, as a pure function
//! * [`wire`]: the messages

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod client;
mod clients;
pub mod destination;
pub mod hostile;
mod limits;
mod reach;
mod relay;
mod server;
mod token;
pub mod wire;

pub use client::{ClientError, Gateway, GatewayStream};
pub use clients::{Clients, ClientsError};
pub use destination::{AllowList, Destination, Host};
pub use limits::Limits;
pub use relay::{Carried, End};
pub use server::{Event, GatewayConfig, RESET, STRANGER, TOO_MANY, serve};
pub use token::Token;
pub use wire::Reply;
