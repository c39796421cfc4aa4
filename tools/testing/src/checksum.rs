//! The Internet checksum, computed by an external crate, as the expected value in tests.

use etherparse::checksum::Sum16BitWords;

/// Returns the Internet checksum (RFC 1071) of the bytes of all pieces, by etherparse, in the form that a
/// header has.
///
/// It is zero if the bytes include their own checksum. The result is the complement (`map(|byte| !byte)`) of
/// a sum that is not complemented yet, such as that of a pseudo-header in a field to be completed.
#[must_use]
pub fn internet_checksum(pieces: &[&[u8]]) -> [u8; 2] {
    Sum16BitWords::new()
        .add_slice(&pieces.concat())
        .ones_complement()
        .to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_their_published_checksums() {
        // RFC 1071, 3: the sum is ddf2, independent of where the bytes are split.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        for at in 0..=bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(internet_checksum(&[a, b]).map(|byte| !byte), [0xdd, 0xf2]);
        }
        // An odd last byte counts as if a zero followed (RFC 1071, 4.1).
        assert_eq!(internet_checksum(&[&[0x12]]), [!0x12, 0xff]);
        // Carries exceed any word: 64 KB of ones are their own sum.
        assert_eq!(internet_checksum(&[&vec![0xff; 65_536]]), [0, 0]);
    }
}
