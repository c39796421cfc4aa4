//! The experiments of the paper on interactive TCP (seed 004) that compare laws of congestion control.

mod emulated;
mod figures;
mod run;
mod simulated;

pub(crate) use emulated::fast_lab;
pub(crate) use simulated::fast;
