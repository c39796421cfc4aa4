//! Errors of making a call.

use hawser_engine::RequestError;

use crate::script::run::symbols::NumberError;

/// A call could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The runner does not support this.
    Unsupported(String),
    /// The script is inconsistent.
    Misuse(Misuse),
}

impl From<Misuse> for CallError {
    fn from(misuse: Misuse) -> CallError {
        CallError::Misuse(misuse)
    }
}

impl From<NumberError> for CallError {
    fn from(error: NumberError) -> CallError {
        CallError::Misuse(error.into())
    }
}

/// The arguments of a call are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misuse {
    #[error("{call}() takes more arguments")]
    TooFewArguments { call: String },
    /// An argument, counted from 1, is not a number.
    #[error("argument {position} of {call}(): {error}")]
    Argument { position: usize, call: String, error: NumberError },
    /// A field of a structure is not a number.
    #[error(transparent)]
    Number(#[from] NumberError),
    #[error("a length is negative")]
    NegativeLength,
    #[error("the message has no msg_iov")]
    NoVector,
    #[error("buffers are written [{{..., 1000}}]")]
    Buffers,
    #[error("poll() takes [{{fd=3, events=POLLIN, revents=POLLIN}}]")]
    PollEntries,
    #[error("an entry of poll() has no fd")]
    NoDescriptor,
    #[error("SO_LINGER is written {{onoff=1, linger=0}}")]
    Linger,
    #[error("this is not a port")]
    Port,
    #[error("`{0}` is not an address")]
    Address(String),
    #[error("an address is written inet_addr(\"192.0.2.1\")")]
    AddressForm,
    /// The stack rejects a read of received data.
    #[error(transparent)]
    Stack(#[from] RequestError),
}
