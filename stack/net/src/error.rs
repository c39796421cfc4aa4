//! Errors of opening an endpoint, and of changing what is attached to its program.

use std::io;
use std::net::IpAddr;

use hawser_engine::{ConfigError, RequestError, StepError};
use hawser_load::AttachError;

/// Why an endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration contradicts itself, or the device.
    #[error(transparent)]
    Config(ConfigError),
    /// The device cannot be opened: why, and what would help.
    #[error("{0}")]
    Device(String),
    /// One of the stack's addresses is in use.
    #[error("the address {address} is in use by {owner} (EADDRINUSE)")]
    InUse {
        /// The address that the stack asked for.
        address: IpAddr,
        /// The kernel, a process or a host that has it.
        owner: &'static str,
    },
    /// The program is to run on a UDP socket, and takes no datagrams.
    #[error(
        "the program is not in UDP, and a UDP socket carries nothing else: it registers no parser with udp(PORT)"
    )]
    NotInUdp,
}

/// Why what is attached to a running program stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The attachment is wrong, or what is to be detached is not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The stack does not go on with the changed program.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The network has stopped.
    #[error(transparent)]
    Stopped(io::Error),
}

/// The I/O error that a refused request stands for.
pub(crate) fn error_of_request(error: RequestError) -> io::Error {
    error.errno().to_io()
}
