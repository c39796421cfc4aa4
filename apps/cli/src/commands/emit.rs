//! `hawser emit FILE.mtp`: prints a program as C.

use std::path::PathBuf;

use hawser::programs::{self, Machine};

use super::build::checked;
use crate::exit::{Exit, Outcome};

/// Print a program as C
///
/// The output is one self-contained C11 file, as `hawser build` compiles it. Its lines refer to those
/// of the program, so that compilers and debuggers show the source of the program.
///
/// With `--machine ebpf` it is for `clang -target bpf`: a program for the Linux kernel (6.9 or newer) for each chain, on memory that
/// user space maps as well. Parsers and headers are not among them yet.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program (.mtp), or the name of a built-in one
    file: PathBuf,
    /// The machine that runs it: `native`, the processor of this host, or `ebpf`, the kernel
    #[arg(long, value_name = "MACHINE", default_value = "native", value_parser = machine)]
    machine: Machine,
    /// The output file; by default standard output
    #[arg(short, long, value_name = "FILE.c")]
    output: Option<PathBuf>,
}

fn machine(name: &str) -> Result<Machine, String> {
    match name {
        "native" => Ok(Machine::Native),
        "ebpf" => Ok(Machine::Ebpf),
        _ => Err("it is `native` or `ebpf`".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let c = programs::emit(&checked(&args.file)?, args.machine).map_err(Exit::failed)?;
    match &args.output {
        None => {
            print!("{c}");
            Ok(())
        }
        Some(path) => std::fs::write(path, c)
            .map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display()))),
    }
}
