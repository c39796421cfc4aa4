//! Names to addresses and services: the half of happy eyeballs that does I/O.
//!
//! [`Resolver::lookup`] asks for IPv4 addresses, IPv6 addresses and services each by a question of
//! its own, and hands over each [`Answer`] when it comes (RFC 8305, 3), for a race to be notified. What
//! the system configures is honoured: name servers, search list, `ndots`, `timeout` and `attempts` of
//! `resolv.conf`, and the hosts file. Addresses and the names of this host are answered at once.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser_resolve::{Config, Lookup, Resolver};
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
//! * [`Config`]: what the system configures, or somebody else; from which address it is asked
//! * [`Target`]: what a text names: an address, this host, nothing, or a name to ask for
//! * [`Services`]: what SVCB and HTTPS records (RFC 9460) contain
//! * [`nat64`]: how addresses of the other family are reached through a translator
//! * [`ResolveError`]: what went wrong, in the race's classes
//!
//! Invariants: dropping [`Answers`] cancels its questions. A lookup gives each question one answer.
//! What one answer may hold is bounded: [`MAX_ADDRESSES`], [`MAX_SERVICES`].

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod config;
mod error;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod nat64;
mod resolver;
mod service;
mod target;

pub use config::{Config, ConfigError, Stamp};
pub use error::ResolveError;
pub use hawser_race::Question;
pub use resolver::{Answer, Answers, Lookup, MAX_ADDRESSES, Records, Resolver};
pub use service::{MAX_SERVICES, Service, Services};
pub use target::{BadName, Target};
