//! The interactive layer: subscribe to what runs, be signalled, probe, modify (iTCP).
//!
//! A [`Bus`] is the central handler. What is to be seen on it is put there: [`Network::interact`]
//! and [`Endpoint::interact`] for a transport program. A [`Tware`] runs in the loop
//! ([`Bus::attach`]), in a thread ([`run_in_thread`]) or in another process ([`run_remote`]), which
//! connects to the socket that [`serve`] opens; the protocol is in `docs/interact.md`. What others may do there an
//! operator's [`Rules`] say.
//!
//! [`Network::interact`]: crate::Network::interact
//! [`Endpoint::interact`]: crate::Endpoint::interact

mod answer;
mod client;
pub mod diagram;
mod guest;
#[doc(hidden)]
pub mod hostile;
pub mod kernel;
mod lab;
mod process;
pub mod qlog;
pub mod record;
mod remote;
mod request;
mod rules;
mod serve;
mod shared;
#[cfg(test)]
mod tests;
mod thread;

pub use client::{Client, ClientError, Heard};
pub use hawser_bus::*;
pub use hawser_engine::schema as program_schema;
pub use hawser_twares as twares;
pub use lab::with_links;
pub use process::{open_process_bus, process_bus};
pub use remote::{Remote, run_remote};
pub use request::{Request, parse, parse_span};
pub use rules::{Rules, RulesError};
pub use serve::{Server, SocketError, serve, usual_socket};
pub use shared::Bell;
pub use thread::{Running, ThreadError, run_in_thread};
