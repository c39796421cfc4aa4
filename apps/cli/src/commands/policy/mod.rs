//! `hawser policy rank` and `hawser policy check`.

mod check;
mod explain;
mod rank;

use crate::exit::Outcome;

/// Rank the transports for a request, and check policies (docs/policy.md)
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Rank(rank::Args),
    Check(check::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Rank(args) => rank::run(args),
        Command::Check(args) => check::run(args),
    }
}
