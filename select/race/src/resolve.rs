//! Resolves names to addresses and services: the part of Happy Eyeballs that does I/O.
//!
//! [`Resolver::lookup`] asks for IPv4 addresses, IPv6 addresses and services in separate questions. It hands
//! over each [`Answer`] as soon as it arrives (RFC 8305, 3), so that a race can use it. The system's
//! configuration is followed: name servers, search list, `ndots`, `timeout` and `attempts` of `resolv.conf`,
//! and the hosts file. Addresses and the names of this host are answered at once.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser_race::resolve::{Config, Lookup, Resolver};
//!
//! let resolver = Resolver::new(&Config::system()?)?;
//! let mut answers = resolver.lookup(&Lookup::https("www.example.org", 443)?);
//! while let Some(answer) = answers.next().await {
//!     println!("{:?}: {:?}", answer.question, answer.result);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * [`Config`]: the system's configuration, or another one, and the local address of queries
//! * [`HostTarget`]: the meaning of a text: an address, this host, an invalid name, or a name to ask for
//! * [`Services`]: the content of SVCB and HTTPS records (RFC 9460)
//! * [`nat64`]: addresses of the other family, reached through NAT64
//! * [`ResolveError`]: the errors, with the race's classes
//!
//! Invariants: dropping [`Answers`] cancels its questions. A lookup gives each question one answer. The size
//! of an answer is bounded: [`MAX_ADDRESSES`], [`MAX_SERVICES`].

#![warn(missing_docs)]
#![forbid(unsafe_code)]
// Questions go to the system's resolvers: this module is not part of the machine.
#![allow(clippy::disallowed_methods)]

mod config;
mod error;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod nat64;
mod resolver;
mod service;
mod target;

pub use crate::Question;
pub use config::{Config, ConfigError, Stamp};
pub use error::ResolveError;
pub use resolver::{Answer, Answers, Lookup, MAX_ADDRESSES, ResolvedRecords, Resolver};
pub use service::{MAX_SERVICES, ServiceRecord, Services};
pub use target::{BadName, HostTarget};
