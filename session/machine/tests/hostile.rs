//! The property of the fuzz target `session`, on stable Rust: bytes with many kinds of errors may only end a
//! carrier or a session.

use fastrand::Rng;
use hawser_session_machine::hostile::{converse, decode};

/// A source of bytes, seeded.
struct Random(Rng);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn bytes(&mut self, max: u64) -> Vec<u8> {
        (0..self.bits() % max).map(|_| self.bits() as u8).collect()
    }
}

/// Returns nearly valid segments: known types, plausible lengths, and an occasional wrong bit.
fn segments(random: &mut Random) -> Vec<u8> {
    const MIN_HEADERS: [(u8, u8); 17] = [
        (0x01, 52),
        (0x02, 52),
        (0x03, 88),
        (0x04, 40),
        (0x05, 12),
        (0x06, 24),
        (0x10, 20),
        (0x11, 40),
        (0x13, 16),
        (0x14, 28),
        (0x15, 20),
        (0x20, 24),
        (0x21, 24),
        (0x22, 24),
        (0x30, 24),
        (0x31, 12),
        (0x50, 8),
    ];
    let mut all = vec![random.bits() as u8];
    for _ in 0..1 + random.bits() % 4 {
        let (kind, min_header) = MIN_HEADERS[(random.bits() % MIN_HEADERS.len() as u64) as usize];
        let header = min_header + (random.bits() % 3) as u8 * 4;
        let length = u32::from(header) + (random.bits() % 5) as u32 * 12;
        let mut segment = vec![0; length as usize];
        for byte in &mut segment[8..] {
            // Most fields hold small numbers in their low bytes.
            *byte = if random.bits().is_multiple_of(4) {
                random.bits() as u8
            } else {
                0
            };
        }
        segment[..8].copy_from_slice(&[kind, header, 0, random.bits() as u8 % 4, 0, 0, 0, 0]);
        segment[4..8].copy_from_slice(&length.to_be_bytes());
        if kind < 3 {
            (segment[8], segment[9], segment[10]) = (1, 1, random.bits() as u8 % 3);
            segment[32..40].fill(0);
        }
        if random.bits().is_multiple_of(4) {
            let at = (random.bits() % u64::from(length)) as usize;
            segment[at] ^= 1 << (random.bits() % 8);
        }
        all.extend_from_slice(&segment);
    }
    all
}

#[test]
fn decoding_does_not_depend_on_how_bytes_are_split() {
    let mut random = Random(Rng::with_seed(0x9e37_79b9_7f4a_7c15));
    for _ in 0..20_000 {
        decode(&segments(&mut random));
        decode(&random.bytes(200));
    }
}

#[test]
fn arbitrary_bytes_of_a_peer_do_no_harm() {
    let mut random = Random(Rng::with_seed(0x2545_f491_4f6c_dd1d));
    for _ in 0..20_000 {
        converse(&random.bytes(600));
    }
}
