//! Whole messages between sockets: calls with a reply, and messages without.
//!
//! What carries them is [`hawser_engine::messages`]: the program itself, or frames on its streams. Applications see the
//! same: polled as methods of [`Endpoint`](crate::Endpoint) (`polled`), on tokio as [`MessageSocket`] (`asynchronous`).

mod asynchronous;
mod polled;

pub use asynchronous::{Calling, Canceler, MessageSocket, Request};
pub use hawser_engine::messages::{
    Call, Incoming, MessageError, MessageOptions, NetworkEnd, RequestId, Socket,
};
pub(crate) use hawser_engine::messages::{Key, Messages};
