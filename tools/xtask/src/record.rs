//! `cargo xtask record NAME`: measures in full, at a clean revision, and stores the result. An experiment's
//! result goes into its folder, a bench's into its table in evaluation/bench/README.md. The result names the
//! revision.

use std::path::Path;
use std::process::{Command, Stdio};

/// The manifest of the benches and experiments.
const EVALUATION: &str = "evaluation/Cargo.toml";
/// The folder of the experiments' records, with a folder for each experiment.
pub(crate) const RESULTS: &str = "evaluation/experiments/results/";
/// The page with the tables of benches: a section `` ### `NAME` `` for each, with its command.
const TABLES: &str = "evaluation/bench/README.md";

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let [name] = arguments else {
        return Err(format!(
            "usage: cargo xtask record NAME, of an experiment in {RESULTS} or a bench in {TABLES}"
        ));
    };
    let root = crate::root();
    let changed = output(&root, "git", &["status", "--porcelain"])?;
    if !changed.is_empty() {
        return Err(format!(
            "a record names its revision, and these files differ from it:\n{changed}"
        ));
    }
    if root.join(RESULTS).join(name).is_dir() {
        return experiment(&root, name);
    }
    let path = root.join(TABLES);
    let page = std::fs::read_to_string(&path).map_err(|error| format!("{TABLES}: {error}"))?;
    let command = command(&page, name).ok_or_else(|| {
        format!("neither the folder {RESULTS}{name} nor a section `{name}` in {TABLES} exists")
    })?;
    let table = bench(&root, command)?;
    let page = replaced(&page, name, &table).ok_or_else(|| format!("`{name}` of {TABLES} has no table"))?;
    std::fs::write(&path, page).map_err(|error| format!("{TABLES}: {error}"))
}

/// Runs an experiment and writes its result to the experiment's folder.
fn experiment(root: &Path, name: &str) -> Result<(), String> {
    build(root, EVALUATION, "hawser-experiments")?;
    let folder = format!("{RESULTS}{name}");
    output(
        root,
        "target/release/hawser-experiment",
        &[name, "--output", &folder],
    )
    .map(|lines| print!("{lines}"))
}

/// Returns the table that a bench prints.
fn bench(root: &Path, command: &str) -> Result<String, String> {
    // Some benches measure the command `hawser` itself.
    build(root, "Cargo.toml", "hawser-cli")?;
    build(root, EVALUATION, "hawser-bench")?;
    let arguments = command
        .split_whitespace()
        .skip(2)
        .chain(["--markdown"])
        .collect::<Vec<_>>();
    output(root, "target/release/hawser-bench", &arguments)
}

fn build(root: &Path, manifest: &str, package: &str) -> Result<(), String> {
    let arguments = [
        "build",
        "--release",
        "--locked",
        "--manifest-path",
        manifest,
        "-p",
        package,
    ];
    output(root, "cargo", &arguments).map(|_| ())
}

/// Returns the command of a bench's section: `hawser bench …`, on a line of its own.
fn command<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let section = section(page, name)?;
    let line = section.lines().find(|line| line.starts_with("`hawser bench "))?;
    Some(line.trim_matches('`'))
}

/// Returns the page with the table of a bench's section replaced, together with its settings and its
/// revision.
fn replaced(page: &str, name: &str, table: &str) -> Option<String> {
    let section = section(page, name)?;
    let start = section.find("\n|")? + 1;
    let revision = section[start..].find("\nrevision ")? + start + 1;
    let end = section[revision..]
        .find('\n')
        .map_or(section.len(), |length| revision + length);
    let at = section.as_ptr() as usize - page.as_ptr() as usize;
    Some([&page[..at + start], table.trim_end(), &page[at + end..]].concat())
}

/// Returns a bench's section, from its heading to the next.
fn section<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let start = page.find(&format!("\n### `{name}`\n"))? + 1;
    let end = page[start + 1..]
        .find("\n#")
        .map_or(page.len(), |length| start + 1 + length);
    Some(&page[start..end])
}

/// Returns the output of a command, or an error if the command fails.
fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {} failed", arguments.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Figures\n\n### `bulk`\n\n`hawser bench bulk --seconds 2`\n\nGoal: much.\n\n|  | a |\n|---|---:|\n\
                        | x | 1 |\n\nruns 5\n\nrevision 1234567; Linux\n\nWhy.\n\n### `rr`\n\n`hawser bench rr`\n";

    #[test]
    fn a_new_table_replaces_the_previous_one() {
        assert_eq!(command(PAGE, "bulk"), Some("hawser bench bulk --seconds 2"));
        let page = replaced(
            PAGE,
            "bulk",
            "|  | a |\n|---|---:|\n| x | 2 |\n\nruns 5\n\nrevision 89abcde; Linux\n\n",
        );
        let expected = PAGE
            .replace("| x | 1 |", "| x | 2 |")
            .replace("1234567", "89abcde");
        assert_eq!(page.as_deref(), Some(expected.as_str()));
        assert_eq!(replaced(PAGE, "rr", "| |"), None, "it has no table");
        assert_eq!(command(PAGE, "race"), None);
    }
}
