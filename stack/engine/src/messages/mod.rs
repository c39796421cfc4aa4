//! Whole messages between sockets: calls with a reply, and messages without.
//!
//! A program that offers the requests `call` or `message` carries them itself (`native`). Over one that offers streams
//! alone they are framed on connections (`framed`, `frame`), which are kept and used again. Who uses [`Messages`] sees
//! no difference: sockets over a device, and the simulator's hosts.
//!
//! Like the stack this owns no clock: time comes with each call. Every table has a limit ([`MessageOptions`]).

mod connection;
mod error;
mod frame;
mod framed;
mod interface;
mod native;
mod options;
mod state;

pub use error::{MessageError, NetworkEnd};
pub use options::MessageOptions;
pub use state::{Call, Carriage, Incoming, Key, Messages, RequestId, Socket};
