//! Starts programs that are installed beside this one (docs/decisions/0010-benchmarks.md).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::exit::{Exit, Outcome};

/// Replaces this process with `program`, found in this command's folder or on the PATH.
pub(crate) fn become_program(program: &str, package: &str, arguments: &[OsString]) -> Outcome {
    let path = beside(program).unwrap_or_else(|| program.into());
    // `exec` returns only when it fails.
    let error = Command::new(&path).args(arguments).exec();
    Err(Exit::environment(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no {program} beside this command or on the PATH; in a checkout of Hawser this command builds it: \
             cargo build{} --manifest-path evaluation/Cargo.toml -p {package}",
            if cfg!(debug_assertions) { "" } else { " --release" }
        ),
        _ => format!("cannot start {}: {error}", path.display()),
    }))
}

/// Returns the path of a program that lies beside this one.
pub(crate) fn beside(program: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.with_file_name(program);
    path.is_file().then_some(path)
}
