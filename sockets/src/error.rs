//! Errors of opening an endpoint, and of changing the attachments of its program.

use std::io;
use std::net::IpAddr;

use hawser_engine::{RequestError, StackConfigError, StepError};
use hawser_load::AttachError;

/// An endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration contradicts itself or the device.
    #[error(transparent)]
    Config(StackConfigError),
    /// The device could not be opened; the text states the reason and a remedy.
    #[error("{0}")]
    Device(String),
    /// One of the stack's addresses is in use.
    #[error("the address {address} is in use by {owner} (EADDRINUSE)")]
    InUse {
        /// The address that is in use.
        address: IpAddr,
        /// The owner of the address: the kernel, a process or a host.
        owner: &'static str,
    },
    /// The program does not accept datagrams, but is to run on a UDP socket.
    #[error("a UDP socket carries only programs in UDP, but this program registers no parser with udp(PORT)")]
    NotInUdp,
}

/// The attachments of a running program could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The attachment has errors, or the attachment to detach does not exist.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The stack did not accept the changed program.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The network has stopped.
    #[error(transparent)]
    Stopped(io::Error),
}

/// Returns the I/O error that a refused request stands for.
pub(crate) fn error_of_request(error: RequestError) -> io::Error {
    error.errno().to_io()
}
