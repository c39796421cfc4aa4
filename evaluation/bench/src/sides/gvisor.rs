//! gVisor's network stack, which is written in Go. A program of ours around it (`evaluation/peers/gvisor`) follows
//! the orders of a side. It is built when it is first needed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of its source.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/gvisor");

/// Returns the path of the program, beside our own. It is built once in a process; Go's cache makes that fast
/// if its source is unchanged.
///
/// # Errors
/// The program could not be built.
pub(crate) fn program() -> io::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| build().map_err(|error| error.to_string()))
        .clone()
        .map_err(io::Error::other)
}

fn build() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name("hawser-bench-gvisor");
    if !Path::new(SOURCE).is_dir() {
        return Err(io::Error::other(format!("its source is no longer at {SOURCE}")));
    }
    let output = Command::new("go")
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(SOURCE)
        .output()
        .map_err(|error| io::Error::other(format!("Go does not start: {error}")))?;
    if output.status.success() {
        return Ok(program);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().last().unwrap_or_default();
    Err(io::Error::other(format!("Go does not build it: {last}")))
}
