//! The revision that is built, for reports: they name the revision that was measured, not that of the
//! checkout when the program runs. This file is part of the build scripts of all crates that write reports.

use std::process::Command;

/// Passes `HAWSER_REVISION` to the crate's code: the revision, with `-dirty` if files had been changed, or
/// `unknown`.
pub(crate) fn note() {
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let revision = git(&["describe", "--always", "--dirty", "--exclude=*"]);
    println!(
        "cargo::rustc-env=HAWSER_REVISION={}",
        revision.as_deref().unwrap_or("unknown")
    );
}

/// Returns one line of git's output, or `None` outside a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
