//! `hawser sim replay FILE.toml --seed N`: repeats a simulated run.

use super::scenario;
use crate::exit::Outcome;

/// Repeat a simulated run exactly, from the seed that it printed
#[derive(clap::Args)]
#[command(mut_arg("seed", |seed| seed.required(true)))]
pub(crate) struct Args {
    #[command(flatten)]
    run: scenario::Args,
}

pub(crate) fn run(args: &Args) -> Outcome {
    scenario::run(&args.run)
}
