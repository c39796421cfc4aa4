//! `hawser policy …`: ranks transports, checks policies, and changes the knowledge of a running Hawser.

mod check;
mod explain;
mod knowledge;
mod rank;

use crate::exit::Outcome;

/// Rank the transports for a request, check policies, and change what a running Hawser knows
///
/// docs/policy.md and docs/knowledge.md describe policies and knowledge.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Rank(rank::Args),
    Check(check::Args),
    #[command(subcommand)]
    Knowledge(knowledge::Command),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Rank(args) => rank::run(args),
        Command::Check(args) => check::run(args),
        Command::Knowledge(command) => knowledge::run(command),
    }
}
