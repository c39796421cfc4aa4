//! A batch of programs in a process of its own: compiled together, loaded, compared one by one.
//!
//! The parent reads what it prints, line by line; the last `at` shows where it died, if it did.
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
use crate::compile::{self, Printed, Settings};
use crate::course::{compare, send};
use crate::coverage::Coverage;
use crate::generate;
use crate::native::Library;

/// How long a step may take before it counts as one that never ends.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// What a worker does.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The first program's seed.
    pub first: u64,
    /// How many programs.
    pub count: u64,
    /// A program's text to take instead of the first seed's.
    pub text: Option<PathBuf>,
    /// How C is compiled.
    pub settings: Settings,
}

/// Runs a batch and reports what was found.
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
        // Some program does not compile: each alone, to know which.
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

/// The programs in one shared object, and the folder that it lies in.
fn load(
    programs: &[(u64, Printed)],
    settings: &Settings,
) -> Result<(hawser_temporary::Folder, Library), String> {
    let folder = hawser_temporary::Folder::new().map_err(|error| error.to_string())?;
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
    // The generator has attachments for its own programs alone.
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

/// Ends the process when nothing moves: generated code that loops for ever.
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
