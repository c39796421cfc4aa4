//! Ranks the transports that serve a request: NEAT's policy manager as a pure function of request, PIB, CIB
//! and time.
//!
//! The Policy Information Base holds *profiles*, which define the meaning of an abstract property, and
//! *policies*, which set the requirements and preferences for a candidate. The Characteristics Information
//! Base holds knowledge about interfaces, peers and networks, as a graph of *nodes* that makes *rows*.
//! [`rank`] takes a request through profiles, rows and policies, and returns the best candidates first.
//!
//! * [`Value`], [`Property`], [`Properties`]: the common data types, and their merging
//! * [`NameTable`]: names of properties, interned as [`Key`]s
//! * [`Policy`], [`Pib`]; [`Node`], [`Cib`], [`Rows`]; [`Request`]
//! * [`rank`], [`Ranking`]: the ranking, on request with a trail of the changes to each candidate
//! * [`Manager`]: all of it in one place, with a cache of rankings that are still valid
//! * [`document`]: NEAT's JSON, and the same as TOML
//! * [`property_names`]: names of properties that come with Hawser, and properties of facts
//! * [`builtin`]: profiles for the transports that Hawser has
//!
//! Source: NEAT (*NEAT: A Platform- and Protocol-Independent Internet Transport API*, 2017) and its policy
//! manager. `docs/policy.md` lists the departures from it. The crate performs no I/O and reads no clock. All
//! sizes have a limit ([`limits`]); at the limit, there is an error that names it.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod builtin;
mod cib;
pub mod document;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
pub mod limits;
mod manager;
mod names;
mod pib;
mod properties;
mod property;
pub mod property_names;
mod rank;
mod request;
mod socket;
mod value;

pub use cib::{Cib, Expiry, LIFETIME, Node, Row, Rows};
pub use limits::Limit;
pub use manager::Manager;
pub use names::{Key, NameTable, keys};
pub use pib::{Pib, Policy, PolicyStage};
pub use properties::{Conflict, Properties, Score};
pub use property::{Merge, Precedence, Property};
pub use rank::{
    Candidate, ChangeSource, Effect, Options, PropertyChange, Ranking, Rejection, RejectionReason, Step, rank,
};
pub use request::Request;
pub use socket::name as socket_option;
pub use value::{Scalar, Value};
