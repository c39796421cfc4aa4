//! `hawser emit FILE.mtp`: prints a program as C.

use std::path::PathBuf;

use hawser::programs;

use super::build::checked;
use crate::exit::{Exit, Outcome};

/// Print a program as C
///
/// The output is one self-contained C11 file, as `hawser build` compiles it. Its lines refer to those
/// of the program, so that compilers and debuggers show the source of the program.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program (.mtp), or the name of a built-in one
    file: PathBuf,
    /// The output file; by default standard output
    #[arg(short, long, value_name = "FILE.c")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let c = programs::emit(&checked(&args.file)?).map_err(Exit::failed)?;
    match &args.output {
        None => {
            print!("{c}");
            Ok(())
        }
        Some(path) => std::fs::write(path, c)
            .map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display()))),
    }
}
