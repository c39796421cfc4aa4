//! The bytes of streams. They follow from the stream's number, so each reader can compute the expected bytes.
//!
//! The data from the end that opens a stream begins with a few bytes that identify the stream. The rest, and
//! all data of the other end, is a piece of the same pattern that messages use, from a position of its own.

use crate::app::FlowSide;
use crate::app::calls::content::{BYTES, PATTERN, mix};

/// The number of bytes that identify a stream.
pub(super) const HEAD: usize = 8;

/// The content of one direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamContent {
    head: Option<[u8; HEAD]>,
    place: usize,
}

impl StreamContent {
    /// Returns the content sent by the opener of the stream with this number, in a connection with this key.
    pub(super) fn with_head(key: u64, opener: FlowSide, index: u64) -> StreamContent {
        let number = index << 1 | opener as u64;
        StreamContent { head: Some((number ^ key).to_le_bytes()), place: place(number, key) }
    }

    /// Returns the content sent by the other end.
    pub(super) fn without_head(key: u64, opener: FlowSide, index: u64) -> StreamContent {
        let number = index << 1 | opener as u64;
        StreamContent { head: None, place: place(number, !key) }
    }

    /// Identifies a stream by its first bytes.
    pub(super) fn opener(key: u64, head: [u8; HEAD]) -> Option<(FlowSide, u64)> {
        let number = u64::from_le_bytes(head) ^ key;
        let opener = if number & 1 == 0 {
            FlowSide::Client
        } else {
            FlowSide::Server
        };
        // A valid number is far smaller than random bytes would give.
        (number >> 33 == 0).then_some((opener, number >> 1))
    }

    /// Returns the number of bytes that identify the stream.
    pub(super) fn head_len(&self) -> u64 {
        self.head.map_or(0, |head| head.len() as u64)
    }

    /// Fills `out` with the bytes from an offset on.
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

    /// Compares bytes that arrived at an offset. Returns the offset of the first one that differs from the
    /// byte sent.
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
    fn contents_are_independent_of_splits_and_differ_by_stream() {
        let len = 70_000;
        let texts = [
            StreamContent::with_head(5, FlowSide::Client, 0),
            StreamContent::without_head(5, FlowSide::Client, 0),
            StreamContent::with_head(5, FlowSide::Server, 0),
            StreamContent::with_head(5, FlowSide::Client, 1),
            StreamContent::with_head(6, FlowSide::Client, 0),
        ];
        let whole = |text: &StreamContent| {
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
