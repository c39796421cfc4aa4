//! Without the feature `faults`, devices have no fault layer.

use crate::device::Device;

/// Faults in front of a device; they do not exist without the feature `faults`.
#[derive(Clone, Debug)]
pub enum Faults {}

impl Faults {
    /// Returns the device behind the faults.
    pub(crate) fn before(&self, _: impl Device + 'static) -> Box<dyn Device> {
        match *self {}
    }
}
