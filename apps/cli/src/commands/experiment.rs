//! `hawser experiment`: runs `hawser-experiment`.

use std::ffi::OsString;

use crate::companions::become_program;
use crate::exit::Outcome;

/// Repeat the papers' measurements on emulated networks: multi-baseline, multi-aggregate, …
///
/// Each experiment writes a folder with configuration, seed, revision, figures (JSON) and drawings
/// (SVG); docs/experiments.md compares them with those of the papers. The command runs in namespaces of
/// its own and needs no privilege. `hawser experiment` lists the experiments.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The experiment and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "NAME")]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    become_program("hawser-experiment", "hawser-experiments", &args.arguments)
}
