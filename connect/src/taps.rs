//! Transport services in the terms of RFC 9622: an application states its requirements on messages, and names
//! no protocol.
//!
//! ```
//! use hawser_connect::taps::{ConnectionEvent, LengthPrefix, LocalEndpoint, Preconnection, RemoteEndpoint,
//! SecurityParameters};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let wanted = Preconnection::new(SecurityParameters::disabled()).with_framer(LengthPrefix::new(65_536));
//!
//! let here = LocalEndpoint::new().with_ip_address([127, 0, 0, 1]).with_port(0);
//! let mut listener = wanted.clone().with_local(here).listen().await?;
//!
//! let there = RemoteEndpoint::from(listener.addresses()[0]);
//! let mut client = wanted.with_remote(there).initiate()?;
//! client.send("hello").await?;
//! assert_eq!(client.next_event().await, Some(ConnectionEvent::Ready));
//!
//! let mut server = listener.accept().await.expect("a Connection");
//! assert_eq!(server.receive().await?.data(), "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! * [`Preconnection`]: endpoints, properties, security, framers; a builder that can be cloned
//! * [`Connection`], [`Listener`]: made by a Preconnection; [`Sender`], [`Receiver`], [`ConnectionEvents`]: a
//!   Connection's halves
//! * [`TransportProperties`], [`Property`], [`PropertyValue`]: by the RFC's names, with its defaults
//! * [`MessageContext`], [`Framer`]: messages, and the marking of their ends
//! * [`SecurityParameters`]: TLS 1.3 unless less is explicitly requested
//! * `candidates`: the transports that fulfil the properties, in order; `establish`: the race for a
//!   Connection
//!
//! `docs/rfc9622.md` states for every property, action and event of the RFC whether it is supported, and
//! names the test. "taps" is the name of the working group.
//!
//! Every transport is a candidate by the features that it declares ([`crate::Features`]): this crate
//! refers to none by name.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod candidates;
mod connection;
mod endpoint;
mod error;
mod establish;
mod framer;
mod listener;
mod log;
mod message;
mod plan;
mod preconnection;
mod property;
mod security;

pub use connection::{
    Connection, ConnectionEvent, ConnectionEvents, ConnectionProperties, ConnectionState, Reader,
    ReceivedMessage, Receiver, SendId, Sender, Writer,
};
pub use endpoint::{LocalEndpoint, RemoteEndpoint};
pub use error::{
    CloneError, ConnectionEnded, ConnectionError, EstablishmentError, ReceiveError, SendError, TransportError,
};
pub use framer::{Framer, Framing, FramingError, LengthPrefix, MessagePart};
pub use listener::{Listener, ListenerEvent};
pub use message::{MessageContext, MessageId};
pub use preconnection::Preconnection;
pub use property::{
    Action, Class, Definition, Initial, Preference, Property, PropertyError, PropertyValue,
    TransportProperties, Type, UnknownProperty,
};
pub use security::SecurityParameters;
