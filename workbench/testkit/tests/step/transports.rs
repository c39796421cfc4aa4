//! The files of steps that come with the transports, `transports/NAME/steps`, pass.

use std::path::{Path, PathBuf};

use super::steps_in;

fn files(transport: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports");
    let folder = std::fs::read_dir(folder.join(transport).join("steps")).expect("the folder is there");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "steps"))
        .collect();
    files.sort();
    files
}

/// Checks that the files of a transport pass. The environment variable `variable` may name another program
/// for them.
fn pass(transport: &str, variable: &str, at_least: usize) {
    let files = files(transport);
    assert!(files.len() >= at_least, "{}", files.len());
    let mut failures = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let folder = file.parent().expect("it lies in a folder");
        let report = steps_in(&text, folder, std::env::var(variable).ok());
        if !report.passed() {
            failures.push_str(&report.explain(&file.display().to_string()));
            failures.push('\n');
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn quic_lite_passes_its_steps() {
    pass("quic-lite", "HAWSER_QUIC_LITE", 20);
}

#[test]
fn roce_passes_its_steps() {
    pass("roce", "HAWSER_ROCE", 10);
}

#[test]
fn homa_passes_its_steps() {
    pass("homa", "HAWSER_HOMA", 2);
}

#[test]
fn ndp_passes_its_steps() {
    pass("ndp", "HAWSER_NDP", 1);
}
