//! `hawser sim step --program NAME`: a prompt to try a program by hand, step by step.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use hawser::programs::resolve_with_on;
use hawser::testkit::step::Prompt;

use crate::engine::{EngineArgs, refused};
use crate::exit::{Exit, Outcome};

/// Try a program by hand, step by step
///
/// The command reads steps (docs/steps.md) from standard input: requests of the application, packets that
/// arrive, and time that passes. It prints the results of each as steps.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A built-in program's name, or a file (.mtp)
    #[arg(long, value_name = "PROGRAM", default_value = "tcp", help_heading = "Program")]
    program: String,
    /// Set a param of the program: RTO=50ms (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", help_heading = "Program")]
    params: Vec<String>,
    /// Also show the effects of each event of the program, as `hawser sim trace` does
    #[arg(long)]
    events: bool,
    /// Write everything that happened to a file of steps
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = &args.program;
    let program = resolve_with_on(args.engine.engine, name, &args.params).map_err(|error| refused(&error))?;
    let mut prompt = Prompt::new(program, args.events).map_err(Exit::input)?;
    let input = std::io::stdin();
    let is_terminal = input.is_terminal();
    let mut failed = false;
    for line in input.lock().lines() {
        let line = line.map_err(|error| Exit::input(format!("cannot read the steps: {error}")))?;
        let happened = match prompt.line(&line) {
            Ok(happened) => happened,
            Err((why, happened)) => {
                failed = true;
                eprint!("{why}\n");
                happened
            }
        };
        happened.iter().for_each(|line| println!("{line}"));
        std::io::stdout().flush().map_err(Exit::environment)?;
    }
    if let Some(file) = &args.save {
        let head = args
            .params
            .iter()
            .fold(format!("program {name}\n"), |head, param| {
                head + "param " + param + "\n"
            });
        let text = format!("{head}\n{}\n", prompt.all().join("\n"));
        std::fs::write(file, text)
            .map_err(|error| Exit::environment(format!("cannot write {}: {error}", file.display())))?;
    }
    // A user at a terminal sees the errors; a script learns of them by the exit code.
    match failed && !is_terminal {
        true => Err(Exit::failed("the program did not take every step as written")),
        false => Ok(()),
    }
}
