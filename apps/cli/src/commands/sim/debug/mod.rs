//! `hawser sim debug FILE.toml`: runs a scenario forwards and backwards, statement by statement.
//!
//! [`hawser::runs::debug::Debugger`] is the machine. Its front ends are [`screen`] for terminals (drawn by
//! [`view`]), [`lines`] for pipes, and [`dap`] for editors.

mod dap;
mod lines;
mod screen;
mod view;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hawser::programs::Programs;
use hawser::runs;
use hawser::runs::debug::{self, Debugger};

use crate::engine::{EngineArgs, NativeArgs};
use crate::exit::{Exit, Outcome};

/// Step through a simulated run, forwards and backwards
///
/// On a terminal, the command shows the source, the functions, the contexts of all hosts and a line for commands; `help` lists them.
/// Otherwise commands are read from standard input, one per line, and an answer follows each. With --dap, an editor
/// drives it by the Debug Adapter Protocol.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario
    #[arg(required_unless_present = "dap")]
    file: Option<PathBuf>,
    /// Use this seed instead of the seed of the scenario
    #[arg(long)]
    seed: Option<u64>,
    /// Print a JSON object for each answer, one per line
    #[arg(long)]
    json: bool,
    /// Speak the Debug Adapter Protocol on standard input and output; a launch names the scenario
    #[arg(long, conflicts_with = "json")]
    dap: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    native: NativeArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.dap {
        return dap::run(args);
    }
    let file = args.file.as_deref().unwrap_or(Path::new(""));
    let debugger = begin(args, file, args.seed)?;
    if !args.json && std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        screen::run(debugger)
    } else {
        lines::run(debugger, args.json)
    }
}

/// Opens a debugger before the first event of a scenario's run.
fn begin(args: &Args, file: &Path, seed: Option<u64>) -> Result<Debugger, Exit> {
    let mut scenario = runs::load(file).map_err(Exit::input)?;
    if let Some(engine) = args.engine.engine {
        runs::set_engine(&mut scenario, engine);
    }
    let programs = Programs::default().with_native_files(args.native.allow_native);
    debug::begin(programs, scenario, seed).map_err(Exit::input)
}
