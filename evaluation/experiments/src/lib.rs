//! Transfers over emulated networks, which measure sessions there.
//!
//! * [`Testbed`]: a lab with a client and a server, each with a runtime whose threads live in its host
//! * [`Transfer`]: bytes from one to the other, by a session or by a bare carrier
//! * [`EXPERIMENTS`]: the papers' measurements, each with configuration, figures and drawings
//! * [`Report`]: the duration of a transfer, the bytes over each path over time, and the pauses
//!
//! A process has to enter a user namespace before it starts a thread ([`hawser::lab::enter_user_namespace`]),
//! or be root.

#![forbid(unsafe_code)]

mod bare;
mod content;
mod experiment;
mod fabric;
mod itcp;
mod list;
mod mtp;
mod multi;
mod neat;
mod report;
mod run_folder;
mod testbed;
mod transfer;
mod video;

use hawser::interact::svg::plot;

pub use bare::Bare;
pub use experiment::{Context, Experiment, Outcome};
pub use list::EXPERIMENTS;
pub use report::{Moment, Pause, Report};
pub use run_folder::{result, write};
pub use testbed::Testbed;
pub use transfer::{Act, Direction, Opened, Transfer, opening};

/// Runs one end of an experiment if this process was started as one, and returns its result; otherwise
/// returns `None`.
///
/// # Errors
/// The end failed.
pub fn serve() -> Option<Result<(), Error>> {
    neat::serve().or_else(mtp::serve)
}

/// The error of a transfer or an experiment.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
