//! Whole messages between sockets: calls with a reply, and messages without.
//!
//! A program that offers the requests `call` or `message` carries them itself (`native`). If a program offers
//! only streams, messages are framed on connections (`framed`, `frame`), which are kept and reused. Users of
//! [`Messages`] see no difference; they are sockets over a device, and the simulator's hosts.
//!
//! Like the stack, this module owns no clock: the time is an argument of each call. Every table has a limit
//! ([`MessageOptions`]).

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
