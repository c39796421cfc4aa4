//! Without the feature `faults` nothing stands in front of a device.

use crate::device::Device;

/// Faults in front of a device: there are none without the feature `faults`.
#[derive(Clone, Debug)]
pub enum Faults {}

impl Faults {
    /// The device behind them.
    pub(crate) fn before(&self, _: impl Device + 'static) -> Box<dyn Device> {
        match *self {}
    }
}
