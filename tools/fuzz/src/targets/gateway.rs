//! Arbitrary bytes as a gateway's greeting and request, and as its rules and clients: nothing panics,
//! nothing is waited for that is there, what was decoded survives encoding, and no rule that is wider
//! than loopback admits it.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_gateway::hostile::messages(data);
}
