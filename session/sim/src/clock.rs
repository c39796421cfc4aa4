//! The one clock of a world: of its event core, its stacks, its sessions and its races.

use std::time::Duration;

use hawser_time::Instant;

/// What it shows at the start. Not 0, so that a program may take 0 for "never".
pub(crate) const START: Instant = Instant::after(Duration::from_secs(1));
