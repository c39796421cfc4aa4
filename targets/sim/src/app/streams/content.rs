//! The bytes of streams: known from their numbers, so that whoever reads one knows what it has to be.
//!
//! What the end sends that opens a stream begins with some bytes that say which one it is. What follows, and all of what
//! the other end sends, is a piece of the pattern that messages have, too, from a place of its own.

use crate::app::Side;
use crate::app::calls::content::{BYTES, PATTERN, mix};

/// The bytes that say which stream it is.
pub(super) const HEAD: usize = 8;

/// What one direction of a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text {
    head: Option<[u8; HEAD]>,
    place: usize,
}

impl Text {
    /// That of who opens the stream with this number, in a connection with this key.
    pub(super) fn with_head(key: u64, opener: Side, index: u64) -> Text {
        let number = index << 1 | opener as u64;
        Text { head: Some((number ^ key).to_le_bytes()), place: place(number, key) }
    }

    /// That of the other end.
    pub(super) fn without_head(key: u64, opener: Side, index: u64) -> Text {
        let number = index << 1 | opener as u64;
        Text { head: None, place: place(number, !key) }
    }

    /// The stream whose first bytes these are, if there are so many.
    pub(super) fn opener(key: u64, head: [u8; HEAD]) -> Option<(Side, u64)> {
        let number = u64::from_le_bytes(head) ^ key;
        let opener = if number & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        };
        // Numbers are far smaller than what chance would make of them.
        (number >> 33 == 0).then_some((opener, number >> 1))
    }

    /// The bytes that it has for that.
    pub(super) fn head_len(&self) -> u64 {
        self.head.map_or(0, |head| head.len() as u64)
    }

    /// The bytes from an offset on.
    pub(super) fn fill(&self, offset: u64, out: &mut [u8]) {
        let head = self.head.as_ref().map_or(&[][..], |head| &head[..]);
        let from = usize::try_from(offset).map_or(head.len(), |from| from.min(head.len()));
        let count = (head.len() - from).min(out.len());
        let (start, mut rest) = out.split_at_mut(count);
        start.copy_from_slice(&head[from..from + count]);
        let beyond = offset.saturating_sub(head.len() as u64) % PATTERN as u64;
        let mut at = (self.place + beyond as usize) % PATTERN;
        while !rest.is_empty() {
            let piece = &BYTES[at..];
            let count = piece.len().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&piece[..count]);
            (rest, at) = (later, 0);
        }
    }

    /// The place of the first of these bytes, which came at an offset, that is not what was sent there.
    pub(super) fn differs_at(&self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = [0; 512];
        let pieces = (offset..)
            .step_by(expected.len())
            .zip(bytes.chunks(expected.len()));
        for (at, piece) in pieces {
            let expected = &mut expected[..piece.len()];
            self.fill(at, expected);
            if let Some(place) = piece.iter().zip(&*expected).position(|(a, b)| a != b) {
                return Some(at + place as u64);
            }
        }
        None
    }
}

fn place(number: u64, key: u64) -> usize {
    (mix(number ^ key) % PATTERN as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_however_they_are_cut_and_differ_between_streams() {
        let len = 70_000;
        let texts = [
            Text::with_head(5, Side::Client, 0),
            Text::without_head(5, Side::Client, 0),
            Text::with_head(5, Side::Server, 0),
            Text::with_head(5, Side::Client, 1),
            Text::with_head(6, Side::Client, 0),
        ];
        let whole = |text: &Text| {
            let mut bytes = vec![0; len];
            text.fill(0, &mut bytes);
            bytes
        };
        for text in &texts {
            let bytes = whole(text);
            for piece in [1, 3, 777, len] {
                let mut again = vec![0; len];
                for (number, out) in again.chunks_mut(piece).enumerate() {
                    text.fill((number * piece) as u64, out);
                }
                assert!(again == bytes, "in pieces of {piece}");
                let pieces = bytes.chunks(piece).enumerate();
                assert!(
                    pieces
                        .map(|(number, bytes)| text.differs_at((number * piece) as u64, bytes))
                        .all(|differs| differs.is_none())
                );
            }
            for other in texts.iter().filter(|other| *other != text) {
                let differs = text.differs_at(100, &whole(other)[100..200]);
                assert!(differs.is_some_and(|at| at < 110), "{differs:?}");
            }
        }
        let mut bytes = whole(&texts[0]);
        bytes[40_000] ^= 1;
        assert_eq!(texts[0].differs_at(0, &bytes), Some(40_000));
    }
}
