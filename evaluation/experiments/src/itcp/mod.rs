//! The experiments of the paper on interactive TCP (Khan, Punnam and Zaghal, *Event based Extensible
//! Interactive Transparent Networking: Performance Study with Fast TCP Principles*). They measure congestion
//! controllers, and the cost of notifications.

mod emulated;
mod figures;
mod filtered;
mod filters;
mod overhead;
mod run;
mod simulated;
mod steering;
mod usage;

pub(crate) use emulated::fast_lab;
pub(crate) use filters::filters;
pub(crate) use overhead::overhead;
pub(crate) use simulated::fast;
