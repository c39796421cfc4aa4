//! The bus of this process, on which sessions and races are seen without being handed it.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use hawser_bus::Bus;
use hawser_time::Instant;

static BUS: OnceLock<Bus> = OnceLock::new();

/// Opens the process's bus, or gives it if it is open. Sessions and races that begin from now on are
/// seen there; before, they cost nothing more.
pub fn open_process_bus() -> Bus {
    BUS.get_or_init(|| Bus::with_wall_clock(wall)).clone()
}

/// The time since the beginning of 1970.
pub(super) fn wall() -> Instant {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(Instant::ORIGIN, Instant::after)
}

/// The process's bus, if it is open.
#[must_use]
pub fn process_bus() -> Option<Bus> {
    BUS.get().cloned()
}
