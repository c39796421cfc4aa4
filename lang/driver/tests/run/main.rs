//! Runs every program of `lang/tests/run`, step by step, and compares its behaviour with the expectation
//! beside it. Expectations are worked out by hand from the language's rules.
//!
//! `NAME.mtp` is the program. `NAME.steps` lists its inputs, one step a line (see [`steps`]); without it, the
//! program is only started. `NAME.expected` is the expected output of the run. It has each step, each event
//! with its outcome and records, and at the end all contexts.

mod show;
mod steps;
mod world;

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_interp::Interpreter;

/// Returns all programs of the folder, in order.
fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/run");
    let entries = std::fs::read_dir(&folder).expect("the folder of programs is there");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut programs: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "mtp"))
        .collect();
    programs.sort();
    programs
}

/// Returns the output of a program, or the reason why it cannot run.
fn run(path: &Path) -> Result<String, String> {
    let mut compilation = hawser_driver::compile(path);
    let module = compilation
        .module
        .take()
        .ok_or_else(|| compilation.render(false))?;
    let params = module.params.iter().map(|p| p.default).collect();
    let program =
        Interpreter::new(Arc::new(module), params).map_err(|unsupported| unsupported.to_string())?;
    let script = read_to_string(path.with_extension("steps")).unwrap_or_else(|_| "start".into());
    let mut world = world::World::new(&program);
    for (number, line) in script.lines().enumerate() {
        if let Some(step) = steps::parse(line).map_err(|e| format!("step in line {}: {e}", number + 1))? {
            world.step(line.trim(), step)?;
        }
    }
    Ok(world.finish())
}

#[test]
fn every_program_prints_the_expected_output() {
    let mut failures = String::new();
    let programs = programs();
    assert!(!programs.is_empty());
    for path in programs {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let expected = read_to_string(path.with_extension("expected")).unwrap_or_default();
        match run(&path) {
            Ok(printed) if printed == expected => {}
            Ok(printed) => failures += &format!("== {name}\n{}", difference(&expected, &printed)),
            Err(error) => failures += &format!("== {name} does not run\n{error}\n"),
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// Returns the lines that differ: `-` expected, `+` printed.
fn difference(expected: &str, printed: &str) -> String {
    let (mut a, mut b) = (expected.lines(), printed.lines());
    let mut out = String::new();
    loop {
        match (a.next(), b.next()) {
            (None, None) => return out,
            (Some(x), Some(y)) if x == y => out += &format!("  {x}\n"),
            (x, y) => {
                x.into_iter().for_each(|x| out += &format!("- {x}\n"));
                y.into_iter().for_each(|y| out += &format!("+ {y}\n"));
            }
        }
    }
}
