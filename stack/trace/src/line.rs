//! Lines of JSON.

use serde::Serialize;

/// Appends something as JSON on a line. Half of the time of a long trace goes into this, so it is done here, where it is
/// compiled to be fast.
pub(crate) fn json(shown: &impl Serialize, to: &mut Vec<u8>) {
    serde_json::to_writer(&mut *to, shown).expect("names are text, and memory takes all");
    to.push(b'\n');
}
