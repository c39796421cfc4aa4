//! Sockets of a transport program: connections and listeners over a device.
//!
//! * [`Endpoint`]: connections of a transport program over a device, polled by the caller
//! * [`Network`], [`Stream`], [`Listener`]: the same on a tokio runtime, as `AsyncRead + AsyncWrite`;
//!   [`StateReader`] reads state variables of a stream that has another owner
//! * [`MessageSocket`] and, polled, [`Endpoint::bind`]: whole messages and calls, over a program that carries
//!   them or framed on its streams
//! * `verbs` (a feature): registered memory and queue pairs, over a program that supports them
//! * [`Options`], [`Keepalive`]: an application's options for a connection
//! * [`host`]: devices of this machine: TUN, Ethernet interfaces, faults in front of them
//! * [`OnBus`]: the attachments of a running program, as clients of the bus access them

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod attach;
mod bytes;
mod claim;
mod device;
mod endpoint;
mod error;
#[cfg_attr(not(feature = "faults"), path = "faults/absent.rs")]
mod faults;
pub mod host;
#[cfg_attr(not(feature = "log"), path = "log/absent.rs")]
mod log;
pub mod messages;
mod network;
pub mod options;
mod shards;
mod streams;
#[cfg(feature = "verbs")]
pub mod verbs;
#[cfg(not(feature = "verbs"))]
#[path = "verbs/absent.rs"]
mod verbs;

pub use attach::OnBus;
pub use device::Device;
pub use endpoint::Endpoint;
pub use error::{ChangeError, OpenError};
pub use hawser_engine::{Direction, Handle, Observable};
pub use messages::{MessageError, MessageOptions, MessageSocket, NetworkEnd, Request};
pub use network::{Listener, Network, StateReader, Stream, watch};
pub use options::{Keepalive, Options};
pub use streams::{Accepted, Connection, RecvStream, SendStream};

/// The maximum number of tasks that may wait for the same event.
const MAX_WAITING: usize = 1024;
