//! A session under virtual time, over real TCP.
//!
//! Two hosts run on the event core of `hawser-sim`. Each has a stack that runs the program `tcp` as machine
//! code, the session's machine or its acceptor, and applications. A carrier is a connection of the program,
//! and the additions of TLS go over it as bytes. Packets, segments and link faults therefore share one clock
//! and one trace. Every run repeats from its seed and can be captured ([`SessionWorld::capture`]). Carriers
//! over QUIC and the kernel's TCP are connections of the same program, with their own handshakes.
//!
//! * [`SessionWorld`]: the two hosts and the events of a run; `carrier`: one end of a carrier
//! * `node`: a host; `node/connections`: its connections; `node/race`: a race for the first of them
//! * [`SimLink`]: a path between them; [`Fault`]: a fault of a link
//! * [`Transfer`]: the data that the applications send

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
pub use link::{Fault, SimLink};
pub use report::{LinkCut, SimReport};
pub use side::Side;
pub use transfer::Transfer;
pub use world::SessionWorld;
