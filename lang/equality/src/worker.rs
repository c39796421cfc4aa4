//! A batch of programs in a process of its own: compiled together, loaded, compared one by one.
//!
//! The parent reads the output line by line. If the process dies, the last `at` shows the step.
//!
//! ```text
//! at SEED STEP            about to run this step
//! differs SEED STEP       followed by lines that begin with `| `
//! rejected SEED           the same: a program that did not check or compile
//! node NAME PROGRAMS N    coverage
//! end
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::attached::Attached;
use crate::comparison::{compare, send};
use crate::compile::{self, Printed, Settings};
use crate::coverage::Coverage;
use crate::generate;
use crate::native::Library;

/// The time after which a step counts as an endless loop.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The work of a worker.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The first program's seed.
    pub first: u64,
    /// The number of programs.
    pub count: u64,
    /// A file with a program's text, which replaces the first seed's program.
    pub text: Option<PathBuf>,
    /// The options for compiling C.
    pub settings: Settings,
}

/// Runs a batch and reports the results.
pub fn run(batch: &Batch) {
    static STEPS: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(|| watch(&STEPS));
    let mut programs = Vec::new();
    for seed in batch.first..batch.first + batch.count {
        let printed = match &batch.text {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| error.to_string())
                .and_then(|text| compile::printed(&format!("random{seed}"), text)),
            None => compile::generated(seed),
        };
        match printed {
            Ok(printed) => programs.push((seed, printed)),
            Err(message) => report("rejected", seed, None, &message),
        }
    }
    let mut coverage = Coverage::default();
    if let Ok(library) = load(&programs, &batch.settings) {
        for (seed, printed) in &programs {
            one(*seed, printed, &library.1, &mut coverage, &STEPS);
        }
    } else {
        // Some program does not compile, so each is compiled alone to find it.
        for pair in programs.chunks(1) {
            match load(pair, &batch.settings) {
                Ok(library) => one(pair[0].0, &pair[0].1, &library.1, &mut coverage, &STEPS),
                Err(message) => report("rejected", pair[0].0, None, &message),
            }
        }
    }
    coverage
        .lines()
        .lines()
        .for_each(|line| send(&format!("node {line}")));
    send("end");
}

/// Loads the programs in one shared object, and returns it with its folder.
fn load(
    programs: &[(u64, Printed)],
    settings: &Settings,
) -> Result<(hawser_documents::temporary::Folder, Library), String> {
    let folder = hawser_documents::temporary::Folder::new().map_err(|error| error.to_string())?;
    let sources: Vec<(&str, &str)> = programs
        .iter()
        .map(|(_, p)| (p.name.as_str(), p.c.as_str()))
        .collect();
    let object = compile::shared_object(&folder, &sources, settings)?;
    let library = Library::open(&object)?;
    Ok((folder, library))
}

fn one(seed: u64, printed: &Printed, library: &Library, coverage: &mut Coverage, steps: &'static AtomicU64) {
    let native = match library.program(&printed.symbol, &printed.module, printed.params.clone()) {
        Ok(native) => native,
        Err(message) => return report("rejected", seed, None, &message),
    };
    let mut progress = |step: usize| {
        steps.fetch_add(1, Ordering::Relaxed);
        send(&format!("at {seed} {step}"));
    };
    if let Err((step, text)) = compare(printed, &native, seed, coverage, &mut progress) {
        return report("differs", seed, Some(step), &text);
    }
    // The generator has attachments only for its own programs.
    if printed.text != generate::program(seed) {
        return;
    }
    match Attached::new(printed, &native, &generate::attachment(seed)) {
        Ok(attached) => {
            if let Err((step, text)) = attached.compare(seed, coverage, &mut progress) {
                report(
                    "differs",
                    seed,
                    Some(step),
                    &format!("with its attachment: {text}"),
                );
            }
        }
        Err(message) => report("rejected", seed, None, &message),
    }
}

fn report(what: &str, seed: u64, step: Option<usize>, text: &str) {
    send(&format!("{what} {seed} {}", step.unwrap_or(0)));
    text.lines().for_each(|line| send(&format!("| {line}")));
}

/// Ends the process if a step makes no progress, because generated code may loop for ever.
fn watch(steps: &'static AtomicU64) {
    loop {
        let before = steps.load(Ordering::Relaxed);
        std::thread::sleep(STEP_TIMEOUT);
        if before > 0 && steps.load(Ordering::Relaxed) == before {
            send("differs 0 0\n| a step does not end");
            std::process::abort();
        }
    }
}
