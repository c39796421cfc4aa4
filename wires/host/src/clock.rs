//! The engine's time: CLOCK_MONOTONIC.

use hawser_time::Instant;

use crate::sys;

/// The host's monotonic clock. All copies agree, also across processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Returns the time since the host was started.
    #[must_use]
    pub fn now(self) -> Instant {
        sys::monotonic()
    }
}
