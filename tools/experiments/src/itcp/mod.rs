//! The experiments of the paper on interactive TCP (seed 004) on laws of congestion control, and on what it
//! costs to be told.

mod emulated;
mod figures;
mod filtered;
mod filters;
mod overhead;
#[cfg(test)]
mod recorded;
mod run;
mod simulated;
mod steering;
mod usage;

pub(crate) use emulated::fast_lab;
pub(crate) use filters::filters;
pub(crate) use overhead::overhead;
pub(crate) use simulated::fast;
