//! `hawser policy rank …` and `hawser policy check FILE…`

mod check;
mod explain;
mod rank;

use crate::exit::Outcome;

/// Which transports serve a request, in what order, and why (docs/policy.md)
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
