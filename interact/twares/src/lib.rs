//! T-wares: congestion controllers that steer a transport by its events.
//!
//! A controller is a machine of whole numbers: it takes an event of one connection and decides which window
//! the connection is to have. Where it runs does not matter to it: in the loop of our own TCP, in
//! another process, beside Linux's TCP. What the events and their fields are called is what the
//! providers call them.
//!
//! * [`Controller`]: the events of a connection, and what follows of them
//! * [`Fast`]: FAST TCP as six T-wares (Khan, Punnam, Zaghal: Table 2)
//! * [`Reno`]: the controller that the paper compares it with
//! * [`Steer`]: a controller as a T-ware on the bus
//! * [`RateController`]: the rate of a live encoder whose connection signals how it fares; [`Adapt`]: it as a
//!   T-ware, which turns a [`Dial`]
//!
//! Invariants: no clock, no rng, no floating point, no allocation; no input panics or overflows. A
//! window is never below one segment nor above [`MAX_WINDOW`], and one acknowledgement never
//! more than doubles it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arithmetic;
mod controller;
mod fast;
mod reno;
mod steer;
mod video;

pub use controller::{Acked, Controller, Decision, MAX_WINDOW};
pub use fast::{Fast, FastParams};
pub use reno::Reno;
pub use steer::{Mode, NamedController, Steer, SteerOptions};
pub use video::{Adapt, Dial, Progress, RateController, RateParams};
