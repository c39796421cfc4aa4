//! The measurements of MTP (*High-Level and Target-Agnostic Transport Programs*): how long programs are, and how long
//! calls take over them.

mod calls;
mod grpc;
mod latency;
mod lines;
mod peers;

pub(crate) use latency::latency;
pub(crate) use lines::lines;
pub(crate) use peers::serve;
