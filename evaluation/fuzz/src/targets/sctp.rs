//! Arbitrary bytes as a datagram that carries SCTP. If the check accepts it, a reader can step through it
//! from one length to the next.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_carriers::sctp::hostile::datagram(data);
}
