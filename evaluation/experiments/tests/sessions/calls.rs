//! Runs `hawser experiment mtp-rpc-latency` as a user does.

use std::process::Command;

use hawser_documents::temporary::Folder;
use serde_json::Value;

use crate::TestResult;

/// Each carrier answers all calls. Beside bulk traffic, Homa's calls do not wait behind it, because they have
/// a higher priority. Linux's TCP waits behind a queue of up to 10 ms in each direction.
pub(crate) fn calls_by_each_carrier_are_measured() -> TestResult {
    let folder = Folder::new()?;
    let output = Command::new(env!("CARGO_BIN_EXE_hawser-experiment"))
        .args(["mtp-rpc-latency", "--quick", "--iterations", "1", "--json", "-o"])
        .arg(folder.join("out"))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout)?;
    let rows = result["figures"]["rows"].as_array().ok_or("rows")?;
    let time = |calls: &str, carrier: &str, which: &str| {
        let row = rows
            .iter()
            .find(|row| row["calls"] == calls && row["carrier"] == carrier);
        row.and_then(|row| row[which]["median"].as_f64()).unwrap_or(0.0)
    };
    for calls in ["small", "large", "beside-bulk"] {
        for carrier in ["Homa", "TCP in MTP", "gRPC", "Linux TCP"] {
            let (p50, p99) = (time(calls, carrier, "p50_us"), time(calls, carrier, "p99_us"));
            assert!(0.0 < p50 && p50 <= p99, "{calls}, {carrier}: {result}");
        }
        assert!(folder.join(format!("out/{calls}.svg")).is_file());
    }
    let [homa, linux] = ["Homa", "Linux TCP"].map(|carrier| time("beside-bulk", carrier, "p50_us"));
    assert!(homa < linux / 2.0, "{homa} and {linux} µs: {result}");
    Ok(())
}
