//! `hawser test FILE.steps`: packet tests for any protocol, by the blueprints of its program.

use std::path::{Path, PathBuf};

use hawser::programs::resolve_with_on;
use hawser::runs::files;
use hawser::testkit::step::{StepReport, StepSyntaxError, parse, run as run_steps};
use hawser::time::nanos;
use serde_json::{Value, json};

use super::{Args, has_ending, refuse};
use crate::engine::of_file;
use crate::exit::{Exit, Outcome};

/// The options of files of steps.
#[derive(clap::Args)]
#[command(next_help_heading = "Steps (.steps)")]
pub(super) struct StepsArgs {
    /// Also show the effects of each event of the program, as `hawser sim trace` does
    #[arg(long)]
    events: bool,
}

impl StepsArgs {
    /// Refuses these options if no file of steps is run.
    pub(super) fn refuse(&self) -> Outcome {
        refuse(&[("--events", self.events)], "files of steps (.steps)")
    }
}

pub(super) fn run(args: &Args, found: &[PathBuf]) -> Outcome {
    let (mut rows, mut bad, mut worst) = (Vec::new(), 0, 1);
    for file in found {
        let (result, row) = match one(args, file) {
            Ok(done) => done,
            // The only file's error is that of the command.
            Err(exit) if found.len() == 1 => return Err(exit),
            Err(exit) => {
                eprintln!("hawser: {exit}");
                worst = worst.max(exit.code());
                not_run(file, &exit)
            }
        };
        bad += usize::from(result != "ok");
        if result == "unreadable" {
            worst = worst.max(3);
        }
        rows.push(row);
    }
    if args.json {
        let passed = found.len() - bad;
        let all =
            json!({ "ok": bad == 0, "files": found.len(), "passed": passed, "failed": bad, "results": rows });
        println!("{all}");
    }
    let message = match bad {
        0 => return Ok(()),
        _ if worst > 1 && found.len() == 1 => return Err(Exit::reported(worst)),
        1 => "one file did not pass".to_owned(),
        many => format!("{many} files did not pass"),
    };
    Exit::worst(Err(Exit::failed(message)), Err(Exit::reported(worst)))
}

/// Collects the files of steps below a folder, ordered by name.
pub(super) fn find(folder: &Path, into: &mut Vec<PathBuf>) -> Outcome {
    let cannot = |error: std::io::Error| Exit::input(format!("cannot read {}: {error}", folder.display()));
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(cannot)?.collect();
    let mut paths: Vec<PathBuf> = entries
        .map_err(cannot)?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            find(&path, into)?;
        } else if has_ending(&path, "steps") {
            into.push(path);
        }
    }
    Ok(())
}

/// Runs a file. Returns its result as one word, and a row for the report.
fn one(args: &Args, file: &Path) -> Result<(&'static str, Value), Exit> {
    let name = file.display().to_string();
    let text = files::given_bytes(file, files::DOCUMENT_MAX)
        .map_err(|error| Exit::input(format!("cannot read {name}: {error}")))?;
    let text = String::from_utf8_lossy(&text);
    let steps = match parse(&text) {
        Ok(steps) => steps,
        Err(error) => return Ok(unreadable(args, &name, &error)),
    };
    let Some((program, _)) = steps.program() else {
        let message =
            "the file names no program: its first line has the form `program my.mtp` or `program tcp`";
        let error = StepSyntaxError {
            place: Default::default(),
            message: message.to_owned(),
            hint: String::new(),
        };
        return Ok(unreadable(args, &name, &error));
    };
    let is_file = program.ends_with(".mtp") || program.ends_with(".so");
    let folder = file.parent().filter(|_| is_file).unwrap_or(Path::new(""));
    let program = folder.join(program).display().to_string();
    let program =
        resolve_with_on(args.engine.engine, &program, steps.params()).map_err(|error| of_file(&error))?;
    let report = run_steps(program, &text, &steps, args.steps.events).map_err(Exit::input)?;
    let result = if report.passed() { "ok" } else { "failed" };
    if !args.json {
        show(args, &name, &report, result);
    }
    let failure = report.failure.as_ref().map(|failure| {
        json!({
            "line": failure.place.line,
            "column": failure.place.column,
            "at_ns": nanos(failure.at),
            "expected": failure.expected,
            "happened": failure.happened,
            "notes": failure.notes,
        })
    });
    let row = json!({ "file": name, "result": result, "failure": failure, "happened": report.happened });
    Ok((result, row))
}

/// Returns the result of a file whose steps could not be run.
fn not_run(file: &Path, exit: &Exit) -> (&'static str, Value) {
    let failure =
        json!({ "line": null, "column": null, "expected": "", "happened": exit.to_string(), "notes": [] });
    let row = json!({ "file": file.display().to_string(), "result": "not run", "failure": failure });
    ("not run", row)
}

fn unreadable(args: &Args, name: &str, error: &StepSyntaxError) -> (&'static str, Value) {
    if !args.json {
        eprint!("{name}:{error}\n");
    }
    let failure = json!({
        "line": error.place.line,
        "column": error.place.column,
        "expected": "",
        "happened": error.message,
        "notes": [error.hint],
    });
    (
        "unreadable",
        json!({ "file": name, "result": "unreadable", "failure": failure }),
    )
}

fn show(args: &Args, name: &str, report: &StepReport, result: &str) {
    println!("{name}: {result}");
    if args.show || args.steps.events {
        report.happened.iter().for_each(|line| println!("    {line}"));
    }
    if let Some(failure) = &report.failure {
        match args.show || args.steps.events {
            true => print!("{}\n", failure.explain(name, &report.source)),
            false => print!("{}\n", report.explain(name)),
        }
    }
}
