//! Knowledge of networks, paths and peers, from all available sources: the CIB of a running process.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hawser_bus::Bus;
//! use hawser_connect::knowledge::{Knowledge, Settings};
//! use hawser_connect::transports::Transports;
//! use hawser_connect::{Destination, Policies, Racer, Request};
//!
//! let knowledge = Knowledge::open(Settings {
//!     store: Some("/var/lib/hawser/knowledge".into()),
//!     bus: Some(Bus::new()),
//!     options: Policies::options(),
//!     ..Settings::default()
//! })
//! .await?;
//! let racer = Racer::open().await?;
//! knowledge.remember(&racer);
//! let policies = Policies::new(knowledge.manager(), "low_latency", Transports::new())?;
//!
//! // For each connection:
//! let destination: Destination = "www.example.org:443".parse()?;
//! let chosen = policies.choose(&destination)?;
//! let watcher = Some(knowledge.watcher_to(&destination));
//! let request = Request { transports: chosen.transports, watcher, ..Request::to(destination) };
//! let connected = racer.connect(request).await?;
//! # Ok(())
//! # }
//! ```
//!
//! * [`Knowledge`]: the handle: ranks, and runs the sources
//! * sources: operators' files ([`crate::policy::PolicyWatcher`]), `interfaces`, `races`, `sessions`, and
//!   clients of the bus (`documents`)
//! * `base`: joins the sources: the policy manager, and the origin of each node
//! * `store`: the part that is kept across restarts
//! * [`KnowledgeEvent`]: changes of the nodes, and faults
//!
//! Invariants: a connection attempt never waits for a file, the disk or a controller. Each source has a limit
//! of nodes of its own, so that it cannot displace another. `docs/knowledge.md` has the rest.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod base;
mod documents;
mod event;
mod handle;
mod interfaces;
mod races;
mod sessions;
mod store;

pub use event::{KnowledgeEvent, KnownNode, NodeOrigin, Trouble};
pub use handle::{Knowledge, KnowledgeError, KnowledgeEvents, Settings};
pub use store::StoreError;
