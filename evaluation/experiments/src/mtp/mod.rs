//! The measurements of MTP (*High-Level and Target-Agnostic Transport Programs*): the length of programs, and
//! the latency of calls and of RDMA work requests over them.

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

/// Runs an end of calls or of work requests if this process was started as one, and returns its result;
/// otherwise returns `None`.
///
/// # Errors
/// The end failed.
pub(crate) fn serve() -> Option<Result<(), Error>> {
    peers::serve().or_else(works::serve).or_else(messages::serve)
}
