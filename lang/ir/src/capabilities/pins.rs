//! The reasons why a program runs only in one shard.

use crate::{Module, Shards};

use crate::capabilities::reason::{Reason, Reasons};

/// Returns the reasons why a program cannot run in several stacks side by side, each once; empty if it can.
#[must_use]
pub fn pins(module: &Module) -> Vec<Reason> {
    let mut reasons = Reasons::default();
    for pin in Shards::from_module(module).pins {
        reasons.add(pin.text, pin.span);
    }
    reasons.into_vec()
}
