//! Follows `README.md` as a newcomer would: every block marked `console` runs as printed, in a copy of the
//! checkout's texts, as the user who runs the tests.
//!
//! Excluded are installation (`sudo`, `cargo install`, `make`) and lines that end with `# asks the Internet`;
//! they are run by hand or in phases of their own. A block is skipped with a message if this machine does not
//! permit its namespaces or TUN devices.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hawser_testing::{Need, has};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::blocks::{Block, blocks};

/// The beginnings of lines that are not run here.
const BY_HAND: [&str; 5] = [
    "sudo ",
    "make ",
    "cargo install ",
    "git clone ",
    "hawser sim debug ",
];

#[test]
fn every_command_of_the_readme_runs_as_printed() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(repository.join("README.md")).expect("the page is there");
    let folder = checkout(&repository);
    let mut ran = 0;
    for block in blocks(&page).iter().filter(|block| block.info == "console") {
        ran += run(&folder, block);
    }
    assert!(ran >= 10, "the page lost its commands: only {ran} are run");
}

/// Creates a folder that looks like the checkout to a reader.
fn checkout(repository: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("bin")).expect("the folder for tests can be written");
    for name in ["README.md", "bindings", "docs", "examples", "transports"] {
        symlink(repository.join(name), folder.join(name)).expect("a link");
    }
    symlink(env!("CARGO_BIN_EXE_hawser"), folder.join("bin/hawser")).expect("a link");
    folder
}

/// Runs a block. Returns the number of lines that were run.
fn run(folder: &Path, block: &Block) -> usize {
    let lines: Vec<&str> = block.text.lines().filter(|line| is_run(line)).collect();
    if lines.is_empty() {
        return 0;
    }
    let place = format!("README.md:{}", block.line);
    if block.text.contains("unshare ") && !has(&place, &[Need::Netns, Need::Tun]) {
        return lines.len();
    }
    // A nested shell stops at its first failure, too.
    let script = format!("set -e; export SHELLOPTS\n{}\n", lines.join("\n"));
    let path = std::env::join_paths(std::iter::once(folder.join("bin")).chain(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    )));
    let mut bash = Command::new("bash");
    bash.current_dir(folder)
        .env("PATH", path.expect("folders without a colon"))
        .env("HOME", folder);
    bash.env("XDG_RUNTIME_DIR", folder).env("NO_COLOR", "1");
    // Background processes end with the block, because all of them are in one process group.
    let (out, err) = (folder.join("printed"), folder.join("errors"));
    bash.stdout(fs::File::create(&out).expect("a file"))
        .stderr(fs::File::create(&err).expect("a file"));
    let mut bash = bash.process_group(0).stdin(Stdio::piped()).spawn().expect("bash");
    bash.stdin
        .take()
        .expect("it was piped")
        .write_all(script.as_bytes())
        .expect("bash reads");
    let status = bash.wait().expect("bash ends");
    let _ = kill_process_group(Pid::from_child(&bash), Signal::KILL);
    let text = |path| fs::read_to_string(path).expect("it was written");
    assert!(
        status.success(),
        "{place}: {status}\n{script}\nit printed:\n{}{}",
        text(&out),
        text(&err)
    );
    lines.len()
}

/// Returns whether a line of the page is run here.
fn is_run(line: &str) -> bool {
    let by_hand =
        BY_HAND.iter().any(|start| line.starts_with(start)) || line.ends_with("# asks the Internet");
    !by_hand && !line.trim().is_empty() && !line.starts_with('#')
}
