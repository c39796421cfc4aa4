//! Happy eyeballs over transport × address family × interface: the staggered race of candidates for one
//! connection, and a cache of its outcomes. No I/O, no clock, no random numbers.
//!
//! ```text
//!   names ── Found, Missing ─────────┐              ┌── Start, Cancel, Probe ─► attempts
//!                                    ▼              │
//!   attempts ── Connected, ───────► Race ── Action ─┼── Wake ─► timer
//!               Established, Failed  ▲              ├── Won, AllFailed ─► who asked
//!   timer, network, who asked ───────┘              └── Record ─► Cache
//! ```
//!
//! ```
//! use std::time::Duration;
//! use hawser_race::{Action, Candidate, CandidateId, Event, Family, Profile, Questions, Race, Request};
//! use hawser_time::Instant;
//!
//! let at = |ms| Instant::after(Duration::from_millis(ms));
//! let mut ipv6 = Candidate::new(CandidateId(0), "tcp", "[2001:db8::1]:443");
//! let mut ipv4 = Candidate::new(CandidateId(1), "tcp", "192.0.2.1:443");
//! (ipv6.family, ipv4.family, ipv4.rank) = (Family::Ipv6, Family::Ipv4, 1);
//! let mut race = Race::new(Profile::RFC8305, Request::default(), Questions::default(), at(0));
//! let found = Event::Found { question: None, candidates: vec![ipv6, ipv4] };
//! assert_eq!(race.on(found, at(0)), [Action::Start(CandidateId(0)), Action::Wake(at(250))]);
//! assert_eq!(race.on(Event::Wake, at(250))[0], Action::Start(CandidateId(1))); // IPv6 has not answered
//! assert_eq!(race.on(Event::Connected(CandidateId(1)), at(270))[0], Action::Won(CandidateId(1)));
//! ```
//!
//! * [`Race`]: the machine; [`Request`]: the caller's requirements; [`Event`], [`Action`]: its messages
//! * [`Candidate`]: a path candidate; the race knows no transport
//! * [`Profile`]: the rules, as data: [`Profile::NEAT`], [`Profile::NEAT_ORIGINAL`], [`Profile::RFC8305`],
//!   [`Profile::VERSION3`]
//! * [`Cache`]: outcomes per network, remote, transport and interface, with a lifetime
//! * [`rfc6724`]: the order of destination addresses
//!
//! Sources: NEAT (Weinrank et al., A NEAT Way to Browse the Web, Algorithm 1), RFC 8305, and the draft of
//! version 3 (draft-ietf-happy-happyeyeballs). Each of [`Profile`]'s constants lists its deliberate
//! departures from them.
//!
//! Invariants: at most one candidate wins. When the race is over, every started attempt has won, failed or
//! been cancelled. A race is over by its deadline. No candidate with less security than requested is started.
//! Memory is bounded by [`Race::MAX_CANDIDATES`] and [`CacheLimits`].

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod cache;
mod candidate;
mod failure;
mod order;
mod profile;
mod race;
pub mod resolve;
pub mod rfc6724;

pub use cache::{AttemptOutcome, Cache, CacheKey, CacheLimits, Snapshot};
pub use candidate::{Candidate, CandidateId, Family, Handshake, Knowledge, Security, ServiceParameters};
pub use failure::Failure;
pub use profile::{Awaited, CandidateOrder, HeadStart, Interleave, Profile, ProfileError, Spacing, Success};
pub use race::{Action, Connectionless, Defeat, Event, FailureReason, Question, Questions, Race, Request};
