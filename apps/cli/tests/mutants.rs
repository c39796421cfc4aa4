//! `hawser sim mutants`: its report on a program is compared with the program's text.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn mutants(args: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args([
            "sim",
            "mutants",
            "examples/stop-and-wait.mtp",
            "--plain",
            "--json",
        ])
        .args(args)
        .output()
        .expect("hawser starts");
    let result = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), result)
}

/// `retransmissions` is visible only to watchers, so deleting its update goes unnoticed. Without its timer, a
/// lost packet stays lost.
#[test]
fn survivors_are_named_by_line() {
    let (code, result) = mutants(&["--changes", "delete", "--runs", "6"]);
    assert_eq!(code, Some(0), "{result}");
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/stop-and-wait.mtp"))
            .expect("the example");
    let lines: Vec<&str> = text.lines().collect();
    let survivors = result["survivors"].as_array().expect("a list");
    for survivor in survivors {
        let line = lines[survivor["line"].as_u64().expect("a number") as usize - 1];
        let first = survivor["was"].as_str().expect("a text").split(" {").next();
        assert!(
            first.is_some_and(|first| line.contains(first)),
            "{survivor}: {line}"
        );
    }
    let survived = |was: &str| survivors.iter().any(|survivor| survivor["was"] == was);
    assert!(survived("c.retransmissions += 1;"), "{result}");
    assert!(
        !survived("emit timer_start(c.rtx, max(c.rto, c.wait));"),
        "{result}"
    );
    let (killed, all) = (result["killed"].as_u64(), result["mutants"].as_u64());
    assert_eq!(
        killed.expect("a number") as usize + survivors.len(),
        all.expect("a number") as usize
    );
}

#[test]
fn a_goal_that_is_missed_fails() {
    let small = ["--changes", "delete", "--runs", "1", "--goal", "100"];
    let (code, result) = mutants(&small);
    assert_eq!((code, &result["ok"]), (Some(1), &Value::Bool(false)));
    assert_eq!(mutants(&["--changes", "swap"]).0, Some(2));
    assert_eq!(mutants(&["--file", "nosuch.mtp", "--runs", "1"]).0, Some(2));
}
