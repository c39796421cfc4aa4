//! The shell of the interactive layer: subscriptions, signals, probes and modifications of running transports
//! (iTCP).
//!
//! A [`Bus`] is the central handler. Transports, sessions, races and the kernel's TCP register with it. A
//! [`Tware`] runs in the loop ([`Bus::attach`]), in a thread ([`run_in_thread`]) or in another process
//! ([`run_remote`]), which connects to the socket that [`serve`] opens. The protocol is in
//! `docs/interact.md`. An operator's [`Rules`] define the rights of other processes.
//!
//! * [`serve`], [`Server`]: the socket's end in the process that is watched; `connection`: one connection to
//!   it; `request`, `answer`: the forms of requests and of answers; `documents`: requests about documents
//! * [`Client`], [`Remote`]: the other process's end
//! * [`process_bus`]: the bus of this process, with its sessions and races
//! * [`record`], [`qlog`], [`diagram`]: signals as a file, as a trace, as a picture
//! * [`overview`]: the flows of a process at one glance
//! * [`svg`]: the writer of all drawings here
//! * [`local`]: sockets of this host for processes of the same user

#![warn(missing_docs)]
#![deny(unsafe_code)]

mod answer;
mod client;
mod connection;
pub mod diagram;
mod documents;
#[doc(hidden)]
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod local;
pub mod overview;
mod process;
pub mod qlog;
pub mod record;
mod remote;
mod request;
mod rules;
mod serve;
mod shared;
pub mod svg;
#[cfg(test)]
mod tests;
mod thread;

pub use client::{Client, ClientError, ServerMessage};
pub use hawser_bus::*;
pub use process::{open_process_bus, process_bus};
pub use remote::{Remote, run_remote};
pub use request::{Json, Request, RequestError, SpanError, parse, parse_span};
pub use rules::{Rules, RulesError, RulesTextError};
pub use serve::{Server, SocketError, serve, usual_socket};
pub use shared::{RingError, RingWaker};
pub use thread::{ThreadError, TwareThread, run_in_thread};
