//! Checks arbitrary bytes as a datagram, for a fuzz target and a test.

use crate::sctp::packet;

/// Checks the datagram. If it is accepted, it is read in the way of a C program, which goes from length to
/// length. This reader must advance at every step and stay within the datagram.
///
/// # Panics
/// Panics if the check accepted a datagram that such a reader cannot handle.
pub fn datagram(bytes: &[u8]) {
    if packet::check(bytes).is_err() {
        return;
    }
    let mut at = 12;
    while at < bytes.len() {
        let (kind, length) = (bytes[at], length_at(bytes, at));
        let chunk = &bytes[at..at + length];
        // The lengths of the fixed fields before a list: RFC 9260, 3.3.2, 3.3.3, 3.3.5, 3.3.6, 3.3.7, 3.3.10.
        match kind {
            1 | 2 => walk(chunk, 20),
            4 | 5 | 6 | 9 => walk(chunk, 4),
            _ => {}
        }
        at += length.next_multiple_of(4);
    }
    assert_eq!(at, bytes.len(), "padding is outside the datagram");
}

/// Walks through a list that begins at `at`.
fn walk(chunk: &[u8], mut at: usize) {
    while at < chunk.len() {
        let length = length_at(chunk, at);
        assert!(at + length <= chunk.len(), "a parameter leaves its chunk");
        at += length.next_multiple_of(4);
    }
}

fn length_at(bytes: &[u8], at: usize) -> usize {
    let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
    assert!(length >= 4, "a length that does not advance");
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of a real association, and the packet that made usrsctp 0.9.5 hang.
    const SEEDS: [&[u8]; 2] = [
        include_bytes!("../../../../evaluation/fuzz/seeds/sctp/init"),
        include_bytes!("../../../../evaluation/fuzz/seeds/sctp/init-parameter-without-length"),
    ];

    #[test]
    fn mutated_packets_are_survived() {
        let mut random = fastrand::Rng::with_seed(52);
        for round in 0..200_000 {
            let mut packet = SEEDS[round % 2].to_vec();
            for _ in 0..random.usize(1..8) {
                let at = random.usize(..packet.len());
                packet[at] = random.u8(..);
            }
            packet.truncate(random.usize(packet.len() / 2..=packet.len()));
            datagram(&packet);
        }
    }
}
