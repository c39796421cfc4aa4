//! `hawser bench`: runs `hawser-bench`, which includes other stacks for comparison.

use std::ffi::OsString;

use crate::companions::become_program;
use crate::exit::Outcome;

/// Measure Hawser beside Linux's TCP and smoltcp: bulk, rr, connect, stack, check, …
///
/// The peers are measured in the same run, alternately; figures are medians with their ratios. The
/// command runs in namespaces of its own and needs no privilege. `hawser bench help` lists the
/// benchmarks.
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
