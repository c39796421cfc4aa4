//! The bus of this process, on which sessions and races are seen without being told of it.

use std::sync::OnceLock;

use hawser_bus::Bus;

static BUS: OnceLock<Bus> = OnceLock::new();

/// Opens the process's bus, or gives it if it is open. Sessions and races that begin from now on are
/// seen there; before, they cost nothing more.
pub fn open_process_bus() -> Bus {
    BUS.get_or_init(Bus::new).clone()
}

/// The process's bus, if it is open.
#[must_use]
pub fn process_bus() -> Option<Bus> {
    BUS.get().cloned()
}
