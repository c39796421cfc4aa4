//! Time for the engine: nanoseconds of CLOCK_MONOTONIC.

use hawser_engine::wire::Nanos;

use crate::sys;

/// The host's monotonic clock. All copies agree, also across processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Nanoseconds since the host was started.
    #[must_use]
    pub fn now(self) -> Nanos {
        sys::monotonic_nanos()
    }
}
