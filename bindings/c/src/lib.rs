//! Hawser for C: the header is `include/hawser.h`, which this crate's source generates.
//!
//! * `handle`: numbers that name objects; a wrong one is an error, never a fault
//! * `context`: the threads for I/O, and the queue of events that the application dispatches
//! * `preconnection`, `connection`, `listener`: the objects of RFC 9622
//! * `session`: a session that a document describes, as a connection; `program`: programs in MTP, checked
//! * `event`: what a callback receives; `status`: the results of calls; `pointer`: checks of pointers
//!
//! Invariants: callbacks run only in the thread that dispatches events, and no lock is held while one runs. A
//! panic becomes `HAWSER_ERROR_INTERNAL`. Every queue is bounded by what the application has asked for.

#![warn(missing_docs)]
#![allow(non_camel_case_types)] // the names are those of C
#![allow(unsafe_code)] // functions for C read and write through its pointers
#![allow(clippy::missing_safety_doc)] // the header states what a pointer must be, for C

mod connection;
mod context;
mod event;
mod handle;
mod listener;
mod pointer;
mod preconnection;
mod program;
mod session;
mod status;

pub use connection::*;
pub use context::*;
pub use event::{hawser_callback, hawser_event, hawser_event_kind};
pub use handle::{hawser_connection, hawser_context, hawser_listener, hawser_preconnection};
pub use listener::*;
pub use preconnection::*;
pub use program::*;
pub use session::*;
pub use status::{hawser_error, hawser_status};
