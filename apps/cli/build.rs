//! Records the revision and the target of a build, for `hawser --version`.
//!
//! A build for development has no revision, so a commit compiles nothing again. Nor has a build outside of the
//! project's repository, unless HAWSER_REVISION names one.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HAWSER_REVISION");
    let revision = match (
        std::env::var("HAWSER_REVISION"),
        std::env::var("PROFILE").as_deref(),
    ) {
        (Ok(named), _) => named,
        (Err(_), Ok("release")) => {
            revision().unwrap_or_else(|| "unknown (built outside of the repository)".into())
        }
        (Err(_), _) => "unknown (a build for development)".into(),
    };
    println!("cargo::rustc-env=HAWSER_REVISION={revision}");
    let target = std::env::var("TARGET").expect("Cargo sets TARGET for build scripts");
    println!("cargo::rustc-env=HAWSER_TARGET={target}");
}

/// Returns the revision that is checked out, if this package lies in the project's repository.
fn revision() -> Option<String> {
    // Another project's repository may contain a packaged copy of this one.
    let top = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .ok()?;
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?)
        .canonicalize()
        .ok()?
        != top
    {
        return None;
    }
    // Each commit and each checkout appends to this log.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout)
        .ok()
        .filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}
