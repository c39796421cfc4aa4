//! Ends that this build lacks.

use hawser_engine::program::Program;

use super::End;
use crate::run::Target;
use crate::run::config::Config;
use crate::run::real::DeviceError;

/// The error of a target that is missing; one has no cable, otherwise.
pub(super) fn open(target: Target, _: &Config, _: &dyn Program) -> Result<Box<dyn End>, DeviceError> {
    let why = target.missing().unwrap_or("this target has no cable");
    Err(DeviceError::Absent(why))
}
