//! `hawser-equality`: random programs on the interpreter and as generated C.
//!
//! Invariant: generated code runs in worker processes alone. If it kills its process, that is a failure with
//! a seed, and the run continues.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use hawser_emit_c::Machine;
use hawser_equality::compile::Settings;
use hawser_equality::{batches, compile, generate, nodes, shrink, worker};

const USAGE: &str = "\
usage:
  hawser-equality run [--programs N] [--first SEED] [--level 0|2] [--no-trap] [--jobs N] [--batch N] [--table]
  hawser-equality repeat --first SEED [--level 0|2] [--no-trap]     one program; shrunk when it fails
  hawser-equality print --first SEED                                its text
  hawser-equality c --first SEED [--ebpf]                           its C, for the host or for the kernel
`repeat` and `c` also take a program from a file: --text FILE
";

/// The arguments of the command line.
struct Arguments {
    plan: batches::BatchPlan,
    table: bool,
    machine: Machine,
}

fn arguments(words: &[String]) -> Result<Arguments, String> {
    let mut plan = batches::BatchPlan {
        first: 1,
        programs: 200,
        batch: 10,
        jobs: 2,
        settings: Settings::default(),
        text: None,
    };
    let (mut table, mut machine) = (false, Machine::Native);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let mut number = || {
            value().and_then(|v| {
                v.parse::<u64>()
                    .map_err(|_| format!("{word}: {v} is not a number"))
            })
        };
        match word.as_str() {
            "--programs" => plan.programs = number()?,
            "--first" => plan.first = number()?,
            "--batch" => plan.batch = number()?,
            "--jobs" => plan.jobs = number()? as usize,
            "--level" => plan.settings.level = value()?.clone(),
            "--text" => plan.text = Some(PathBuf::from(value()?)),
            "--no-trap" => plan.settings.trap = false,
            "--table" => table = true,
            "--ebpf" => machine = Machine::Ebpf,
            _ => return Err(format!("unknown argument {word}\n{USAGE}")),
        }
    }
    Ok(Arguments { plan, table, machine })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = words.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let outcome = arguments(rest).and_then(|arguments| match command.as_str() {
        "run" => run(&arguments),
        "repeat" => repeat(arguments.plan),
        "print" => {
            print!("{}", generate::program(arguments.plan.first));
            Ok(())
        }
        "c" => {
            let text = text(&arguments.plan)?;
            let printed = compile::printed(&format!("random{}", arguments.plan.first), text)?;
            print!("{}", compile::c_of(&printed.module, arguments.machine).c);
            Ok(())
        }
        "worker" => {
            let batches::BatchPlan { first, programs, text, settings, .. } = arguments.plan;
            worker::run(&worker::Batch { first, count: programs, text, settings });
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn own_path() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| error.to_string())
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let outcome = batches::run(&own_path()?, &arguments.plan);
    if arguments.table {
        print!("{}", outcome.coverage.table());
    }
    let all = nodes::all();
    let missing = outcome.coverage.missing(&all);
    if !missing.is_empty() {
        println!("never ran: {}", missing.join(", "));
    }
    for failure in &outcome.failures {
        println!("seed {}, step {}: {}", failure.seed, failure.step, failure.text);
        println!(
            "again: cargo run -p hawser-equality -- repeat --first {}\n",
            failure.seed
        );
    }
    println!(
        "{} programs equal, {} different",
        outcome.equal,
        outcome.failures.len()
    );
    if outcome.failures.is_empty() {
        Ok(())
    } else {
        Err("the sides differ".to_owned())
    }
}

/// Returns the text of a file, or of the first seed's program.
fn text(plan: &batches::BatchPlan) -> Result<String, String> {
    match &plan.text {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display())),
        None => Ok(generate::program(plan.first)),
    }
}

/// Runs one program again. If the sides differ, it prints the smallest program that still shows the
/// difference.
fn repeat(plan: batches::BatchPlan) -> Result<(), String> {
    let plan = batches::BatchPlan { programs: 1, jobs: 1, ..plan };
    let executable = own_path()?;
    let outcome = batches::run(&executable, &plan);
    let Some(failure) = outcome.failures.first() else {
        println!("seed {}: equal", plan.first);
        return Ok(());
    };
    println!("step {}: {}", failure.step, failure.text);
    let text = text(&plan)?;
    let folder = hawser_documents::temporary::Folder::new().map_err(|error| error.to_string())?;
    let path = folder.join("shrunk.mtp");
    let smaller = batches::BatchPlan { text: Some(path.clone()), ..plan };
    let mut last = failure.text.clone();
    let shrunk = shrink::shrink(&text, &mut |text| {
        if compile::printed("shrunk", text.to_owned()).is_err() {
            return false;
        }
        let written = std::fs::write(&path, text).is_ok();
        let found = batches::run(&executable, &smaller);
        let differs = found
            .failures
            .first()
            .filter(|failure| !failure.text.starts_with("rejected"));
        if let Some(failure) = differs {
            last = format!("step {}: {}", failure.step, failure.text);
        }
        written && differs.is_some()
    });
    println!("{shrunk}\n{last}");
    Err("the sides differ".to_owned())
}
