//! `hawser dissector FILE.mtp`: prints a dissector for Wireshark.

use std::path::PathBuf;

use hawser::lang;

use super::build::checked;
use crate::exit::{Exit, Outcome};

/// Print a dissector for Wireshark of the headers of a program
///
/// The output is a script in Lua. It shows each field, option and enum by the names of the program, verifies Internet
/// checksums, and counts sequence numbers from the first of a connection (docs/wireshark.md):
///
///   hawser dissector my.mtp > my.lua && wireshark -X lua_script:my.lua capture.pcap
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The program (.mtp), or the name of a built-in one
    file: PathBuf,
    /// The output file; by default standard output
    #[arg(short, long, value_name = "FILE.lua")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let script = lang::dissector(&checked(&args.file)?).map_err(Exit::failed)?;
    match &args.output {
        None => {
            print!("{script}");
            Ok(())
        }
        Some(path) => std::fs::write(path, script)
            .map_err(|error| Exit::environment(format!("cannot write {}: {error}", path.display()))),
    }
}
