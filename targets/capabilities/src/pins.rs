//! Why a program runs in one shard alone.

use hawser_ir::{Module, Shards};

use crate::reason::{Reason, Reasons};

/// What keeps a program from being run in several stacks beside each other, each reason once; nothing: it can be.
#[must_use]
pub fn pins(module: &Module) -> Vec<Reason> {
    let mut reasons = Reasons::default();
    for pin in Shards::of(module).pins {
        reasons.add(pin.text, pin.span);
    }
    reasons.into_vec()
}
