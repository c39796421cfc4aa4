//! `hawser step FILE.steps`: packet tests for a protocol of one's own, and the prompt to try a program by
//! hand.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser::programs::resolve_with_on;
use hawser::runs::files;
use hawser::testkit::step::{Program, Prompt, Report, SyntaxError, parse, run as run_steps};
use hawser::time::nanos;
use serde_json::{Value, json};

use crate::engine::{EngineArgs, of_file, refused};
use crate::exit::{Exit, Outcome};

/// Run packet tests of any transport program, or try one by hand
///
/// A file of steps states what the application asks for, which packets arrive and which must leave, in terms
/// of the program's own blueprints, each with its time (docs/steps.md). It runs in virtual time. A folder
/// stands for all files (.steps) below it. With --program, steps are read from standard input, and the
/// results of each are printed as steps.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files of steps (.steps), or folders of them
    #[arg(required_unless_present = "program", conflicts_with = "program")]
    paths: Vec<PathBuf>,
    /// Try this program by hand: a built-in program's name, or a file (.mtp)
    #[arg(long, value_name = "PROGRAM")]
    program: Option<String>,
    /// Set a param of the program that is tried by hand: RTO=50ms (repeatable)
    #[arg(long = "param", value_name = "NAME=VALUE", requires = "program")]
    params: Vec<String>,
    /// Write everything that happened by hand to a file of steps
    #[arg(long, value_name = "FILE", requires = "program")]
    save: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    /// Show what happened in each file, as steps
    #[arg(long, conflicts_with = "json")]
    show: bool,
    /// Also show what each event of the program did, as `hawser trace` does
    #[arg(long)]
    events: bool,
    /// Print the result as a JSON object
    #[arg(long, conflicts_with = "program")]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.program {
        Some(program) => by_hand(args, program),
        None => files(args),
    }
}

fn files(args: &Args) -> Outcome {
    let mut found = Vec::new();
    for path in &args.paths {
        collect(path, &mut found, true)?;
    }
    if found.is_empty() {
        return Err(Exit::input("these folders contain no file of steps (.steps)"));
    }
    let (mut rows, mut bad, mut unreadable) = (Vec::new(), 0, false);
    for file in &found {
        let (result, row) = one(args, file)?;
        bad += usize::from(result != "ok");
        unreadable |= result == "unreadable";
        rows.push(row);
    }
    if args.json {
        let passed = found.len() - bad;
        let all =
            json!({ "ok": bad == 0, "files": found.len(), "passed": passed, "failed": bad, "results": rows });
        println!("{all}");
    }
    match bad {
        0 => Ok(()),
        _ if unreadable && found.len() == 1 => Err(Exit::reported(3)),
        1 => Err(Exit::failed("one file did not pass")),
        many => Err(Exit::failed(format!("{many} files did not pass"))),
    }
}

/// Collects the files that a path stands for, ordered by name.
fn collect(path: &Path, into: &mut Vec<PathBuf>, named: bool) -> Outcome {
    let cannot = |error: std::io::Error| Exit::input(format!("cannot read {}: {error}", path.display()));
    if path.is_dir() {
        let entries: Result<Vec<_>, _> = std::fs::read_dir(path).map_err(cannot)?.collect();
        let mut paths: Vec<PathBuf> = entries
            .map_err(cannot)?
            .into_iter()
            .map(|entry| entry.path())
            .collect();
        paths.sort();
        return paths.iter().try_for_each(|path| collect(path, into, false));
    }
    if named || path.extension().is_some_and(|ending| ending == "steps") {
        into.push(path.to_owned());
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
        let message = "it names no program: its first line is as `program my.mtp` or `program tcp`";
        let error = SyntaxError {
            place: Default::default(),
            message: message.to_owned(),
            hint: String::new(),
        };
        return Ok(unreadable(args, &name, &error));
    };
    let is_file = program.ends_with(".mtp") || program.ends_with(".so");
    let folder = file.parent().filter(|_| is_file).unwrap_or(Path::new(""));
    let program = folder.join(program).display().to_string();
    let program = open(args, &program, steps.params()).map_err(|error| of_file(&error))?;
    let report = run_steps(program, &text, &steps, args.events).map_err(Exit::input)?;
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

fn open(args: &Args, name: &str, params: &[String]) -> Result<Arc<dyn Program>, hawser::programs::Error> {
    resolve_with_on(args.engine.engine, name, params)
}

fn unreadable(args: &Args, name: &str, error: &SyntaxError) -> (&'static str, Value) {
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

fn show(args: &Args, name: &str, report: &Report, result: &str) {
    println!("{name}: {result}");
    if args.show || args.events {
        report.happened.iter().for_each(|line| println!("    {line}"));
    }
    if let Some(failure) = &report.failure {
        match args.show || args.events {
            true => print!("{}\n", failure.explain(name, &report.source)),
            false => print!("{}\n", report.explain(name)),
        }
    }
}

/// Reads steps from standard input and prints the results of each.
fn by_hand(args: &Args, name: &str) -> Outcome {
    let program = open(args, name, &args.params).map_err(|error| refused(&error))?;
    let mut prompt = Prompt::new(program, args.events).map_err(Exit::input)?;
    let input = std::io::stdin();
    let is_terminal = input.is_terminal();
    let mut failed = false;
    for line in input.lock().lines() {
        let line = line.map_err(|error| Exit::input(format!("cannot read the steps: {error}")))?;
        let happened = match prompt.line(&line) {
            Ok(happened) => happened,
            Err((why, happened)) => {
                failed = true;
                eprint!("{why}\n");
                happened
            }
        };
        happened.iter().for_each(|line| println!("{line}"));
        std::io::stdout().flush().map_err(Exit::environment)?;
    }
    if let Some(file) = &args.save {
        let head = args
            .params
            .iter()
            .fold(format!("program {name}\n"), |head, param| {
                head + "param " + param + "\n"
            });
        let text = format!("{head}\n{}\n", prompt.all().join("\n"));
        std::fs::write(file, text)
            .map_err(|error| Exit::environment(format!("cannot write {}: {error}", file.display())))?;
    }
    // A user at a terminal sees the errors; a script learns of them by the exit code.
    match failed && !is_terminal {
        true => Err(Exit::failed("not every step could be taken as written")),
        false => Ok(()),
    }
}
