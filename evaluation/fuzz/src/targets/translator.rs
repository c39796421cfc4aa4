//! Arbitrary bytes as frames that cross the lab's filter and translator, in both directions, and as questions
//! to its resolver. No input causes a panic, no frame changes its length, and no answer is longer than a
//! datagram.
//!
//! The first byte selects one of them.

use hawser_lab::hostile::Target;

pub(crate) fn fuzz(data: &[u8]) {
    let [what, data @ ..] = data else { return };
    let mut target = Target::new();
    // Each frame passes twice, so that the second may match a mapping of the first.
    for _ in 0..2 {
        match what % 3 {
            0 => target.outward(data),
            1 => target.inward(data),
            _ => target.question(data),
        }
    }
}
