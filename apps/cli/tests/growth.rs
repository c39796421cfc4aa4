//! Work grows at most linearly with the length of a program. Valgrind counts the instructions of `hawser
//! check`, `fmt` and `emit` for a program and for one eight times as long.
//!
//! Counts are compared instead of times, because they are the same on a busy machine.

use std::path::Path;
use std::process::Command;

#[path = "../../../lang/tests/large.rs"]
mod large;

use hawser_testing::{Need, has};
use large::{SHAPES, Shape};

/// The length of the shorter program, in lines.
const LINES: usize = 250;
/// The ratio of the two lengths.
const FACTOR: usize = 8;
/// The maximum ratio of work. Sorting and the like may grow by an additional logarithm; quadratic work would
/// give 64.
const MAX_GROWTH: f64 = 1.25 * FACTOR as f64;

/// Counts the instructions of `hawser …` for a program.
fn instructions(command: &str, name: &str, text: &str) -> u64 {
    counted(
        command,
        &format!("{}_{name}.mtp", command.replace(' ', "_")),
        text,
    )
}

/// Counts the instructions of `hawser …` for a file.
fn counted(command: &str, name: &str, text: &str) -> u64 {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the folder for tests can be written");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            env!("CARGO_BIN_EXE_hawser"),
        ])
        .args(command.split(' '))
        .arg(&path)
        .output()
        .expect("valgrind starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let count = stderr
        .lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.unwrap_or_else(|| panic!("valgrind printed no count: {stderr}"))
}

/// Returns the ratio of work between the long and the short program, without the cost of starting the
/// command.
fn growth(command: &str, shape: Shape, start: u64) -> f64 {
    let beyond_start = |lines: usize| {
        let name = format!("{shape:?}_{lines}");
        instructions(command, &name, &shape.program(lines)) as f64 - start as f64
    };
    beyond_start(LINES * FACTOR) / beyond_start(LINES)
}

fn no_faster(command: &str, shapes: &[Shape]) {
    if !has(format_args!("growth of {command}"), &[Need::Valgrind]) {
        return;
    }
    let start = instructions(command, "nothing", "// Nothing.\n");
    for shape in shapes {
        let growth = growth(command, *shape, start);
        println!("hawser {command}, {shape:?}: {FACTOR} times the lines, {growth:.2} times the work");
        assert!(
            growth < MAX_GROWTH,
            "hawser {command}, {shape:?}: {growth:.1} times the work"
        );
    }
}

#[test]
fn checking_grows_with_the_program() {
    no_faster("check", &SHAPES);
}

#[test]
fn formatting_grows_with_the_program() {
    no_faster("fmt", &SHAPES);
}

#[test]
fn emitting_grows_with_the_program() {
    no_faster(
        "build --as c",
        &[Shape::Protocols, Shape::Statements, Shape::Fields],
    );
}

/// A leaf-spine network whose hosts call one another, with a duration in which no event can happen.
fn fabric(hosts: usize) -> String {
    format!(
        "duration = '1ns'\nprogram = 'homa'\n[topology]\nkind = 'leaf-spine'\nleaves = {}\nspines = 8\nhosts = 25\n\
         host_link = {{ rate = '10Gbit/s', delay = '500ns' }}\ncore_link = {{ rate = '40Gbit/s', delay = '500ns' }}\n\
         switch = {{ priorities = 8 }}\n[[flow]]\nfrom = 'h[0-{last}]'\nto = 'h[0-{last}]'\npairs = 'others'\n\
         calls = {{ count = 1, size = 100, reply = 8 }}\n",
        hosts / 25,
        last = hosts - 1
    )
}

/// With twice the hosts, four times as many pairs may call each other, but no work is done per pair.
#[test]
fn setting_up_hosts_grows_with_their_number() {
    if !has("growth of scenarios", &[Need::Valgrind]) {
        return;
    }
    let [one, two] =
        [100, 200].map(|hosts| counted("sim run", &format!("fabric_{hosts}.toml"), &fabric(hosts)));
    let growth = two as f64 / one as f64;
    println!("hawser sim run: twice the hosts, {growth:.2} times the work");
    assert!(growth < 2.2, "twice the hosts are {growth:.1} times the work");
}
