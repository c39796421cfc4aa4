//! Failures that swarms have found in the programs of this repository, each as the simplest scenario that
//! failed. Each is a file in `found/`, whose comment describes the fault.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::{Options, ResolveError, Scenario, run};

/// The programs that claim all abilities: each must pass the failures found in the other.
const PROGRAMS: [&str; 2] = ["selective-repeat", "tcp"];

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

#[test]
fn scenarios_once_found_by_a_swarm_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    let mut checked = 0;
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let name = path.display();
        let text = fs::read_to_string(&path).expect("a text");
        let mut scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for program in PROGRAMS {
            program.clone_into(&mut scenario.program);
            let report = run(&scenario, &resolve, Options::default())
                .unwrap_or_else(|error| panic!("{name}, {program}: {error}"));
            assert!(report.ok, "{name}, {program}: {report}");
        }
        checked += 1;
    }
    assert!(checked >= 2, "{checked}");
}
