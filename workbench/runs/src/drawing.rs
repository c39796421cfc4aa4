//! The data for drawing a simulated run: each packet with its fate and the line that sent it, and values over
//! time. The values are fields of contexts, timers and queues.
//!
//! * [`Picture`]: the result, bounded whatever the length of the run
//! * [`Collector`]: observes the stacks and the links of a run
//! * `windows`: right edges of windows among the numbers of packets; `signals`: the signals of programs
//! * `series`: points over time, thinned so that extremes remain
//!
//! Invariants: omitted data is counted; the crate does no I/O.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod collect;
mod page;
mod picture;
mod series;
mod signals;
mod tables;
mod windows;

pub use collect::{Collector, DrawingLimits, pairs};
pub use picture::{
    DrawnFlow, DrawnQueue, Field, LeftOut, Packet, Picture, Signal, SignalField, SignalType, Timer, Window,
};
pub use series::Series;
pub use tables::slowdown_table;
