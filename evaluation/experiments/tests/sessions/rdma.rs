//! Runs `hawser experiment rdma-latency` as a user does.

use std::process::Command;

use hawser_documents::temporary::Folder;
use serde_json::Value;

use crate::TestResult;

/// The clients themselves compare the server's memory with the expected contents. A latency must be some
/// microseconds at least; a shorter one would be an error.
pub(crate) fn works_and_round_trips_of_tcp_are_measured() -> TestResult {
    let folder = Folder::new()?;
    let output = Command::new(env!("CARGO_BIN_EXE_hawser-experiment"))
        .args(["rdma-latency", "--quick", "--iterations", "1", "--json", "-o"])
        .arg(folder.join("out"))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let rows = result["figures"]["rows"].as_array().ok_or("rows")?;
    let works: Vec<&str> = rows.iter().filter_map(|row| row["work"].as_str()).collect();
    let all = [
        "write 64 B",
        "read 64 B",
        "Linux TCP 64 B",
        "write 64 KB",
        "Linux TCP stream",
    ];
    assert_eq!(works, all, "{result}");
    let of = |row: &Value, which: &str| row[which]["median"].as_f64().unwrap_or(0.0);
    for row in &rows[..3] {
        assert!(
            1.0 < of(row, "p50_us") && of(row, "p50_us") <= of(row, "p99_us"),
            "{row}"
        );
    }
    for row in &rows[3..] {
        let rate = of(row, "gbit_per_second");
        assert!(0.0 < rate && rate < 1_000.0, "{row}");
    }
    for row in [&rows[2], &rows[4]] {
        let ratio = if row["size"] == 64 {
            "p50_to_linux"
        } else {
            "to_linux"
        };
        assert_eq!(of(row, ratio), 1.0, "{row}");
    }
    assert!(folder.join("out/times.svg").is_file() && folder.join("out/rate.svg").is_file());
    Ok(())
}
