//! `hawser emit FILE.mtp`

use std::path::PathBuf;

use hawser::programs;

use super::build::checked;
use crate::exit::{Exit, Outcome};

/// Print a program as C
///
/// One self-contained C11 file, as `hawser build` compiles it. Its lines are marked with those of
/// the program, so that compilers and debuggers speak of the program's own.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program (.mtp)
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
