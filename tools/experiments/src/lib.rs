//! Transfers over emulated networks: what sessions do there, measured.
//!
//! * [`Stage`]: a lab with a client and a server, each with a runtime whose threads live in its host
//! * [`Transfer`]: bytes from one to the other, by a session or by a bare carrier
//! * [`EXPERIMENTS`]: the papers' measurements, each with configuration, figures and drawings
//! * [`Report`]: how long it took, what each path carried when, where it paused
//!
//! A process has to enter a user namespace before it starts a thread
//! ([`hawser::lab::enter_user_namespace`]), or be root.

#![forbid(unsafe_code)]

mod bare;
mod content;
mod experiment;
mod fabric;
mod folder;
mod itcp;
mod list;
mod mtp;
mod multi;
mod neat;
mod report;
mod stage;
mod transfer;
mod video;

use hawser::interact::svg::plot;

pub use bare::Bare;
pub use experiment::{Context, Experiment, Outcome};
pub use folder::{result, write};
pub use list::EXPERIMENTS;
pub use report::{Moment, Pause, Report};
pub use stage::Stage;
pub use transfer::{Act, Direction, Opened, Transfer, opening};

/// Whether this process was started to be an end of an experiment, and how that went.
///
/// # Errors
/// What ended it.
pub fn serve() -> Option<Result<(), Error>> {
    neat::serve().or_else(mtp::serve)
}

/// What went wrong on a stage.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
