//! The data that one end sends and receives, with the service that the transport promises for it.
//!
//! * [`stream`]: bytes, in order
//! * [`whole_messages`]: messages, in any order

use std::sync::Arc;

use hawser_engine::{Handle, RequestError, Stack};
use hawser_time::Instant;

use super::streams::Agreed;
use super::{Script, stream, whole_messages};

/// The service that the transport promises for the data of one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Carries {
    /// A stream: every byte, in order, once.
    #[default]
    Stream,
    /// Streams within the connection: every byte of each, in order, once. The connection itself carries no
    /// data.
    Streams(Arc<Agreed>),
    /// Messages: each whole, once, in any order.
    Messages(MessageSizes),
    /// Datagrams: each whole, at most once, in any order.
    Datagrams {
        /// Their sizes.
        sizes: MessageSizes,
        /// The maximum number of datagrams for this end that may be lost.
        may_lose: u64,
        /// The time at which this end gives up on missing datagrams.
        until: Instant,
    },
}

/// The size of each message, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSizes {
    /// The sizes of the messages that this end sends.
    pub outgoing: Vec<u64>,
    /// The sizes of the messages that it receives.
    pub incoming: Vec<u64>,
}

/// A count of messages in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCount {
    /// The number handed over by the sender, or received by the receiver.
    pub done: u64,
    /// The number of all messages.
    pub of: u64,
}

/// The data that one end sends, and the check of the data that arrives.
pub(super) enum Payload {
    Stream {
        outgoing: stream::OutgoingBytes,
        incoming: stream::IncomingBytes,
    },
    Whole {
        outgoing: whole_messages::OutgoingMessages,
        incoming: whole_messages::IncomingMessages,
        carries: Carries,
        /// True once the end no longer waits for datagrams.
        gave_up: bool,
        /// The buffer for a message that is read.
        message: Vec<u8>,
        /// True if bytes are readable that do not form a whole message.
        stray: bool,
    },
}

impl Payload {
    /// Creates the data for these labels of the sending and the receiving direction.
    pub(super) fn new(carries: &Carries, seed: u64, [sends, receives]: [&str; 2]) -> Payload {
        match carries {
            Carries::Stream | Carries::Streams(_) => Payload::Stream {
                outgoing: stream::OutgoingBytes::new(seed, sends),
                incoming: stream::IncomingBytes::new(seed, receives),
            },
            Carries::Messages(sizes) | Carries::Datagrams { sizes, .. } => Payload::Whole {
                outgoing: whole_messages::OutgoingMessages::new(seed, sends, sizes.outgoing.clone()),
                incoming: whole_messages::IncomingMessages::new(seed, receives, sizes.incoming.clone()),
                carries: carries.clone(),
                gave_up: false,
                message: Vec::new(),
                stray: false,
            },
        }
    }

    /// Returns the number of bytes handed over.
    pub(super) fn sent(&self) -> u64 {
        match self {
            Payload::Stream { outgoing, .. } => outgoing.sent(),
            Payload::Whole { outgoing, .. } => outgoing.sent(),
        }
    }

    /// Returns the number of bytes received; for messages, only expected ones count.
    pub(super) fn received(&self) -> u64 {
        match self {
            Payload::Stream { incoming, .. } => incoming.received(),
            Payload::Whole { incoming, .. } => incoming.received(),
        }
    }

    /// Returns the counts of sent and received messages, or `None` for a stream.
    pub(super) fn counts(&self) -> Option<[MessageCount; 2]> {
        let Payload::Whole {
            outgoing,
            incoming,
            carries: Carries::Messages(sizes) | Carries::Datagrams { sizes, .. },
            ..
        } = self
        else {
            return None;
        };
        let count = |done, all: &[u64]| MessageCount { done, of: all.len() as u64 };
        Some([
            count(outgoing.count(), &sizes.outgoing),
            count(incoming.count(), &sizes.incoming),
        ])
    }

    /// Returns true if bytes are readable that do not form a whole message.
    pub(super) fn has_stray_bytes(&self) -> bool {
        matches!(self, Payload::Whole { stray: true, .. })
    }

    /// Returns the SHA-256 of the data handed over, and of the data received, in hexadecimal.
    pub(super) fn sha256(&self) -> [String; 2] {
        match self {
            Payload::Stream { outgoing, incoming } => [outgoing.sha256(), incoming.sha256()],
            Payload::Whole { outgoing, incoming, .. } => [outgoing.sha256(), incoming.sha256()],
        }
    }

    /// Describes the unexpected data, if any arrived.
    pub(super) fn wrong(&self) -> Option<String> {
        match self {
            Payload::Stream { incoming, .. } => incoming
                .wrong_at()
                .map(|offset| format!("byte {offset} is not what was sent there")),
            Payload::Whole { incoming, .. } => incoming.wrong().map(str::to_owned),
        }
    }

    /// Gives up on missing datagrams once their time is over.
    pub(super) fn wait_until(&mut self, now: Instant) {
        if let Payload::Whole { carries: Carries::Datagrams { until, .. }, gave_up, .. } = self {
            *gave_up = now >= *until;
        }
    }

    /// Returns true once the end no longer waits for datagrams.
    pub(super) fn gave_up(&self) -> bool {
        matches!(self, Payload::Whole { gave_up: true, .. })
    }

    /// Returns the number of bytes that must arrive, out of `all`, before no more are expected.
    pub(super) fn needed(&self, all: u64) -> u64 {
        if self.gave_up() { 0 } else { all }
    }

    /// Returns the time at which [`Payload::needed`] changes.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        match self {
            Payload::Whole { carries: Carries::Datagrams { until, .. }, gave_up: false, .. } => Some(*until),
            Payload::Stream { .. } | Payload::Whole { .. } => None,
        }
    }

    /// Returns true if some of the data may be lost.
    pub(super) fn may_lose(&self) -> bool {
        matches!(self, Payload::Whole { carries: Carries::Datagrams { .. }, .. })
    }

    /// Returns a fault if more datagrams were lost than allowed.
    pub(super) fn lost_too_many(&self) -> Option<String> {
        let Payload::Whole { carries: Carries::Datagrams { may_lose, .. }, .. } = self else {
            return None;
        };
        let lost = self
            .counts()
            .map_or(0, |[_, incoming]| incoming.of - incoming.done);
        (lost > *may_lose).then(|| format!("{lost} datagrams did not arrive; at most {may_lose} may be lost"))
    }

    /// Hands over the bytes that are due, up to `total` bytes from the start, as far as the transport accepts
    /// them.
    pub(super) fn push(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        handle: Handle,
        total: u64,
    ) -> Result<(), RequestError> {
        match self {
            Payload::Stream { outgoing, .. } => outgoing.push(total, |bytes| stack.send(now, handle, bytes)),
            Payload::Whole { outgoing, .. } => {
                outgoing.push(total, |message| stack.send_message(now, handle, message))
            }
        }
    }

    /// Reads once: up to `room` bytes of a stream, or one message. Returns false if there was no data.
    pub(super) fn read(
        &mut self,
        (now, room): (Instant, usize),
        (stack, handle): (&mut Stack, Handle),
        buffer: &mut [u8],
        script: &mut dyn Script,
    ) -> Result<bool, RequestError> {
        match self {
            Payload::Stream { incoming, .. } => {
                let count = stack.recv(now, handle, &mut buffer[..room])?;
                if count > 0 {
                    incoming.take(&buffer[..count]);
                    script.on_received(now, incoming.received());
                }
                Ok(count > 0)
            }
            Payload::Whole { incoming, message, stray, .. } => {
                let is_some = stack.recv_message(now, handle, message)?;
                *stray = !is_some && stack.readable(handle) > 0;
                if is_some && let Some(n) = incoming.take(message) {
                    script.on_message(now, n);
                }
                Ok(is_some)
            }
        }
    }
}
