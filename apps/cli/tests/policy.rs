//! `hawser policy`: ranking, explanations, checks, and exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Returns the exit code, standard output and standard error.
fn hawser(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(arguments)
        .output()
        .expect("hawser starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap_or(-1),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    repository()
        .join("examples/policy")
        .join(name)
        .display()
        .to_string()
}

fn file(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("the folder for tests can be written");
    path.display().to_string()
}

fn rank(more: &[&str]) -> (i32, String, String) {
    let (pib, cib, request) = (example("pib"), example("cib"), example("video.request.toml"));
    let mut arguments = vec![
        "policy",
        "rank",
        "--pib",
        &pib,
        "--cib",
        &cib,
        "--request",
        &request,
    ];
    arguments.extend(more);
    hawser(&arguments)
}

fn candidates(report: &Value) -> Vec<String> {
    let text = |candidate: &Value, name: &str| {
        candidate["properties"][name]["value"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    };
    let all = report["candidates"].as_array().expect("a list");
    all.iter()
        .map(|one| format!("{} {}", text(one, "transport"), text(one, "interface")))
        .collect()
}

/// The order follows from the rules: a compared property counts before one that was not compared. On eth0,
/// the round trip (4) and the wired link (1) are compared. On wlan0 the round trip is not compared, and the
/// preference for a wired link yields to the actual one. Within an interface the transport's own score
/// decides.
#[test]
fn the_example_is_ranked() {
    let (code, out, err) = rank(&["--json", "--now", "1700000000"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let report: Value = serde_json::from_str(&out).expect("JSON alone");
    let found = candidates(&report);
    let expected = [
        "QUIC eth0",
        "TLS/TCP eth0",
        "QUIC none",
        "TLS/TCP none",
        "TLS/TCP wlan0",
        "QUIC wlan0",
    ];
    assert_eq!(found, expected);
    assert!(
        !found.iter().any(|one| one.starts_with("TCP ")),
        "security is demanded: {found:?}"
    );
    assert_eq!(report["candidates"][0]["score"], serde_json::json!([5.0, 3.0]));
    assert_eq!(report["candidates"][1]["properties"]["so/6/1"]["value"], 1);
}

/// The measurement has expired, so the round trip no longer counts.
#[test]
fn rank_uses_the_time_of_the_option() {
    let (_, out, _) = rank(&["--json", "--now", "1700000301"]);
    let report: Value = serde_json::from_str(&out).expect("JSON alone");
    assert_eq!(report["candidates"][0]["score"], serde_json::json!([1.0, 7.0]));
}

#[test]
fn reasons_name_profiles_rows_and_policies() {
    let (code, out, _) = rank(&["--explain", "--now", "1700000000"]);
    assert_eq!(code, 0);
    for part in [
        "1. QUIC  score 5 | 3",
        "profile reliable says: QUIC  [optional, score 3]",
        "row eth0 ← eth0_rtt agrees: 12  [optional, score 4, evaluated]",
        "row wlan0 stands against it: false  [immutable, evaluated]",
        "policy nodelay says: 1  [optional]",
        "so/6/1 (TCP_NODELAY) = 1",
        "by profile reliable: security is true, and must be false",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    let (_, out, _) = rank(&["--explain", "--json"]);
    let report: Value = serde_json::from_str(&out).expect("JSON alone");
    assert!(report["rejected"].as_array().is_some_and(|list| !list.is_empty()));
    assert!(
        report["candidates"][0]["steps"]
            .as_array()
            .is_some_and(|list| list.len() >= 2)
    );
}

#[test]
fn shipped_policies_rank_without_folders() {
    let (code, out, _) = hawser(&[
        "policy",
        "rank",
        "--json",
        "--request",
        &example("video.request.toml"),
    ]);
    assert_eq!(code, 0);
    let report: Value = serde_json::from_str(&out).expect("JSON alone");
    assert_eq!(
        report["candidates"][0]["properties"]["transport"]["value"],
        "session"
    );
}

#[test]
fn the_policy_examples_pass_the_check() {
    let mut files = vec![example("video.request.toml")];
    for folder in ["pib", "cib"] {
        let entries = fs::read_dir(example(folder)).expect("a folder");
        files.extend(entries.map(|entry| entry.expect("an entry").path().display().to_string()));
    }
    let shipped = fs::read_dir(repository().join("select/policy/shipped")).expect("a folder");
    files.extend(shipped.map(|entry| entry.expect("an entry").path().display().to_string()));
    let mut arguments = vec!["policy", "check", "--strict"];
    arguments.extend(files.iter().map(String::as_str));
    let (code, out, err) = hawser(&arguments);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out.lines().count(), files.len());
}

#[test]
fn files_are_checked_with_paths() {
    let wrong = file(
        "wrong.policy",
        r#"{ "match": { "trasport": { "value": "TCP" } }, "prio": 1 }"#,
    );
    let (code, _, err) = hawser(&["policy", "check", &wrong]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("match.trasport: this property does not exist (did you mean `transport`?"),
        "{err}"
    );
    let (code, out, _) = hawser(&["policy", "check", "--json", &wrong]);
    let diagnostics: Value = serde_json::from_str(&out).expect("JSON alone");
    assert_eq!((code, diagnostics.as_array().map(Vec::len)), (1, Some(2)));
    assert_eq!(diagnostics[0]["path"], "prio");
    let doubtful = file("doubtful.policy", r#"{ "match": { "quality": {} } }"#);
    assert_eq!(hawser(&["policy", "check", &doubtful]).0, 0);
    assert_eq!(hawser(&["policy", "check", "--strict", &doubtful]).0, 1);
}

#[test]
fn exit_codes_match_the_documentation() {
    let bad = file("bad.request.json", "{");
    let none = file(
        "none.request.json",
        r#"{ "transport": { "value": "TCP", "precedence": 2 }, "multihoming": { "value": true, "precedence": 2 } }"#,
    );
    let unnamed = file("unnamed.txt", "{}");
    let nan = ["policy", "rank", "--request", &none, "--now", "NaN"];
    let rows: [(&[&str], i32); 7] = [
        (&["policy", "rank", "--request", &none], 1),
        (&["policy", "rank", "--request", &bad], 3),
        (&["policy", "rank", "--request", "nosuch"], 3),
        (&["policy", "rank", "--request", &none, "--pib", "nosuch"], 3),
        (&nan, 2),
        (&["policy", "check", &unnamed], 2),
        (&["policy", "check", "nosuch.policy"], 3),
    ];
    for (arguments, expected) in rows {
        let (code, _, err) = hawser(arguments);
        assert_eq!(code, expected, "{arguments:?}: {err}");
        assert!(!err.is_empty(), "{arguments:?} says why");
    }
}
