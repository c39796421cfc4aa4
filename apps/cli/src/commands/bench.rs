//! `hawser bench`: hands over to `hawser-bench`, a program of its own beside this one.
//!
//! Benchmarks bring other stacks to compare with, which nobody who merely uses Hawser has to have
//! (docs/decisions/0010-benchmarks.md).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::exit::{Exit, Outcome};

/// Measure Hawser beside Linux's TCP and smoltcp: bulk, rr, connect, stack, check, …
///
/// Peers run in the same run, alternating; figures are medians, with their ratios. Runs in
/// namespaces of its own: no privilege is needed. `hawser bench help` lists the benches.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Which bench, and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "BENCH")]
    arguments: Vec<OsString>,
}

/// The program's name.
const PROGRAM: &str = "hawser-bench";

pub(crate) fn run(args: &Args) -> Outcome {
    let program = beside().unwrap_or_else(|| PROGRAM.into());
    // Only returns when it fails.
    let error = Command::new(&program).args(&args.arguments).exec();
    Err(Exit::environment(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no {PROGRAM} beside this command or on the PATH; it is built with: cargo build --release -p {PROGRAM}"
        ),
        _ => format!("cannot start {}: {error}", program.display()),
    }))
}

/// The program in the folder that this command is in.
fn beside() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    program.is_file().then_some(program)
}
