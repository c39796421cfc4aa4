//! The fingerprint of a run: a running hash over everything that happened, in order.

use std::hash::Hasher;

use hawser_time::Instant;
use siphasher::sip::SipHasher13;

use crate::frame::Frame;

/// A running hash. Two runs with the same hash did the same, frame by frame and byte by byte.
///
/// It does not depend on the machine: all numbers go in as little-endian bytes, and payload
/// counts by its bytes, wherever they lie.
#[derive(Clone, Debug)]
pub struct Trace {
    hasher: SipHasher13,
    entries: u64,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            hasher: SipHasher13::new_with_keys(0, 0),
            entries: 0,
        }
    }
}

impl Trace {
    /// Something happened to a frame at a place: `what` is `sent`, `delivered` or a rule's name.
    pub fn frame(&mut self, at: Instant, place: usize, what: &str, frame: &Frame) {
        self.entry(at, place, what, frame.len() as u64);
        self.hasher.write(&frame.head);
        frame.payload.iter().for_each(|p| self.hasher.write(p.bytes()));
    }

    /// Something happened in an application.
    pub fn event(&mut self, at: Instant, place: usize, what: &str, value: u64) {
        self.entry(at, place, what, value);
    }

    fn entry(&mut self, at: Instant, place: usize, what: &str, value: u64) {
        self.entries += 1;
        for number in [at.as_nanos(), place as u64, what.len() as u64, value] {
            self.hasher.write(&number.to_le_bytes());
        }
        self.hasher.write(what.as_bytes());
    }

    /// How many things happened.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The hash of all that happened so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples::ipv4;

    #[test]
    fn everything_counts() {
        let hash = |at, place, what, payload: &[u8]| {
            let mut trace = Trace::default();
            trace.frame(at, place, what, &ipv4(253, payload));
            trace.hash()
        };
        let one = hash(Instant::from_nanos(1), 2, "delivered", b"same");
        assert_eq!(one, hash(Instant::from_nanos(1), 2, "delivered", b"same"));
        let others = [
            hash(Instant::ORIGIN, 2, "delivered", b"same"),
            hash(Instant::from_nanos(1), 1, "delivered", b"same"),
            hash(Instant::from_nanos(1), 2, "loss", b"same"),
            hash(Instant::from_nanos(1), 2, "delivered", b"some"),
        ];
        assert!(others.iter().all(|other| *other != one));
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_lie() {
        let (mut spread, mut flat) = (Trace::default(), Trace::default());
        let mut frame = ipv4(253, b"payload");
        spread.frame(Instant::from_nanos(1), 0, "delivered", &frame);
        frame.flatten();
        flat.frame(Instant::from_nanos(1), 0, "delivered", &frame);
        assert_eq!(spread.hash(), flat.hash());
    }
}
