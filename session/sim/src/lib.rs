//! A session under virtual time, over real TCP.
//!
//! Two hosts on the event core of `hawser-sim`: a stack that runs the program `tcp` as machine code, the
//! session's machine or its acceptor, and applications. A carrier is a connection of the program; what TLS
//! adds goes over it as bytes. So packets, segments and what happens to links have one clock and one trace,
//! everything repeats from its seed, and a run can be captured ([`World::capture`]). Carriers over QUIC and the
//! kernel's TCP are connections of the same program, with their handshakes.
//!
//! * [`World`]: the two hosts and what happens when; `carrier`: one end of a carrier
//! * `node`: a host; `node/connections`: its connections; `node/race`: a race for the first of them
//! * [`Link`]: a path between them, and [`Fault`] what can happen to it
//! * [`Transfer`]: what the applications do

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod carrier;
mod clock;
mod config;
mod link;
mod node;
mod report;
mod segment;
mod side;
mod transfer;
mod world;

pub use config::WorldConfig;
pub use link::{Fault, Link};
pub use report::{Cut, Report};
pub use side::Side;
pub use transfer::Transfer;
pub use world::World;
