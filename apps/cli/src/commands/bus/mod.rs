//! `hawser bus …`: reads and changes the variables of a running process, and what is attached to it.

mod attach;
mod audit;
mod detach;
mod events;
mod modify;
mod probe;
mod steer;

use super::watch;
use crate::exit::Outcome;

/// Watch and steer the transports of a running process
///
/// The process runs with `--interact`, or is `hawser kernel` (docs/interact.md).
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Events(events::Args),
    Watch(watch::Args),
    Probe(probe::Args),
    Modify(modify::Args),
    Steer(steer::Args),
    Attach(attach::Args),
    Detach(detach::Args),
    Audit(audit::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Events(args) => events::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Modify(args) => modify::run(args),
        Command::Steer(args) => steer::run(args),
        Command::Attach(args) => attach::run(args),
        Command::Detach(args) => detach::run(args),
        Command::Audit(args) => audit::run(args),
    }
}
