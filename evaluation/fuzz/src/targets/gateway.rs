//! Arbitrary bytes as a gateway's greeting and request, and as its rules and clients. No input causes a
//! panic, and the parser does not wait for bytes that it already has. Decoded messages survive encoding, and
//! no rule that is wider than loopback admits loopback.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_gateway::hostile::messages(data);
}
