//! Transport services in the words of RFC 9622: what an application wants of its messages, and no
//! protocol's name.
//!
//! ```
//! use hawser_taps::{Event, LengthPrefix, LocalEndpoint, Preconnection, RemoteEndpoint, SecurityParameters};
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
//! assert_eq!(client.next_event().await, Some(Event::Ready));
//!
//! let mut server = listener.accept().await.expect("a Connection");
//! assert_eq!(server.receive().await?.data(), "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! * [`Preconnection`]: endpoints, properties, security, framers; a builder that can be cloned
//! * [`Connection`], [`Listener`]: what comes of one; [`Sender`], [`Receiver`], [`Events`]: a
//!   Connection's halves
//! * [`TransportProperties`], [`Property`], [`Value`]: by the RFC's names, with its defaults
//! * [`MessageContext`], [`Framer`]: messages, and where they end
//! * [`SecurityParameters`]: TLS 1.3 unless less is asked for by name
//! * `candidates`: what fulfils what is wanted, and in what order; `establish`: the race for it
//!
//! `docs/rfc9622.md` says of every property, action and event of the RFC whether it is there, and
//! which test shows it. "taps" is the name of the working group.
//!
//! Every transport is a candidate, by what it declares ([`hawser_connect::Features`]): nothing here
//! knows one by name.

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
    Connection, ConnectionProperties, ConnectionState, Event, Events, Reader, Received, Receiver, SendId,
    Sender, Writer,
};
pub use endpoint::{LocalEndpoint, RemoteEndpoint};
pub use error::{
    CloneError, ConnectionError, Ended, EstablishmentError, ReceiveError, SendError, TransportError,
};
pub use framer::{Framer, Framing, FramingError, LengthPrefix, Part};
pub use listener::{Listener, ListenerEvent};
pub use message::{MessageContext, MessageId};
pub use preconnection::Preconnection;
pub use property::{
    Action, Class, Definition, Initial, Preference, Property, PropertyError, TransportProperties, Type,
    UnknownProperty, Value,
};
pub use security::SecurityParameters;
