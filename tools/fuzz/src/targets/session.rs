//! Arbitrary bytes as segments, in pieces of any size, and as a script of what a peer, applications,
//! carriers and the clock do to live sessions: nothing panics, nothing runs in circles, what is kept
//! stays within what was configured, and what was decoded survives encoding.
//!
//! The first byte says what the rest is.

use hawser_session::hostile::{converse, decode};

pub(crate) fn fuzz(data: &[u8]) {
    let [what, data @ ..] = data else { return };
    match what % 4 {
        0 => decode(data),
        _ => converse(data),
    }
}
