//! Targets that this build lacks.

use hawser_engine::program::Program;

use super::WireEnd;
use crate::script::run::RunTarget;
use crate::script::run::config::Config;
use crate::script::run::real::DeviceError;

/// Returns the error of a target that is missing, or that has no cable.
pub(super) fn open(target: RunTarget, _: &Config, _: &dyn Program) -> Result<Box<dyn WireEnd>, DeviceError> {
    let why = target.missing().unwrap_or("this target has no cable");
    Err(DeviceError::Absent(why))
}
