//! `hawser lab self-test --quick`: links have the configured rate, delay and loss.

use std::process::Command;

use hawser_testing::{Need, has};

use crate::TURN;

#[test]
fn the_lab_self_test_passes() {
    if !has("lab self-test", &[Need::Netns]) {
        return;
    }
    let _turn = TURN.lock();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
    let output = command
        .args(["lab", "self-test", "--quick", "--json"])
        .output()
        .expect("the command");
    let error = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    let report: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{error}"));
    assert_eq!(report["ok"], true, "{text}");
    assert!(output.status.success(), "{error}");
    let rows = report["rows"].as_array().expect("rows");
    assert!(
        rows.iter()
            .any(|row| row["rate"] == 1e9 && row["through"] == "cell"),
        "1 Gbit/s is measured"
    );
    assert!(
        report["floor"]["cell"]["p50"].as_f64().is_some_and(|us| us > 0.0),
        "the floor is reported"
    );
}
