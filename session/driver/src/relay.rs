//! The client's end of a gateway: connections to the destinations that it allows, through one session with
//! it.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser_session::relay::{Destination, Gateway, Token};
//! use hawser_session::document::Document;
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
//! * [`Token`], [`TokenDigest`]: a client's credential, and the digest that a gateway keeps of it
//! * [`Destination`], [`Host`]: destinations, as the protocol carries them
//! * [`wire`]: the messages; docs/gateway-protocol.md defines them byte by byte
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
