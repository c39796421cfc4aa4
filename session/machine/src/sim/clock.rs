//! The single clock of a world: of its event core, stacks, sessions and races.

use std::time::Duration;

use hawser_time::Instant;

/// The time at the start. It is not 0, so that a program may use 0 for "never".
pub(crate) const START: Instant = Instant::after(Duration::from_secs(1));
