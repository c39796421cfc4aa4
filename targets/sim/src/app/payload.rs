//! What one end sends and receives, as the transport promises to carry it.
//!
//! * [`stream`]: bytes, in order
//! * [`whole`]: messages, in any order

use std::sync::Arc;

use hawser_engine::{Handle, RequestError, Stack};
use hawser_time::Instant;

use super::streams::Agreed;
use super::{Script, stream, whole};

/// What the transport promises about what it carries in one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Carries {
    /// A stream: every byte, in order, once.
    #[default]
    Stream,
    /// Streams within the connection: of each every byte, in order, once. The connection itself carries nothing.
    Streams(Arc<Agreed>),
    /// Messages: each whole, once, in any order.
    Messages(MessageSizes),
    /// Datagrams: each whole, at most once, in any order.
    Datagrams {
        /// Their sizes.
        sizes: MessageSizes,
        /// The maximum number of those that come to this end that may be lost.
        may_lose: u64,
        /// When this end gives up on those that have not come.
        until: Instant,
    },
}

/// The size of each message, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSizes {
    /// Of those that this end sends.
    pub outgoing: Vec<u64>,
    /// Of those that it receives.
    pub incoming: Vec<u64>,
}

/// Messages of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Those that were handed over, by the sender, or that have come, to the receiver.
    pub done: u64,
    /// All of them.
    pub of: u64,
}

/// What one end sends, and the check of what arrives.
pub(super) enum Payload {
    /// A stream.
    Stream { outgoing: stream::Outgoing, incoming: stream::Incoming },
    /// Messages, or datagrams.
    Whole {
        outgoing: whole::Outgoing,
        incoming: whole::Incoming,
        carries: Carries,
        /// Nobody waits for datagrams any more.
        gave_up: bool,
        /// A message that was read.
        message: Vec<u8>,
        /// Bytes wait to be read that are no whole message.
        stray: bool,
    },
}

impl Payload {
    /// What belongs to these labels of what is sent and of what comes.
    pub(super) fn new(carries: &Carries, seed: u64, [sends, receives]: [&str; 2]) -> Payload {
        match carries {
            Carries::Stream | Carries::Streams(_) => Payload::Stream {
                outgoing: stream::Outgoing::new(seed, sends),
                incoming: stream::Incoming::new(seed, receives),
            },
            Carries::Messages(sizes) | Carries::Datagrams { sizes, .. } => Payload::Whole {
                outgoing: whole::Outgoing::new(seed, sends, sizes.outgoing.clone()),
                incoming: whole::Incoming::new(seed, receives, sizes.incoming.clone()),
                carries: carries.clone(),
                gave_up: false,
                message: Vec::new(),
                stray: false,
            },
        }
    }

    /// Bytes that were handed over.
    pub(super) fn sent(&self) -> u64 {
        match self {
            Payload::Stream { outgoing, .. } => outgoing.sent(),
            Payload::Whole { outgoing, .. } => outgoing.sent(),
        }
    }

    /// Bytes that have come; of messages those that ought to have.
    pub(super) fn received(&self) -> u64 {
        match self {
            Payload::Stream { incoming, .. } => incoming.received(),
            Payload::Whole { incoming, .. } => incoming.received(),
        }
    }

    /// The messages that it sends, and those that it receives; none of a stream.
    pub(super) fn counts(&self) -> Option<[Count; 2]> {
        let Payload::Whole {
            outgoing,
            incoming,
            carries: Carries::Messages(sizes) | Carries::Datagrams { sizes, .. },
            ..
        } = self
        else {
            return None;
        };
        let count = |done, all: &[u64]| Count { done, of: all.len() as u64 };
        Some([
            count(outgoing.count(), &sizes.outgoing),
            count(incoming.count(), &sizes.incoming),
        ])
    }

    /// Bytes wait to be read that are no whole message.
    pub(super) fn has_stray_bytes(&self) -> bool {
        matches!(self, Payload::Whole { stray: true, .. })
    }

    /// SHA-256 of what was handed over, and of what has come, in hexadecimal.
    pub(super) fn sha256(&self) -> [String; 2] {
        match self {
            Payload::Stream { outgoing, incoming } => [outgoing.sha256(), incoming.sha256()],
            Payload::Whole { outgoing, incoming, .. } => [outgoing.sha256(), incoming.sha256()],
        }
    }

    /// What ought not to have come, if anything has.
    pub(super) fn wrong(&self) -> Option<String> {
        match self {
            Payload::Stream { incoming, .. } => incoming
                .wrong_at()
                .map(|offset| format!("byte {offset} is not what was sent there")),
            Payload::Whole { incoming, .. } => incoming.wrong().map(str::to_owned),
        }
    }

    /// Gives up on datagrams that have not come, once their time is over.
    pub(super) fn wait_until(&mut self, now: Instant) {
        if let Payload::Whole { carries: Carries::Datagrams { until, .. }, gave_up, .. } = self {
            *gave_up = now >= *until;
        }
    }

    /// Nobody waits for datagrams any more.
    pub(super) fn gave_up(&self) -> bool {
        matches!(self, Payload::Whole { gave_up: true, .. })
    }

    /// Bytes that have to come of `all` before nothing more is expected.
    pub(super) fn needed(&self, all: u64) -> u64 {
        if self.gave_up() { 0 } else { all }
    }

    /// When [`Payload::needed`] changes.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        match self {
            Payload::Whole { carries: Carries::Datagrams { until, .. }, gave_up: false, .. } => Some(*until),
            Payload::Stream { .. } | Payload::Whole { .. } => None,
        }
    }

    /// Whether some of what was sent need not come.
    pub(super) fn may_lose(&self) -> bool {
        matches!(self, Payload::Whole { carries: Carries::Datagrams { .. }, .. })
    }

    /// What is wrong when more was lost than may be.
    pub(super) fn lost_too_many(&self) -> Option<String> {
        let Payload::Whole { carries: Carries::Datagrams { may_lose, .. }, .. } = self else {
            return None;
        };
        let lost = self
            .counts()
            .map_or(0, |[_, incoming]| incoming.of - incoming.done);
        (lost > *may_lose).then(|| format!("{lost} datagrams did not come, and {may_lose} may be lost"))
    }

    /// Hands over what is due, `total` bytes from the start, as far as the transport takes it.
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

    /// Reads once: up to `room` bytes of a stream, or one message. False when there was nothing.
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
