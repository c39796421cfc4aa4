//! The Python package of `bindings/python`, tested with this command in a namespace of its own.
//!
//! Its suite is Python's `unittest`, which is started here with the built command. If mypy is installed, the
//! types are checked, too.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hawser_testing::{Need, has};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/python")
}

fn run(command: &mut Command) -> Output {
    command
        .current_dir(package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_package_watches_and_steers_a_server() {
    if !has("python", &[Need::Python, Need::Netns, Need::Curl, Need::Tun]) {
        return;
    }
    let mut command = Command::new("unshare");
    command.args([
        "-Urn", "timeout", "180", "python3", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", ".",
    ]);
    command
        .env("HAWSER", env!("CARGO_BIN_EXE_hawser"))
        .env("PYTHONPATH", ".");
    let output = run(&mut command);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn the_python_package_passes_mypy() {
    if !has("python's types", &[Need::Python, Need::Mypy]) {
        return;
    }
    let output = run(Command::new("mypy").args(["--strict", "--cache-dir=/dev/null"]));
    assert!(output.status.success(), "{}", text(&output));
}
