//! Arbitrary bytes as segments, in pieces of any size, and as a script of events from a peer, applications,
//! carriers and the clock to live sessions. No input causes a panic or an endless loop. Stored data stays
//! within the configured limits, and decoded segments survive encoding.
//!
//! The first byte selects one of the two.

use hawser_session_machine::hostile::{converse, decode};

pub(crate) fn fuzz(data: &[u8]) {
    let [what, data @ ..] = data else { return };
    match what % 4 {
        0 => decode(data),
        _ => converse(data),
    }
}
