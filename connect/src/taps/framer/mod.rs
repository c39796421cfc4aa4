//! Framers, which mark the ends of messages in a stream of bytes (RFC 9622, 9.1.2; RFC 9623, 6).
//!
//! A [`Framer`] belongs to a Preconnection and starts a [`Framing`] for each Connection. Framings are
//! layered: the framer that was added last is the first to see sent data, and the last to see received data.

use std::fmt;

use bytes::{Bytes, BytesMut};

use super::MessageContext;

mod length_prefix;
mod stack;

pub use length_prefix::LengthPrefix;
pub(super) use stack::Stack;

/// The reasons for which a framer fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The message cannot be written in this framing.
    #[error("{framer} cannot frame the message: {why}")]
    Message {
        /// The name of the framer.
        framer: String,
        /// The reason in words, for people.
        why: String,
    },
    /// The peer's data is not valid in this framing.
    #[error("{framer} cannot parse the received data: {why}")]
    Input {
        /// The name of the framer.
        framer: String,
        /// The reason in words, for people.
        why: String,
    },
}

/// A kind of framing. It has no state of a Connection.
pub trait Framer: fmt::Debug + Send + Sync {
    /// Returns its name, for errors and for the properties of messages.
    fn name(&self) -> &str;
    /// Starts the framing of a new Connection.
    fn start(&self) -> Box<dyn Framing>;
}

/// A part of a message that a framing has decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// The next bytes of the message.
    pub data: Bytes,
    /// True if they are the message's last bytes.
    pub is_end: bool,
}

/// The framing of one Connection. It must buffer only a bounded number of bytes.
pub trait Framing: Send {
    /// Returns data that is sent before any message, such as a greeting.
    fn greeting(&mut self) -> Bytes {
        Bytes::new()
    }

    /// Writes a part of a message to `out`; parts of one message follow one another.
    ///
    /// # Errors
    /// When the message cannot be framed. Its other parts do not follow, and none of its data was written.
    fn encode(
        &mut self,
        part: MessagePart,
        context: &MessageContext,
        out: &mut Vec<Bytes>,
    ) -> Result<(), FramingError>;

    /// Takes the next part of a message from the front of `input`; `None` if there is too little data.
    ///
    /// # Errors
    /// When `input` is not valid in this framing; later data cannot be decoded either.
    fn decode(
        &mut self,
        input: &mut BytesMut,
        context: &mut MessageContext,
    ) -> Result<Option<MessagePart>, FramingError>;
}
