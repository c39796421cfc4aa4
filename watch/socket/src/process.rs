//! The bus of this process, which shows sessions and races that were not given a bus.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use hawser_bus::Bus;
use hawser_time::Instant;

static BUS: OnceLock<Bus> = OnceLock::new();

/// Opens the process's bus, or returns it if it is open. Sessions and races that begin from now on use it; as
/// long as it is closed, it costs them no work.
pub fn open_process_bus() -> Bus {
    BUS.get_or_init(|| Bus::with_wall_clock(wall)).clone()
}

/// Returns the time since the Unix epoch.
pub(super) fn wall() -> Instant {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(Instant::ORIGIN, Instant::after)
}

/// Returns the process's bus, if it is open.
#[must_use]
pub fn process_bus() -> Option<Bus> {
    BUS.get().cloned()
}
