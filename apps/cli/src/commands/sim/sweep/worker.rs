//! Runs single tasks in a process of its own, so that a crash does not stop the others.

use std::io::{self, BufRead, Write};

use hawser::programs::Programs;
use hawser::runs;
use hawser::runs::sweep::{Done, Planner, Sweep, Task};
use sha2::{Digest, Sha256};

use super::folder::Folder;
use crate::exit::{Exit, Outcome};
use crate::terminal::Text;

/// Returns a hash of this executable, because another version of Hawser may give other results.
pub(super) fn revision() -> Result<String, Exit> {
    let own = || {
        let mut hash = Sha256::new();
        io::copy(&mut std::fs::File::open("/proc/self/exe")?, &mut hash)?;
        Ok(hash.finalize())
    };
    let hash =
        own().map_err(|error: io::Error| Exit::environment(format!("cannot read this program: {error}")))?;
    Ok(format!("{hash:x}"))
}

/// Runs a task and returns its result.
fn result(sweep: &Sweep, task: &Task, programs: &Programs) -> Result<Done, Exit> {
    let report =
        runs::run_with(programs, &task.scenario, Some(task.seed), None, None).map_err(Exit::input)?;
    let choices = sweep.axes().map(str::to_owned).zip(task.choices.iter().cloned());
    Ok(Done {
        id: task.id.clone(),
        choices: choices.collect(),
        seed: task.seed,
        report: serde_json::to_value(&report).map_err(Exit::failed)?,
    })
}

fn checked(sweep: &Sweep, number: usize) -> Result<usize, Exit> {
    match (1..=sweep.count()).contains(&number) {
        true => Ok(number),
        false => Err(Exit::usage(format!(
            "no task {number}: there are {}, from 1",
            sweep.count()
        ))),
    }
}

/// Runs one task, unless it has a result.
pub(super) fn one(
    sweep: &Sweep,
    planner: &mut Planner<'_>,
    programs: &Programs,
    number: usize,
    folder: &Folder,
) -> Outcome {
    let task = planner.task(checked(sweep, number)?).map_err(Exit::input)?;
    match folder.has(&task.id) {
        true => Ok(()),
        false => folder.keep(&result(sweep, &task, programs)?),
    }
}

/// Reads the numbers of tasks, one per line, and runs them. Each is answered with a line: the result, or
/// `{"error": …}`.
pub(super) fn serve(sweep: &Sweep, planner: &mut Planner<'_>, programs: &Programs) -> Outcome {
    let broken = |error: io::Error| Exit::environment(format!("the worker lost its master: {error}"));
    for line in io::stdin().lock().lines() {
        let line = line.map_err(broken)?;
        let run = || {
            let number = line
                .trim()
                .parse()
                .map_err(|_| Exit::usage(format!("no number: {line}")))?;
            let task = planner.task(checked(sweep, number)?).map_err(Exit::input)?;
            result(sweep, &task, programs)
        };
        let mut run = run;
        let mut answer = match run() {
            Ok(done) => serde_json::to_string(&done),
            Err(exit) => serde_json::to_string(&serde_json::json!({ "error": exit.to_string() })),
        }
        .map_err(Exit::failed)?;
        answer.push('\n');
        let mut out = Text(io::stdout().lock());
        out.write_all(answer.as_bytes())
            .and_then(|()| out.flush())
            .map_err(broken)?;
    }
    Ok(())
}
