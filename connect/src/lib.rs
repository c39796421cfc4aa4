//! Connects to a destination, by the candidate that wins the race.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser_connect::{Racer, Request};
//!
//! let racer = Racer::open().await?;
//! let connected = racer.connect(Request::to("www.example.org:443".parse()?)).await?;
//! println!("{} won after {:?}", connected.candidate, connected.took);
//! # Ok(())
//! # }
//! ```
//!
//! * [`Racer`]: resolver, memory of outcomes, network; one for all requests of a process
//! * [`Request`]: the destination, the transports and the rules
//! * [`Transport`]: given an address, or the destination itself, it offers [`Candidate`]s; [`transports`] has
//!   the implementations
//! * [`Policies`]: choose transports by a policy
//! * [`policy`]: the folders of profiles and policies, and the watch on them
//! * [`Duplex`]: the resulting stream, over any transport
//! * [`Features`]: the declaration of a transport; [`Streams`]: the other streams of a transport connection
//! * [`listener`]: the other end, which accepts streams over several transports
//! * [`RaceReport`]: the start, failure or success of a candidate
//! * `drive`: one race: turns the machine's actions into sockets and timers; `race_candidates`: turns answers
//!   into candidates; `winner`: learns from the stream that won
//!
//! The machine itself is [`hawser_race`]; names are resolved by [`hawser_race::resolve`].
//!
//! Invariants: no attempt and no question outlives its race, with two exceptions. Questions may continue for
//! a second, for the resolver's cache, and probes of blocked candidates may continue up to the attempt's time
//! limit. A race whose caller has gone is cancelled.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod candidate;
mod delegate;
mod destination;
mod drive;
mod error;
mod features;
mod interact;
pub mod knowledge;
pub mod listener;
mod local_constraint;
mod policies;
pub mod policy;
mod policy_request;
mod race_candidates;
mod racer;
mod report;
pub mod taps;
pub mod transports;
mod winner;

pub use candidate::{Attempt, AttemptError, Candidate, Connect, Description, Duplex, Transport};
use delegate::delegate;
pub use destination::{BadDestination, Destination};
pub use error::ConnectError;
pub use features::{About, Features, Opening, SharedStreams, Streams, Tuning};
pub use hawser_race::resolve::ServiceRecord;
pub use hawser_race::{Connectionless, Failure, Family, Handshake, Profile, Security};
pub use policies::{ChosenCandidate, Policies, PolicyChoice, PolicyError};
pub use policy_request::{endpoint, towards};
pub use racer::{Connected, Racer, RacerError, Request};
pub use report::{RaceEvent, RaceReport, ReportCallback};
