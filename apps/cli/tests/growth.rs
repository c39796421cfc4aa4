//! Work grows with the length of a program and no faster: instructions of `hawser check`, `fmt` and
//! `emit`, counted by valgrind, for a program and for one eight times as long.
//!
//! A count, and not a time: it is the same on a busy machine.

use std::path::Path;
use std::process::Command;

#[path = "../../../lang/tests/large.rs"]
mod large;

use large::{SHAPES, Shape};

/// Lines of the shorter program.
const LINES: usize = 250;
/// How much longer the other one is.
const FACTOR: usize = 8;
/// The most that it may take, in times of what the shorter one takes: sorting and the like are free to
/// grow by their logarithm. A square would be 64.
const MAX_GROWTH: f64 = 1.25 * FACTOR as f64;

/// Instructions of `hawser …` over a program.
fn instructions(command: &str, name: &str, text: &str) -> u64 {
    counted(command, &format!("{command}_{name}.mtp"), text)
}

/// Instructions of `hawser …` over a file.
fn counted(command: &str, name: &str, text: &str) -> u64 {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the folder for tests can be written");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            env!("CARGO_BIN_EXE_hawser"),
            command,
        ])
        .arg(&path)
        .output()
        .expect("valgrind starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let count = stderr
        .lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    count.unwrap_or_else(|| panic!("valgrind printed no count: {stderr}"))
}

/// How many times the work of a short program a long one is, beyond what the command's start costs.
fn growth(command: &str, shape: Shape, start: u64) -> f64 {
    let beyond_start = |lines: usize| {
        let name = format!("{shape:?}_{lines}");
        instructions(command, &name, &shape.program(lines)) as f64 - start as f64
    };
    beyond_start(LINES * FACTOR) / beyond_start(LINES)
}

fn no_faster(command: &str, shapes: &[Shape]) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: growth of {command}: valgrind is not installed");
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
    no_faster("emit", &[Shape::Protocols, Shape::Statements, Shape::Fields]);
}

/// Leaves and spines whose hosts call one another, and no time in which anything could happen.
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

/// Of twice the hosts, four times as many pairs may call each other; no work is done for a pair.
#[test]
fn setting_up_hosts_grows_with_their_number() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: growth of scenarios: valgrind is not installed");
        return;
    }
    let [one, two] = [100, 200].map(|hosts| counted("sim", &format!("fabric_{hosts}.toml"), &fabric(hosts)));
    let growth = two as f64 / one as f64;
    println!("hawser sim: twice the hosts, {growth:.2} times the work");
    assert!(growth < 2.2, "twice the hosts are {growth:.1} times the work");
}
