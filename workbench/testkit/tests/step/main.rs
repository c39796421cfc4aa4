//! The crate's tests, in one program, since each program links everything.

mod examples;
mod failures;
mod hostile;
mod round_trip;
mod signed;
mod transports;
mod verbs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_testkit::step::{StepReport, parse, run};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Returns the program that a file in a folder names.
fn program(name: &str, folder: &Path, params: &[String]) -> Arc<dyn Program> {
    let name = match name.ends_with(".mtp") {
        true => folder.join(name).display().to_string(),
        false => name.to_owned(),
    };
    resolve_with_on(Some(Engine::Interp), &name, params).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a file of the examples.
fn steps(text: &str) -> StepReport {
    steps_in(text, &examples(), None)
}

/// Runs a file in a folder, optionally with another program than it names.
fn steps_in(text: &str, folder: &Path, other: Option<String>) -> StepReport {
    let steps = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let (name, _) = steps.program().expect("it names a program");
    let name = other.as_deref().unwrap_or(name);
    let program = program(name, folder, steps.params());
    run(program, text, &steps, false).unwrap_or_else(|error| panic!("{error}"))
}
