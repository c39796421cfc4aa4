//! The revision that is built, for reports: they tell what was measured, not what lies there when it
//! runs. Part of the build scripts of whatever reports.

use std::process::Command;

/// Gives the code of the crate `HAWSER_REVISION`: the revision, with `-dirty` where files had been
/// changed; or `unknown`.
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

/// One line of git's; nothing outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
