//! The scripts of transports/tcp/scripts pass, with all comparisons.

use std::path::{Path, PathBuf};

use hawser_load::{Engine, LoadedProgram};
use hawser_testkit::script::{Departures, IpVersion, Leniency, RunTarget, ScriptEnvironment, Table, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports/tcp/scripts")
}

fn scripts(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder of scripts");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            scripts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            found.push(path);
        }
    }
}

fn run_all(engine: Engine) {
    let program = LoadedProgram::open("tcp", Some(engine)).expect("it comes with Hawser");
    let table = Table::parse(hawser_load::script_table("tcp").expect("its table")).expect("a good table");
    let bench = ScriptEnvironment {
        program: &|params| program.with(params),
        table: &table,
        read: &|path| std::fs::read_to_string(path).ok(),
        defines: Default::default(),
        version: IpVersion::V4,
        target: RunTarget::Sim,
        system: None,
        leniency: Leniency::default(),
        observe: None,
    };
    let mut found = Vec::new();
    scripts(&folder(), &mut found);
    assert!(found.len() >= 340, "only {} scripts", found.len());
    let mut failures = Vec::new();
    for path in &found {
        let text = std::fs::read_to_string(path).expect("a script");
        let report = run(&text, path.parent().expect("it has a folder"), &bench);
        let name = path.strip_prefix(folder()).unwrap_or(path).display().to_string();
        if !report.passed() {
            failures.push(report.explain(&name));
        } else if !report.notes.is_empty() {
            failures.push(format!(
                "{name}: settings without an effect: {}",
                report.notes.join("; ")
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} scripts:\n{}",
        failures.len(),
        found.len(),
        failures.join("\n")
    );
}

#[test]
fn every_script_passes_on_the_interpreter() {
    run_all(Engine::Interp);
}

#[test]
fn every_script_passes_as_machine_code() {
    run_all(Engine::Native);
}

#[test]
fn every_script_names_its_rule() {
    let mut found = Vec::new();
    scripts(&folder(), &mut found);
    for path in found {
        let text = std::fs::read_to_string(&path).expect("a script");
        let rfc = path
            .parent()
            .and_then(Path::file_name)
            .expect("a folder")
            .to_string_lossy()
            .into_owned();
        let number = rfc
            .strip_prefix("RFC")
            .unwrap_or_else(|| panic!("{} is in no folder RFC…", path.display()));
        let first = text.lines().next().unwrap_or("");
        assert!(
            first.starts_with(&format!("// RFC {number}, ")),
            "{} begins with `// RFC {number}, section: what it shows`",
            path.display()
        );
    }
}

#[test]
fn the_declared_departures_can_be_read() {
    let text = hawser_load::departures("tcp").expect("its list");
    Departures::parse(text).expect("a good list");
}
