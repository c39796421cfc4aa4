//! `hawser build FILE.mtp`: compiles a program to a shared library.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hawser::programs::{self, BuildError};
use serde_json::json;

use crate::exit::{Exit, Outcome};

/// Compile a program to machine code
///
/// The result is a shared library that every command accepts as a program. It holds the source of the
/// program beside the code. It runs only with the Hawser that built it, and only while nobody else can
/// change the file. A C compiler is needed: $CC, or cc.
///
///   hawser build examples/stop-and-wait.mtp -o stop-and-wait.so
///   hawser swarm ./stop-and-wait.so --plain
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The program (.mtp)
    file: PathBuf,
    /// The output file; by default FILE.so beside the program
    #[arg(short, long, value_name = "FILE.so")]
    output: Option<PathBuf>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.file.with_extension("so"));
    if output.extension().is_none_or(|ending| ending != "so") {
        return Err(Exit::usage(format!(
            "{}: a program that is built has a name that ends in .so, by which it is known",
            output.display()
        )));
    }
    programs::build(&checked(&args.file)?, &output).map_err(refused)?;
    let bytes = std::fs::metadata(&output).map_err(Exit::environment)?.len();
    match args.json {
        true => println!(
            "{}",
            json!({ "output": output.display().to_string(), "bytes": bytes })
        ),
        false => println!("{} ({bytes} bytes)", output.display()),
    }
    Ok(())
}

fn refused(error: BuildError) -> Exit {
    match error {
        BuildError::Unsupported(_) => Exit::failed(error),
        BuildError::NoCompiler { .. } | BuildError::Compiler { .. } | BuildError::Io { .. } => {
            Exit::environment(error)
        }
    }
}

/// The program in a file; the checker's diagnostics go to standard error.
pub(super) fn checked(file: &Path) -> Result<programs::Module, Exit> {
    if let Err(error) = std::fs::read_to_string(file) {
        return Err(Exit::input(format!("cannot read {}: {error}", file.display())));
    }
    let compilation = hawser::lang::compile(file);
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colour = wanted && std::io::stderr().is_terminal();
    std::eprint!(
        "{}",
        hawser::lang::render(&compilation.diagnostics, &compilation.sources, colour)
    );
    compilation
        .module
        .ok_or_else(|| Exit::failed(format!("{} has errors", file.display())))
}
