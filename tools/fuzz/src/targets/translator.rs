//! Arbitrary bytes as frames that cross the lab's filter and translator, in both directions, and
//! as questions to its resolver: nothing panics, no frame changes its length, no answer is longer
//! than a datagram.
//!
//! The first byte says what the rest is.

use hawser_lab::hostile::Target;

pub(crate) fn fuzz(data: &[u8]) {
    let [what, data @ ..] = data else { return };
    let mut target = Target::new();
    // Twice, so that the second frame may meet a mapping of the first.
    for _ in 0..2 {
        match what % 3 {
            0 => target.outward(data),
            1 => target.inward(data),
            _ => target.question(data),
        }
    }
}
