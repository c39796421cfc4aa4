//! The near end of a gateway: connections to wherever it allows, through one session with it.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser_relay::{Destination, Gateway, Token};
//! use hawser_session_driver::document::Document;
//!
//! let token = Token::read("alice.token".as_ref())?;
//! let gateway = Gateway::new(Document::new("gateway.example:4433")?, token);
//! let stream = gateway.connect(&Destination::parse("www.example.org:80")?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! * [`Gateway`], [`GatewayStream`], [`ClientError`]: a session that is opened when it is needed, and a
//!   stream of it for each destination
//! * [`Token`], [`TokenDigest`]: what a client proves itself with, and what a gateway keeps of it
//! * [`Destination`], [`Host`]: where to, as the protocol carries it
//! * [`wire`]: the messages; docs/gateway-protocol.md has them byte by byte
//!
//! The far end is the crate `hawser-gateway`.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod client;
mod destination;
mod token;
pub mod wire;

pub use client::{ClientError, Gateway, GatewayStream};
pub use destination::{BadHost, Destination, Host};
pub use token::{BadDigest, Token, TokenDigest, TokenError};
pub use wire::Reply;
