//! Starts programs that are installed beside this one (docs/decisions/0010-benchmarks.md).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::CommandFactory;

use crate::Cli;
use crate::exit::{Exit, Outcome};

/// Replaces this process with `program`, found in this command's folder or on the PATH. If it is missing and
/// `arguments` ask for help, prints the help of this command's own sub-command.
pub(crate) fn become_program(program: &str, package: &str, arguments: &[OsString]) -> Outcome {
    let path = beside(program).unwrap_or_else(|| program.into());
    // `exec` returns only when it fails.
    let error = Command::new(&path).args(arguments).exec();
    if error.kind() != io::ErrorKind::NotFound {
        return Err(Exit::environment(format!(
            "cannot start {}: {error}",
            path.display()
        )));
    }
    let missing = format!(
        "there is no {program} beside this command or on the PATH; in a checkout of Hawser this command builds it: \
         cargo build{} --manifest-path evaluation/Cargo.toml -p {package}",
        if cfg!(debug_assertions) { "" } else { " --release" }
    );
    let asks = |argument: &OsString| ["--help", "-h", "help"].iter().any(|help| argument == help);
    let mut own = Cli::command();
    match own.find_subcommand_mut(program.trim_start_matches("hawser-")) {
        Some(own) if arguments.first().is_some_and(asks) => {
            print!("{}\n{missing}\n", own.render_long_help());
            Ok(())
        }
        _ => Err(Exit::environment(missing)),
    }
}

/// Returns the path of a program that lies beside this one.
pub(crate) fn beside(program: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(program);
    path.is_file().then_some(path)
}
