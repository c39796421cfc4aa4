//! Framers: where messages end in a stream of bytes (RFC 9622, 9.1.2; RFC 9623, 6).
//!
//! A [`Framer`] stands on a Preconnection and starts a [`Framing`] for each Connection. Framings stand
//! on one another: the framer that was added last is the first to see what is sent, and the last to see
//! what is received.

use std::fmt;

use bytes::{Bytes, BytesMut};

use super::MessageContext;

mod length_prefix;
mod stack;

pub use length_prefix::LengthPrefix;
pub(super) use stack::Stack;

/// Why a framer cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The message cannot be written in this framing.
    #[error("{framer} cannot frame the message: {why}")]
    Message {
        /// Which framer.
        framer: String,
        /// The reason in words, for people.
        why: String,
    },
    /// What the peer sent is nothing of this framing.
    #[error("{framer} does not understand what came: {why}")]
    Input {
        /// Which framer.
        framer: String,
        /// The reason in words, for people.
        why: String,
    },
}

/// A kind of framing. It keeps nothing of any Connection.
pub trait Framer: fmt::Debug + Send + Sync {
    /// Its name, in errors and for the properties of messages.
    fn name(&self) -> &str;
    /// Framing for a new Connection.
    fn start(&self) -> Box<dyn Framing>;
}

/// What a framing found in what came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The next bytes of the message.
    pub data: Bytes,
    /// Whether they are its last.
    pub is_end: bool,
}

/// Framing on one Connection. It must keep no more than a bounded number of bytes.
pub trait Framing: Send {
    /// What is sent before any message, such as a greeting.
    fn greeting(&mut self) -> Bytes {
        Bytes::new()
    }

    /// Writes a part of a message to `out`; parts of one message follow one another.
    ///
    /// # Errors
    /// The message cannot be framed; its other parts will not follow, and nothing of it was written.
    fn encode(
        &mut self,
        part: Part,
        context: &MessageContext,
        out: &mut Vec<Bytes>,
    ) -> Result<(), FramingError>;

    /// Takes the next part of a message from the front of `input`; none if there is too little.
    ///
    /// # Errors
    /// `input` is nothing of this framing, and nothing after it can be understood.
    fn decode(
        &mut self,
        input: &mut BytesMut,
        context: &mut MessageContext,
    ) -> Result<Option<Part>, FramingError>;
}
