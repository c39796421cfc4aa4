//! The files of steps that come with the transports pass: `transports/NAME/steps`.

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

/// With `HAWSER_QUIC_LITE` they are about that program.
#[test]
fn quic_lite_does_what_its_steps_say() {
    let files = files("quic-lite");
    assert!(files.len() >= 20, "{}", files.len());
    let mut failures = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let folder = file.parent().expect("it lies in a folder");
        let report = steps_in(&text, folder, std::env::var("HAWSER_QUIC_LITE").ok());
        if !report.passed() {
            failures.push_str(&report.explain(&file.display().to_string()));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
