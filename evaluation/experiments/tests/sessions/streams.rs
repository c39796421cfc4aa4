//! Runs `hawser experiment mtp-quiclite-hol-lab` as a user does.

use std::process::Command;

use hawser_documents::temporary::Folder;
use serde_json::Value;

use crate::TestResult;

/// No message can be faster than the link: at 200 Mbit/s, 32 KB take 1.3 ms and 1 MB takes 42 ms.
pub(crate) fn messages_of_two_sizes_fill_the_line() -> TestResult {
    let folder = Folder::new()?;
    let output = Command::new(env!("CARGO_BIN_EXE_hawser-experiment"))
        .args([
            "mtp-quiclite-hol-lab",
            "--quick",
            "--iterations",
            "1",
            "--json",
            "-o",
        ])
        .arg(folder.join("out"))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let rows = result["figures"]["rows"].as_array().ok_or("rows")?;
    assert_eq!(rows.len(), 12, "three loads, two sizes, two carriers: {result}");
    for row in rows {
        let bytes = row["bytes"].as_f64().ok_or("bytes")?;
        let min_us = bytes * 8.0 / 200.0;
        let [mean, p99] = ["mean_us", "p99_us"].map(|which| row[which]["median"].as_f64().unwrap_or(0.0));
        assert!(min_us <= mean && mean <= p99 && p99 < 20_000_000.0, "{row}");
    }
    assert!(folder.join("out/head-of-line.svg").is_file());
    Ok(())
}
