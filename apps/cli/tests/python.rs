//! The Python package of `bindings/python`, tested with this command in a namespace of its own.
//!
//! Its suite is Python's `unittest`, which is started here with the built command. If mypy is installed, the
//! types are checked, too.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::tun;

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python")
}

fn run(command: &mut Command) -> Option<Output> {
    command
        .current_dir(package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .ok()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn has_python() -> bool {
    let is_new = "import sys; sys.exit(sys.version_info < (3, 9))";
    let found = run(Command::new("python3").args(["-c", is_new])).is_some_and(|out| out.status.success());
    if !found {
        println!("skipped: python: there is no python3 of 3.9 or later");
    }
    found
}

#[test]
fn the_package_watches_and_steers_a_server() {
    if !has_python() {
        return;
    }
    for needed in [&["unshare", "-Urn", "true"][..], &["curl", "--version"]] {
        if !run(Command::new(needed[0]).args(&needed[1..])).is_some_and(|out| out.status.success()) {
            println!("skipped: python: `{}` does not work here", needed.join(" "));
            return;
        }
    }
    if !tun::is_permitted("python") {
        return;
    }
    let mut command = Command::new("unshare");
    command.args([
        "-Urn", "timeout", "180", "python3", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", ".",
    ]);
    command
        .env("HAWSER", env!("CARGO_BIN_EXE_hawser"))
        .env("PYTHONPATH", ".");
    let output = run(&mut command).expect("it ran before");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn the_python_package_passes_mypy() {
    if !has_python() {
        return;
    }
    let mypy = |arguments: &[&str]| run(Command::new("mypy").args(arguments));
    if !mypy(&["--version"]).is_some_and(|out| out.status.success()) {
        println!("skipped: python's types: mypy is not installed");
        return;
    }
    let output = mypy(&["--strict", "--cache-dir=/dev/null"]).expect("it ran before");
    assert!(output.status.success(), "{}", text(&output));
}
