//! Whole messages between sockets: calls with a reply, and messages without.
//!
//! A program that offers the requests `call` or `message` carries them itself (`native`). Over one that offers streams
//! alone they are framed on connections (`framed`, `frame`), which are kept and used again. Applications see the same:
//! polled as methods of [`Endpoint`](crate::Endpoint) (`polled`), on tokio as [`MessageSocket`] (`asynchronous`).
//!
//! Like the stack this owns no clock: time comes with each call. Every table has a limit ([`MessageOptions`]).

mod asynchronous;
mod connection;
mod error;
mod frame;
mod framed;
mod native;
mod options;
mod polled;
mod state;

pub use asynchronous::{Calling, Canceler, MessageSocket, Request};
pub use error::MessageError;
pub use options::MessageOptions;
pub use state::{Call, Incoming, RequestId, Socket};
pub(crate) use state::{Key, Messages};
