//! The bytes of one direction of a flow: the data to send, and the check of the data that arrives.
//!
//! Both ends make the same bytes from the same seed, so the receiver knows every byte in advance. Any lost,
//! repeated, reordered or altered byte shows at its offset. Independently, both ends keep a SHA-256 of the
//! bytes that they handed over and received.

use sha2::{Digest, Sha256};

use crate::rng::Rng;

/// The number of bytes that are made at a time.
const CHUNK: usize = 16 * 1024;

/// Makes the bytes of a direction, in order.
struct ByteSource {
    rng: Rng,
    chunk: Vec<u8>,
    used: usize,
}

impl ByteSource {
    fn new(seed: u64, label: &str) -> ByteSource {
        ByteSource { rng: Rng::new(seed, label), chunk: vec![0; CHUNK], used: CHUNK }
    }

    /// Returns the next bytes: at least one, at most a chunk.
    fn peek(&mut self) -> &[u8] {
        if self.used == self.chunk.len() {
            self.rng.fill(&mut self.chunk);
            self.used = 0;
        }
        &self.chunk[self.used..]
    }

    fn consume(&mut self, n: usize) {
        self.used += n;
    }
}

/// The bytes that one end sends.
pub(crate) struct OutgoingBytes {
    source: ByteSource,
    hash: Sha256,
    sent: u64,
}

impl OutgoingBytes {
    /// Creates the bytes for this label.
    pub(crate) fn new(seed: u64, label: &str) -> OutgoingBytes {
        OutgoingBytes { source: ByteSource::new(seed, label), hash: Sha256::new(), sent: 0 }
    }

    /// Returns the number of bytes handed over.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Hands bytes over until `total` have been sent or `send` accepts no more.
    pub(crate) fn push<E>(
        &mut self,
        total: u64,
        mut send: impl FnMut(&[u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        while self.sent < total {
            let bytes = self.source.peek();
            let room = usize::try_from(total - self.sent).unwrap_or(usize::MAX);
            let bytes = &bytes[..bytes.len().min(room)];
            let taken = send(bytes)?.min(bytes.len());
            if taken == 0 {
                break;
            }
            self.hash.update(&bytes[..taken]);
            self.source.consume(taken);
            self.sent += taken as u64;
        }
        Ok(())
    }

    /// Returns the SHA-256 of the bytes handed over, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hexadecimal(&self.hash)
    }
}

/// The bytes that one end receives.
pub(crate) struct IncomingBytes {
    source: ByteSource,
    hash: Sha256,
    received: u64,
    wrong_at: Option<u64>,
}

impl IncomingBytes {
    /// Creates the expected bytes for this label.
    pub(crate) fn new(seed: u64, label: &str) -> IncomingBytes {
        IncomingBytes {
            source: ByteSource::new(seed, label),
            hash: Sha256::new(),
            received: 0,
            wrong_at: None,
        }
    }

    /// Returns the number of bytes received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the offset of the first byte that differs from the byte sent.
    pub(crate) fn wrong_at(&self) -> Option<u64> {
        self.wrong_at
    }

    /// Checks the next bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        self.hash.update(bytes);
        while !bytes.is_empty() {
            let expected = self.source.peek();
            let n = bytes.len().min(expected.len());
            if self.wrong_at.is_none() && bytes[..n] != expected[..n] {
                let differs = bytes.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
                self.wrong_at = Some(self.received + differs as u64);
            }
            self.source.consume(n);
            self.received += n as u64;
            bytes = &bytes[n..];
        }
    }

    /// Returns the SHA-256 of the bytes received, in hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        hexadecimal(&self.hash)
    }
}

/// Formats a digest in hexadecimal.
pub(super) fn hexadecimal(hash: &Sha256) -> String {
    hash.clone()
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(total: u64, piece: usize) -> (Vec<u8>, OutgoingBytes) {
        let mut bytes = Vec::new();
        let mut outgoing = OutgoingBytes::new(1, "x");
        outgoing
            .push(total, |b| {
                let n = b.len().min(piece);
                bytes.extend_from_slice(&b[..n]);
                Ok::<usize, ()>(n)
            })
            .expect("nothing fails here");
        (bytes, outgoing)
    }

    #[test]
    fn a_stream_is_verified_for_any_split() {
        for (send_piece, receive_piece) in [(1, 70_000), (1000, 999), (70_000, 1)] {
            let (bytes, outgoing) = sent(70_001, send_piece);
            let mut incoming = IncomingBytes::new(1, "x");
            bytes.chunks(receive_piece).for_each(|chunk| incoming.take(chunk));
            assert_eq!((incoming.received(), incoming.wrong_at()), (70_001, None));
            assert_eq!(incoming.sha256(), outgoing.sha256());
        }
    }

    #[test]
    fn a_fault_is_reported_at_its_offset() {
        let (bytes, _) = sent(50_000, 4096);
        let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            let mut incoming = IncomingBytes::new(1, "x");
            bytes.chunks(777).for_each(|chunk| incoming.take(chunk));
            incoming.wrong_at()
        };
        assert_eq!(wrong(&|b| b[40_000] ^= 1), Some(40_000));
        assert!(
            wrong(&|b| drop(b.drain(1000..1400))).is_some_and(|at| (1000..1010).contains(&at)),
            "lost"
        );
        let repeat = |b: &mut Vec<u8>| b.splice(1400..1400, bytes[..1400].iter().copied()).for_each(drop);
        assert!(
            wrong(&repeat).is_some_and(|at| (1400..1410).contains(&at)),
            "repeated"
        );
        assert_eq!(wrong(&|_| ()), None);
    }

    #[test]
    fn the_digest_of_an_empty_stream_is_the_published_one() {
        // FIPS 180-4: the SHA-256 of the empty message.
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(OutgoingBytes::new(1, "x").sha256(), empty);
    }
}
