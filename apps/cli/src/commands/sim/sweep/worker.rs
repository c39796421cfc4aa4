//! Runs tasks in a process of its own, so that a crash does not stop the others.

use std::io::{self, BufRead, Write};

use hawser::programs::Programs;
use hawser::runs::sweep::{Planner, Sweep};
use sha2::{Digest, Sha256};

use super::refused;
use crate::exit::{Exit, Outcome};
use crate::terminal::EscapedWriter;

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

/// Reads the numbers of tasks, one per line, and runs them. Each is answered with a line: the result, or
/// `{"error": …}`.
pub(super) fn serve(sweep: &Sweep, planner: &mut Planner<'_>, programs: &Programs) -> Outcome {
    let broken =
        |error: io::Error| Exit::environment(format!("the connection to the sweep's process broke: {error}"));
    for line in io::stdin().lock().lines() {
        let line = line.map_err(broken)?;
        let done = match line.trim().parse() {
            Ok(number) => sweep
                .task(planner, number)
                .and_then(|task| sweep.run(task, programs))
                .map_err(refused),
            Err(_) => Err(Exit::usage(format!(
                "expected the number of a task, not `{line}`"
            ))),
        };
        let mut answer = match done {
            Ok(done) => serde_json::to_string(&done),
            Err(exit) => serde_json::to_string(&serde_json::json!({ "error": exit.to_string() })),
        }
        .map_err(Exit::failed)?;
        answer.push('\n');
        let mut out = EscapedWriter(io::stdout().lock());
        out.write_all(answer.as_bytes())
            .and_then(|()| out.flush())
            .map_err(broken)?;
    }
    Ok(())
}
