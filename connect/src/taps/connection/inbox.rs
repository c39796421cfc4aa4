//! A message on its way to the application: it is handed over in the requested sizes, and its buffer is
//! bounded. No I/O.

use bytes::{Bytes, BytesMut};

use crate::taps::MessageContext;
use crate::taps::framer::MessagePart;

/// The maximum number of bytes of a message that are buffered; longer messages are handed over in parts (RFC
/// 9622, 9.3.2.2).
pub(super) const MAX_BUFFERED: usize = 1 << 20;

/// A received message, or a part of one (RFC 9622, 9.3.2).
#[derive(Clone, Debug, PartialEq)]
pub enum ReceivedMessage {
    /// A whole message.
    Complete {
        /// The bytes of the message.
        data: Bytes,
        /// The context of the message.
        context: MessageContext,
    },
    /// The next part of a message. All parts have the same context.
    Partial {
        /// The bytes of the part.
        data: Bytes,
        /// The context of the message.
        context: MessageContext,
        /// True if it is the last part.
        end_of_message: bool,
    },
}

impl ReceivedMessage {
    /// Returns the bytes.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        match self {
            ReceivedMessage::Complete { data, .. } | ReceivedMessage::Partial { data, .. } => data,
        }
    }

    /// Returns the context of the message.
    #[must_use]
    pub fn context(&self) -> &MessageContext {
        match self {
            ReceivedMessage::Complete { context, .. } | ReceivedMessage::Partial { context, .. } => context,
        }
    }

    /// Returns whether these are the message's last bytes.
    #[must_use]
    pub fn is_end_of_message(&self) -> bool {
        match self {
            ReceivedMessage::Complete { .. } => true,
            ReceivedMessage::Partial { end_of_message, .. } => *end_of_message,
        }
    }
}

/// The message that is being received.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    data: BytesMut,
    is_end: bool,
    /// True if a part of it has been handed over.
    has_begun: bool,
    pub(super) context: MessageContext,
}

impl Inbox {
    /// Returns the number of bytes that have not been handed over.
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    /// Returns whether a message has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        self.has_begun || !self.data.is_empty()
    }

    pub(super) fn is_end(&self) -> bool {
        self.is_end
    }

    pub(super) fn push(&mut self, part: &MessagePart) {
        self.data.extend_from_slice(&part.data);
        self.is_end = part.is_end;
    }

    /// Returns the data for a Receive of `min` to `max` bytes, if there is enough.
    pub(super) fn take(&mut self, min: usize, max: usize) -> Option<ReceivedMessage> {
        let max = max.max(1);
        let (length, is_whole) = (self.data.len(), self.is_end && self.data.len() <= max);
        if !is_whole && (length == 0 || length < min.min(max).min(MAX_BUFFERED)) {
            return None;
        }
        let data = self.data.split_to(length.min(max)).freeze();
        if !is_whole {
            self.has_begun = true;
            return Some(ReceivedMessage::Partial {
                data,
                context: self.context.clone(),
                end_of_message: false,
            });
        }
        let mut next = MessageContext::new();
        (next.local, next.remote) = (self.context.local, self.context.remote);
        let context = std::mem::replace(&mut self.context, next);
        self.is_end = false;
        match std::mem::take(&mut self.has_begun) {
            true => Some(ReceivedMessage::Partial { data, context, end_of_message: true }),
            false => Some(ReceivedMessage::Complete { data, context }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(data: &'static [u8], is_end: bool) -> Inbox {
        let mut inbox = Inbox::default();
        inbox.push(&MessagePart { data: Bytes::from_static(data), is_end });
        inbox
    }

    fn lengths(inbox: &mut Inbox, min: usize, max: usize) -> Vec<(usize, bool)> {
        std::iter::from_fn(|| inbox.take(min, max))
            .map(|received| (received.data().len(), received.is_end_of_message()))
            .collect()
    }

    /// RFC 9622, 9.3.2.2: a message of 1,500 bytes for an application that takes 1,000.
    #[test]
    fn a_long_message_is_handed_over_in_parts() {
        static MESSAGE: [u8; 1_500] = [7; 1_500];
        assert_eq!(
            lengths(&mut inbox(&MESSAGE, true), 1, 1_000),
            [(1_000, false), (500, true)]
        );
        assert_eq!(
            lengths(&mut inbox(&MESSAGE, true), usize::MAX, usize::MAX),
            [(1_500, true)]
        );
        assert_eq!(lengths(&mut inbox(&MESSAGE, false), usize::MAX, usize::MAX), []);
        assert_eq!(lengths(&mut inbox(&MESSAGE, false), 1_501, usize::MAX), []);
        assert_eq!(
            lengths(&mut inbox(&MESSAGE, false), 1_500, usize::MAX),
            [(1_500, false)]
        );
    }

    #[test]
    fn parts_of_a_message_share_one_context() {
        let mut inbox = inbox(b"abc", true);
        let first = inbox.take(1, 2).expect("a part").context().id();
        assert_eq!(inbox.take(1, 2).expect("the rest").context().id(), first);
        inbox.push(&MessagePart { data: Bytes::new(), is_end: true });
        let next = inbox
            .take(usize::MAX, usize::MAX)
            .expect("an empty message is one");
        assert!(next.context().id() != first && matches!(next, ReceivedMessage::Complete { .. }));
    }
}
