//! Recorded vectors through the generated C in a process of its own, under the address and
//! undefined-behaviour sanitizers: the built-in TCP, and a sample of the random programs.

use std::path::Path;
use std::sync::Arc;

use hawser_equality::compile::{self, Printed};
use hawser_equality::vectors::{record, replay};
use hawser_interp::Interpreter;

/// Random programs of the sample.
const SAMPLE: std::ops::Range<u64> = 900..904;
/// Courses of fifty events of TCP.
const COURSES: u64 = 20;

/// A program of this repository.
fn program(path: &str) -> Printed {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let mut compilation = hawser_driver::compile(&path);
    let module = Arc::new(compilation.module.take().expect("the program checks"));
    let params = module.params.iter().map(|param| param.default).collect();
    let interpreter = Interpreter::new(module.clone(), params).expect("the program runs");
    compile::of_module(String::new(), module, interpreter)
}

fn check(printed: &Printed, courses: u64) {
    let vectors = record(printed, courses).expect("the interpreter does what it does");
    assert!(vectors.calls > 50, "{} calls", vectors.calls);
    let folder = hawser_temporary::Folder::new().expect("a folder");
    let outcome = replay(&folder, printed, &vectors);
    assert_eq!(outcome, Ok(()), "{}", printed.text);

    // Of the bytes that are expected none may change: at the beginning, in the middle, at the end.
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
    check(&program("transports/tcp/tcp.mtp"), COURSES);
}

#[test]
fn random_programs_hold_under_sanitizers() {
    for seed in SAMPLE {
        check(&compile::generated(seed).expect("the program checks"), 1);
    }
}
