//! The fingerprint of a run: a running hash over all its events, in order.

use hawser_time::Instant;

use crate::frame::Frame;

/// The number of bytes that are mixed in at once.
const BLOCK: usize = 64;
const LANES: usize = BLOCK / 16;
/// Odd numbers with about equal counts of ones and zeros: digits of pi.
const KEYS: [u64; LANES] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
];

/// A running hash. Two runs with the same hash did the same, frame by frame and byte by byte.
///
/// The hash covers all bytes of a frame at the end of its path. At a node that forwards the frame, it covers
/// only the length, the headers and the number. Any byte that changes in transit therefore shows at the end.
///
/// The hash does not depend on the machine. All numbers go in as little-endian bytes, and the payload goes in
/// as bytes, wherever they lie in memory. It distinguishes runs, but does not resist an adversary.
#[derive(Clone, Debug)]
pub struct Trace {
    lanes: [u64; LANES],
    /// Bytes that do not yet fill a block.
    block: [u8; BLOCK],
    filled: usize,
    entries: u64,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace { lanes: KEYS, block: [0; BLOCK], filled: 0, entries: 0 }
    }
}

impl Trace {
    /// Records that a frame's path ended at a place: `what` is `delivered` or a rule's name.
    pub fn frame(&mut self, at: Instant, place: usize, what: &str, frame: &Frame) {
        self.entry(at, place, what, [frame.len() as u64, frame.number]);
        self.write(&frame.head);
        frame.payload.iter().for_each(|piece| self.write(piece.bytes()));
        self.flush();
    }

    /// Records that a frame reached a node that forwards it.
    pub fn passed(&mut self, at: Instant, place: usize, frame: &Frame) {
        self.entry(at, place, "passed", [frame.len() as u64, frame.number]);
        self.write(&frame.head);
        self.flush();
    }

    /// Records an event in an application.
    pub fn event(&mut self, at: Instant, place: usize, what: &str, value: u64) {
        self.entry(at, place, what, [value, 0]);
    }

    fn entry(&mut self, at: Instant, place: usize, what: &str, [value, number]: [u64; 2]) {
        self.entries += 1;
        let mut block = [0; BLOCK];
        let words = [at.as_nanos(), place as u64, what.len() as u64, value, number];
        for (bytes, word) in block.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let short = what.len().min(BLOCK - 40);
        block[40..40 + short].copy_from_slice(&what.as_bytes()[..short]);
        self.mix(&block);
        if what.len() > short {
            self.write(what.as_bytes());
            self.flush();
        }
    }

    /// Adds bytes. The hash does not depend on how the caller splits them.
    fn write(&mut self, mut bytes: &[u8]) {
        if self.filled > 0 {
            let taken = bytes.len().min(BLOCK - self.filled);
            self.block[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled < BLOCK {
                return;
            }
            let block = self.block;
            self.mix(&block);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        blocks.iter().for_each(|block| self.mix(block));
        self.block[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Adds the buffered bytes; their count has already been added as a length.
    fn flush(&mut self) {
        if self.filled > 0 {
            let mut block = self.block;
            block[self.filled..].fill(0);
            self.filled = 0;
            self.mix(&block);
        }
    }

    fn mix(&mut self, block: &[u8; BLOCK]) {
        let (words, _) = block.as_chunks::<8>();
        for ((lane, key), words) in self.lanes.iter_mut().zip(KEYS).zip(words.chunks_exact(2)) {
            let [one, other] = [words[0], words[1]].map(u64::from_le_bytes);
            *lane = fold(*lane ^ one, key ^ other);
        }
    }

    /// Returns the number of recorded events.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the hash of all events so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let all = self.lanes.iter().zip(KEYS);
        all.fold(self.entries, |hash, (lane, key)| fold(hash ^ *lane, key))
    }
}

/// XORs both halves of the product, so that each bit depends on many bits of the factors.
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples::ipv4;

    fn hash(record: impl Fn(&mut Trace)) -> u64 {
        let mut trace = Trace::default();
        record(&mut trace);
        trace.event(Instant::from_nanos(9), 1, "after", 1);
        trace.hash()
    }

    #[test]
    fn the_trace_hash_covers_every_field() {
        let hash =
            |at, place, what, payload: &[u8]| hash(|trace| trace.frame(at, place, what, &ipv4(253, payload)));
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
    fn the_trace_hash_covers_each_byte_of_a_frame() {
        let payload = vec![7; 1000];
        let of =
            |payload: &[u8]| hash(|trace| trace.frame(Instant::ORIGIN, 0, "delivered", &ipv4(253, payload)));
        let mut hashes: Vec<u64> = (0..payload.len())
            .map(|at| {
                let mut payload = payload.clone();
                payload[at] ^= 1;
                of(&payload)
            })
            .collect();
        hashes.push(of(&payload));
        hashes.push(of(&payload[1..]));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1002);
    }

    #[test]
    fn a_forwarded_frame_is_hashed_by_headers_and_number() {
        let of = |change: &dyn Fn(&mut crate::frame::Frame)| {
            let mut frame = ipv4(253, b"payload");
            frame.number = 5;
            change(&mut frame);
            hash(|trace| trace.passed(Instant::ORIGIN, 0, &frame))
        };
        let one = of(&|_| ());
        assert_ne!(of(&|frame| frame.number = 6), one);
        assert_ne!(of(&|frame| frame.head[1] = 3), one);
        assert_ne!(of(&|frame| frame.cut(30)), one);
    }

    #[test]
    fn the_trace_hash_depends_on_the_order() {
        let event = |trace: &mut Trace, what| trace.event(Instant::ORIGIN, 0, what, 0);
        let one = hash(|trace| ["a", "b"].into_iter().for_each(|what| event(trace, what)));
        let other = hash(|trace| ["b", "a"].into_iter().for_each(|what| event(trace, what)));
        assert_ne!(one, other);
    }

    #[test]
    fn the_trace_hash_ignores_how_bytes_are_stored() {
        for len in [7, 36, 100, 1000] {
            let (mut spread, mut flat) = (Trace::default(), Trace::default());
            let mut frame = ipv4(253, &vec![1; len]);
            frame.payload.push(frame.payload[0].slice(1, 4));
            spread.frame(Instant::from_nanos(1), 0, "delivered", &frame);
            frame.flatten();
            flat.frame(Instant::from_nanos(1), 0, "delivered", &frame);
            assert_eq!(spread.hash(), flat.hash());
        }
    }
}
