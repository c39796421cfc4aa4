//! Whole messages between sockets: calls with a reply, and messages without.
//!
//! [`hawser_engine::messages`] carries them: by the program itself, or as frames on its streams. Applications
//! see no difference. The polled API consists of methods of [`Endpoint`](crate::Endpoint) (`polled`), the API
//! for tokio of [`MessageSocket`] (`asynchronous`).

mod asynchronous;
mod polled;

pub use asynchronous::{Canceler, MessageSocket, PendingCall, Request};
pub use hawser_engine::messages::{
    Call, Incoming, MessageError, MessageOptions, NetworkEnd, RequestId, Socket,
};
pub(crate) use hawser_engine::messages::{Key, Messages};
