//! The crate's tests, one program: each links everything.

mod examples;
mod failures;
mod hostile;
mod round_trip;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_step::{Report, parse, run};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The program that a file of the examples names.
fn program(name: &str, params: &[String]) -> Arc<dyn Program> {
    let name = match name.ends_with(".mtp") {
        true => examples().join(name).display().to_string(),
        false => name.to_owned(),
    };
    resolve_with_on(Some(Engine::Interp), &name, params).unwrap_or_else(|error| panic!("{error}"))
}

fn steps(text: &str) -> Report {
    let steps = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let (name, _) = steps.program().expect("it names a program");
    run(program(name, steps.params()), text, &steps, false).unwrap_or_else(|error| panic!("{error}"))
}
