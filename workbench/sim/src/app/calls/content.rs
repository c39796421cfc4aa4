//! The bytes of messages and replies. They follow from the message's number, so each receiver can compute the
//! expected bytes.
//!
//! A message of 16 bytes or more begins with its number and the key of its flow. The rest is a piece of a
//! fixed pattern, from a position that depends on both. A shorter message holds as much of the number as
//! fits, so several short messages may be equal. Their replies are then equal too, and each of them may
//! arrive once.

use std::sync::LazyLock;

use crate::rng::Rng;

/// The length of the header of a message with its own number, in bytes.
const HEAD: usize = 16;
/// The pattern's length: a prime, so that no two segments of a usual size begin at the same position.
pub(in crate::app) const PATTERN: usize = 65_521;

/// The pattern from which messages are made.
pub(in crate::app) static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; PATTERN];
    Rng::new(0, "messages").fill(&mut bytes);
    bytes
});

/// The identity of a message, as far as its length reveals it to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessageId {
    /// The call and the attempt.
    Number {
        /// The call's number within the flow.
        call: u32,
        /// The number of the attempt, counted from 0.
        attempt: u16,
    },
    /// The last bits of the call's number. They are equal for several calls of this length.
    Part {
        /// The known bits.
        bits: u64,
        /// The message's length, in bytes.
        len: u8,
    },
}

impl MessageId {
    /// Returns the identity that a message of `len` bytes reveals for an attempt of a call.
    pub(super) fn from_length(call: u32, attempt: u16, len: usize) -> MessageId {
        if len >= HEAD {
            return MessageId::Number { call, attempt };
        }
        MessageId::Part { bits: u64::from(call) & mask(len), len: len as u8 }
    }

    /// Returns a number that is equal for all attempts, and for all calls with equal messages. It determines
    /// the reply's size.
    pub(super) fn call(self) -> u64 {
        match self {
            MessageId::Number { call, .. } => u64::from(call),
            MessageId::Part { bits, len } => bits | u64::from(len) << 60,
        }
    }

    /// Returns the number from which the bytes of a message or reply of this length are made.
    fn number(self, len: usize) -> u64 {
        match self {
            MessageId::Number { call, attempt } if len >= HEAD => u64::from(call) << 16 | u64::from(attempt),
            MessageId::Number { call, .. } => u64::from(call),
            MessageId::Part { .. } if len >= HEAD => self.call(),
            MessageId::Part { bits, .. } => bits,
        }
    }

    /// Returns the identity that an incoming message claims.
    fn read(message: &[u8], key: u64) -> Option<MessageId> {
        let len = message.len();
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            let known = bytes.len().min(8);
            word[..known].copy_from_slice(&bytes[..known]);
            u64::from_le_bytes(word)
        };
        if len < HEAD {
            let bits = (word(message) ^ key) & mask(len);
            return Some(MessageId::Part { bits, len: len as u8 });
        }
        let number = word(message) ^ key;
        Some(MessageId::Number { call: u32::try_from(number >> 16).ok()?, attempt: number as u16 })
    }
}

fn mask(len: usize) -> u64 {
    if len >= 8 { u64::MAX } else { (1 << (8 * len)) - 1 }
}

/// Writes a message of `len` bytes.
pub(super) fn write(known: MessageId, key: u64, len: usize, message: &mut Vec<u8>) {
    let number = known.number(len);
    message.clear();
    message.extend_from_slice(&head(number, key)[..len.min(HEAD)]);
    let mut at = place(number, key);
    while message.len() < len {
        let piece = &BYTES[at..];
        let count = piece.len().min(len - message.len());
        message.extend_from_slice(&piece[..count]);
        at = 0;
    }
}

/// Returns true if a message equals this one.
pub(super) fn is(known: MessageId, key: u64, len: usize, message: &[u8]) -> bool {
    if message.len() != len {
        return false;
    }
    let number = known.number(len);
    let (start, mut rest) = message.split_at(len.min(HEAD));
    let mut is_same = start == &head(number, key)[..start.len()];
    let mut at = place(number, key);
    while is_same && !rest.is_empty() {
        let piece = &BYTES[at..];
        let count = piece.len().min(rest.len());
        is_same = rest[..count] == piece[..count];
        (rest, at) = (&rest[count..], 0);
    }
    is_same
}

fn head(number: u64, key: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&(number ^ key).to_le_bytes());
    head[8..].copy_from_slice(&key.to_le_bytes());
    head
}

/// Returns the identity of an incoming message in a flow with this key, if all its bytes are correct.
pub(super) fn recognize(message: &[u8], key: u64) -> Option<MessageId> {
    MessageId::read(message, key).filter(|known| is(*known, key, message.len(), message))
}

fn place(number: u64, key: u64) -> usize {
    (mix(number ^ key) % PATTERN as u64) as usize
}

/// Spreads a number over 64 bits: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
pub(in crate::app) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 0x1234_5678_9abc_def0;

    fn message(call: u32, attempt: u16, len: usize) -> Vec<u8> {
        let mut message = Vec::new();
        write(MessageId::from_length(call, attempt, len), KEY, len, &mut message);
        assert_eq!(message.len(), len);
        message
    }

    #[test]
    fn a_message_is_recognized_by_its_bytes() {
        for len in [1, 2, 7, 8, 9, 15, 16, 17, 1500, 65_521, 200_000] {
            let sent = message(77, 3, len);
            assert_eq!(
                recognize(&sent, KEY),
                Some(MessageId::from_length(77, 3, len)),
                "{len}"
            );
        }
    }

    #[test]
    fn an_altered_cut_or_joined_message_is_not_recognized() {
        let sent = message(5, 0, 200_000);
        let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut other = sent.clone();
            change(&mut other);
            recognize(&other, KEY)
        };
        let known = MessageId::from_length(5, 0, sent.len());
        for at in [0, 9, 16, 70_000, 199_999] {
            assert_ne!(wrong(&|m| m[at] ^= 4), Some(known), "a bit of byte {at}");
        }
        assert_eq!(
            wrong(&|m| drop(m.drain(3000..4460))),
            None,
            "a segment is missing"
        );
        assert_eq!(
            wrong(&|m| m[1460..4380].rotate_left(1460)),
            None,
            "two segments are exchanged"
        );
        let other = message(6, 0, sent.len());
        assert_eq!(
            wrong(&|m| m[1460..2920].copy_from_slice(&other[1460..2920])),
            None,
            "a segment is another message's"
        );
        // The message does not contain its length: each receiver knows the expected length.
        assert!(!is(known, KEY, sent.len(), &sent[..sent.len() - 1]));
    }

    #[test]
    fn short_messages_repeat_with_the_low_bytes_of_their_number() {
        assert_eq!(message(1, 0, 1), message(257, 2, 1));
        assert_ne!(message(1, 0, 2), message(257, 0, 2));
        assert_eq!(
            MessageId::from_length(1, 0, 1).call(),
            MessageId::from_length(257, 0, 1).call()
        );
        assert_ne!(
            MessageId::from_length(1, 0, 1).call(),
            MessageId::from_length(1, 0, 2).call()
        );
    }
}
