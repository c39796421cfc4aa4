//! What a simulated run is drawn from: each packet with what became of it and the line that sent it, fields of
//! contexts, timers and queues over time.
//!
//! * [`Picture`]: the result, bounded whatever the length of the run
//! * [`Collector`]: observes the stacks and the links of a run
//! * `windows`: right edges of windows among the numbers of packets; `signals`: what programs signal
//! * `series`: points over time, thinned so that extremes stay
//!
//! Invariants: what is left out is counted; nothing here does I/O.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod collect;
mod picture;
mod series;
mod signals;
mod windows;

pub use collect::{Collector, Limits, pairs};
pub use picture::{
    Field, Flow, LeftOut, Packet, Picture, Queue, Signal, SignalField, SignalType, Timer, Window,
};
pub use series::Series;
