//! Runs recorded vectors through the generated C in a process of its own, under the address and
//! undefined-behaviour sanitizers. The programs are every transport of this repository with its variants, the
//! examples, and a sample of the random programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_driver::{Compilation, Disk, Instead, compile_with};
use hawser_equality::compile::{self, Printed};
use hawser_equality::vectors::{record, replay};
use hawser_interp::Interpreter;

/// The seeds of the sample.
const SAMPLE: std::ops::Range<u64> = 900..904;
/// The number of courses of fifty events, for TCP and for each other program, unless `cargo xtask long
/// sanitized` sets others.
const COURSES: [u64; 2] = [20, 2];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn printed(mut compilation: Compilation) -> Printed {
    let module = Arc::new(compilation.module.take().expect("the program checks"));
    let params = module.params.iter().map(|param| param.default).collect();
    let interpreter = Interpreter::new(module.clone(), params).expect("the program runs");
    compile::of_module(String::new(), module, interpreter)
}

/// A program of this repository.
fn program(path: &Path) -> Printed {
    printed(hawser_driver::compile(path))
}

/// Returns every transport and its variants, with their names.
fn transports() -> Vec<(String, Printed)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root().join("transports")).expect("the folder") {
        let folder = entry.expect("a folder").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let main = folder.join(format!("{name}.mtp"));
        all.push((name.clone(), program(&main)));
        let variants = std::fs::read_to_string(folder.join("variants")).unwrap_or_default();
        for line in variants.lines().filter(|line| !line.starts_with('#')) {
            let [variant, part, other] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{name}: {line}")
            };
            let instead = Instead { loader: &Disk, part: &folder.join(part), other: &folder.join(other) };
            all.push((
                format!("{name}-{variant}"),
                printed(compile_with(&instead, &main)),
            ));
        }
    }
    all
}

/// Returns the number of courses that the long mode sets.
fn courses(usual: u64) -> u64 {
    let asked = std::env::var("HAWSER_SANITIZED_COURSES").ok();
    asked.map_or(usual, |courses| courses.parse().expect("a number of courses"))
}

fn run(printed: &Printed, courses: u64) {
    let vectors = record(printed, courses).expect("the interpreter does what it does");
    assert!(vectors.calls > 50, "{} calls", vectors.calls);
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    assert_eq!(replay(&folder, printed, &vectors), Ok(()));
}

fn check(printed: &Printed, courses: u64) {
    let vectors = record(printed, courses).expect("the interpreter does what it does");
    assert!(vectors.calls > 50, "{} calls", vectors.calls);
    let folder = hawser_documents::temporary::Folder::new().expect("a folder");
    let outcome = replay(&folder, printed, &vectors);
    assert_eq!(outcome, Ok(()), "{}", printed.text);

    // A change of any expected byte must be noticed: at the beginning, in the middle, at the end.
    for part in 0..3 {
        let mut wrong = vectors.clone();
        let range = &wrong.expected[(wrong.expected.len() - 1) * part / 2];
        let at = (range.start + range.end) / 2;
        wrong.bytes[at] ^= 1;
        let message = replay(&folder, printed, &wrong).expect_err("a byte is wrong");
        assert!(message.contains("expected"), "{message}");
    }
}

#[test]
fn tcp_holds_under_sanitizers() {
    check(
        &program(&root().join("transports/tcp/tcp.mtp")),
        courses(COURSES[0]),
    );
}

#[test]
fn other_transports_hold_under_sanitizers() {
    let others = transports().into_iter().filter(|(name, _)| name != "tcp");
    let mut names = Vec::new();
    for (name, printed) in others {
        println!("{name}");
        run(&printed, courses(COURSES[1]));
        names.push(name);
    }
    assert!(names.len() >= 8, "{names:?}");
}

#[test]
fn examples_hold_under_sanitizers() {
    for name in ["datagrams", "go-back-n", "stop-and-wait"] {
        run(
            &program(&root().join(format!("examples/{name}.mtp"))),
            courses(COURSES[1]),
        );
    }
}

#[test]
fn random_programs_hold_under_sanitizers() {
    for seed in SAMPLE {
        check(&compile::generated(seed).expect("the program checks"), 1);
    }
}
