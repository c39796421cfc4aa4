//! Emulated networks on one machine, without root.
//!
//! A [`Spec`], parsed from TOML or built in code, describes the hosts and the links between them. [`Lab::up`]
//! builds it from namespaces and virtual cables. Commands and closures run in its hosts, and its links change
//! by a timeline or by hand.
//!
//! ```no_run
//! use hawser_lab::{Direction, Lab, Spec, enter_user_namespace};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! enter_user_namespace()?; // before any thread is started; root can do without
//! let spec = Spec::parse(r#"
//!     host = [{ name = "client" }, { name = "server" }]
//!     [[link]]
//!     name = "wifi"
//!     between = ["client", "server"]
//!     both = { rate = "20Mbit/s", delay = "15ms", loss = "1%" }
//! "#)?;
//! let lab = Lab::up(&spec)?;
//! let server = lab.host("server")?;
//! let listener = server.run(|| std::net::TcpListener::bind("0.0.0.0:80"))??;
//! lab.host("client")?.command("curl")?.arg("http://server/").spawn()?;
//! lab.link("wifi")?.silence(true)?; // nothing gets through, and nobody is notified
//! let lost = lab.link("wifi")?.statistics(Direction::Forward)?.lost;
//! # Ok(())
//! # }
//! ```
//!
//! * [`spec`]: lab files
//! * `parse`: parsing and checking of lab files
//! * `plan`: the addresses, the routes, and the carrier of each link, computed from a file
//! * `network`: namespaces, cables, addresses, routes, shapers
//! * `forward`: the thread that carries the frames of cells
//! * `shaper`: links that the kernel carries without the thread
//! * `link_state`: the present state of links, and listeners to its changes
//! * `statistics`: counters of a link, with the time; `reports`: the same of all links
//! * `names`: the hosts' view of names: their files, and a resolver
//! * `rules`: the lab's own rules for frames, in addition to the simulator's
//! * [`run`]: commands in hosts, with the timeline beside them; `process_tree`: the process tree that ends
//!   with them
//! * [`self_test`]: measurements of links against their configuration
//! * [`timeline`]: changes over time
//!
//! Invariants: no part of a lab has a name outside the process, so it leaves no traces; `unsafe` is confined
//! to `sys`.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod forward;
mod host;
#[cfg(any(test, feature = "hostile"))]
pub mod hostile;
mod lab;
mod link;
mod link_state;
mod mounts;
mod names;
mod network;
mod parse;
mod plan;
mod process_tree;
pub mod provider;
mod reports;
mod rules;
pub mod run;
pub mod self_test;
mod shaper;
pub mod spec;
mod statistics;
#[allow(unsafe_code)] // System calls.
mod sys;
pub mod timeline;

pub use error::{LabError, ViewError};
pub use hawser_host::netns::enter_user_namespace;
pub use hawser_sim::scenario::units;
pub use host::{Host, HostHandle};
pub use lab::Lab;
pub use link::{Direction, Link};
pub use link_state::{LinkChange, LinkEvent};
pub use mounts::isolate;
pub use process_tree::contain;
pub use rules::trace::TraceError;
pub use spec::{ReadError, Rules, Spec, SpecError};
pub use statistics::{LOSSES, LinkReport, Statistics};
