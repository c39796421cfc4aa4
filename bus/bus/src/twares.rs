//! T-wares: congestion controllers that steer a transport by its events.
//!
//! A controller is a machine of integers: it takes an event of one connection and decides the window of the
//! connection. It does not depend on its place: it may run in the loop of our own TCP, in another process, or
//! beside Linux's TCP. The names of events and fields are those of the providers.
//!
//! * [`Controller`]: the events of a connection, and the resulting decisions
//! * [`Fast`]: FAST TCP as six T-wares (Khan, Punnam, Zaghal: Table 2)
//! * [`Reno`]: the controller with which the paper compares it
//! * [`Steer`]: a controller as a T-ware on the bus
//! * [`RateController`]: the rate of a live encoder, controlled by the signals of its connection; [`Adapt`]:
//!   the same as a T-ware, which turns a [`Dial`]
//!
//! Invariants: no clock, no rng, no floating point, no allocation; no input panics or overflows. A window is
//! never below one segment nor above [`MAX_WINDOW`], and one acknowledgement at most doubles it.
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
pub use video::{Adapt, Dial, RateController, RateParams, TransportProgress};
