//! `hawser bench`: hands over to `hawser-bench`, which brings other stacks to compare with.

use std::ffi::OsString;

use crate::beside::become_program;
use crate::exit::Outcome;

/// Measure Hawser beside Linux's TCP and smoltcp: bulk, rr, connect, stack, check, …
///
/// Peers run in the same run, alternating; figures are medians, with their ratios. Runs in
/// namespaces of its own: no privilege is needed. `hawser bench help` lists the benches.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The benchmark and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "BENCH")]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    become_program("hawser-bench", "hawser-bench", &args.arguments)
}
