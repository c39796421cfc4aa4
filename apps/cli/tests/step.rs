//! `hawser test` and `hawser sim step`: files, the prompt, and the reports on files that fail.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn hawser(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hawser starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the folder is there");
    path
}

#[test]
fn the_files_of_a_folder_run_on_both_engines() {
    for engine in ["interp", "native"] {
        let output = hawser(&["test", "examples", "--json", "--engine", engine], "");
        let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(report["ok"], true, "{report}");
        assert!(report["files"].as_u64() >= Some(4), "{report}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn exit_codes_tell_a_failing_file_from_one_that_cannot_be_read() {
    let failing = file("failing.steps", "program tcp\nconnect 80\n> nothing for 1s\n");
    let output = hawser(&["test", &failing.display().to_string()], "");
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    assert!(
        printed.contains(":3:1: at 0s\n") && printed.contains("expected: no packet until 1s"),
        "{printed}"
    );
    assert!(printed.contains("sent by "), "{printed}");

    let broken = file("broken.steps", "program tcp\nconect 80\n");
    let output = hawser(&["test", &broken.display().to_string()], "");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("broken.steps:2:1: `conect` begins no step"));
    assert_eq!(hawser(&["test"], "").status.code(), Some(2));
}

#[test]
fn typed_steps_are_answered_and_can_be_saved() {
    let typed = "connect 7001 from 40000\nsend 100\n+250ms\n< SW{sport: 7001, dport: 40000, kind: ACK, seq: 0}\nsned\n";
    let saved = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("typed.steps");
    let program = format!("{}/../../examples/stop-and-wait.mtp", env!("CARGO_MANIFEST_DIR"));
    let save = saved.display().to_string();
    let output = hawser(&["sim", "step", "--program", &program, "--save", &save], typed);
    assert_eq!(output.status.code(), Some(1), "one line is no step");
    assert!(text(&output.stderr).contains("5:1: `sned` begins no step"));
    let printed = text(&output.stdout);
    let packet = "> SW{sport: 40000, dport: 7001, kind: DATA, zero: 0, seq: 0, data: 100@0}";
    assert_eq!(printed.matches(packet).count(), 2, "{printed}");
    assert!(
        printed.contains("+100ms") && printed.contains("notify CONNECTED"),
        "{printed}"
    );

    let again = hawser(&["test", &save, "--json"], "");
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stdout));
}
