//! The measurements of MTP (*High-Level and Target-Agnostic Transport Programs*): how long programs are, and how long
//! calls and works on registered memory take over them.

mod calls;
mod grpc;
mod latency;
mod lines;
mod messages;
mod peers;
mod rdma;
mod streams;
mod works;

pub(crate) use latency::latency;
pub(crate) use lines::lines;
pub(crate) use rdma::rdma;
pub(crate) use streams::streams;

use crate::Error;

/// Whether this process was started to be an end of calls or of works, and how that went.
///
/// # Errors
/// What ended it.
pub(crate) fn serve() -> Option<Result<(), Error>> {
    peers::serve().or_else(works::serve).or_else(messages::serve)
}
