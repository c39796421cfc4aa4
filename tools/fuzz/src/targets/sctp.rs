//! Arbitrary bytes as a datagram that carries SCTP: what the check accepts, a reader that goes from length
//! to length survives.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_carrier_sctp::hostile::datagram(data);
}
