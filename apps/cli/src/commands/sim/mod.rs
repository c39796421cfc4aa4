//! `hawser sim …`: runs transport programs in the simulator.

mod debug;
mod mutants;
mod picture;
mod record;
mod replay;
mod scenario;
mod shrink;
mod slowdown;
mod step;
mod swarm;
mod sweep;
mod topology;
mod trace;

use crate::exit::Outcome;

/// Run transport programs in the simulator
///
/// A scenario (docs/scenarios.md) names hosts, links with their faults, a transport program and the
/// applications.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Run(scenario::Args),
    Trace(trace::Args),
    Debug(debug::Args),
    Replay(replay::Args),
    Picture(picture::Args),
    Shrink(shrink::Args),
    Swarm(swarm::Args),
    Sweep(sweep::Args),
    Mutants(mutants::Args),
    Step(step::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Run(args) => scenario::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Debug(args) => debug::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Picture(args) => picture::run(args),
        Command::Shrink(args) => shrink::run(args),
        Command::Swarm(args) => swarm::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Mutants(args) => mutants::run(args),
        Command::Step(args) => step::run(args),
    }
}
