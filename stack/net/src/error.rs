//! Errors of opening an endpoint.

use std::io;

use hawser_engine::{ConfigError, RequestError};

/// Why an endpoint could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The configuration contradicts itself, or the device.
    Config(ConfigError),
    /// The device cannot be opened: why, and what would help.
    Device(String),
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Config(error) => write!(f, "{error}"),
            OpenError::Device(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for OpenError {}

/// The I/O error that a refused request stands for.
pub(crate) fn error_of_request(error: RequestError) -> io::Error {
    error.errno().to_io()
}
