//! A session under virtual time.
//!
//! Two [`Session`](hawser_session::Session)s, a door, and between them carriers whose links have a
//! rate, a delay and a queue, and can be slowed, silenced, cut and mended at any moment. A carrier
//! is a model of a reliable transport: slow start and halving on a full queue, acknowledgements
//! that count, retransmission with doubling timeouts after silence. Everything is exact in
//! nanoseconds and repeats from its seed.
//!
//! * [`World`]: the two hosts, the clock and what happens when
//! * [`Link`]: a way between them, and [`Fault`] what can befall it
//! * `pipe`: one direction of a carrier

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod dice;
mod link;
mod pipe;
mod world;

pub use dice::Dice;
pub use link::{Fault, Link};
pub use world::{Cut, Report, Side, Transfer, World, WorldConfig};
