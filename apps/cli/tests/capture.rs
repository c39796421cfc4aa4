//! Wireshark's dissectors find no errors in the simulator's captures.

use std::path::Path;
use std::process::Command;

use hawser_testing::{Need, has};

/// The filter for packets that tshark considers malformed, or whose checksum is wrong.
const WRONG: &str = "_ws.malformed || ip.checksum.status == \"Bad\" || tcp.checksum.status == \"Bad\"";

/// Returns the number of packets in a capture that match a filter.
fn packets(capture: &Path, filter: &str) -> usize {
    let output = Command::new("tshark")
        .args([
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "ip.check_checksum:TRUE",
            "-Y",
            filter,
        ])
        .args(["-T", "fields", "-e", "frame.number", "-r"])
        .arg(capture)
        .output()
        .expect("tshark starts");
    assert!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

fn captured(scenario: &str) -> std::path::PathBuf {
    let capture = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(scenario)
        .with_extension("pcap");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let output = Command::new(env!("CARGO_BIN_EXE_hawser"))
        .args(["sim", "run"])
        .arg(scenarios.join(scenario))
        .arg("--pcap")
        .arg(&capture)
        .output()
        .expect("hawser starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    capture
}

#[test]
fn tshark_reports_no_errors_in_simulated_tcp() {
    if !has("tshark_reports_no_errors_in_simulated_tcp", &[Need::Tshark]) {
        return;
    }
    for scenario in ["tcp-lossy.toml", "tcp-reordering.toml"] {
        let capture = captured(scenario);
        let all = packets(&capture, "tcp");
        assert!(all > 100, "{scenario}: {all} packets of TCP");
        assert_eq!(packets(&capture, WRONG), 0, "{scenario}");
    }
}

#[test]
fn tshark_finds_a_wrong_checksum() {
    if !has("tshark_finds_a_wrong_checksum", &[Need::Tshark]) {
        return;
    }
    let capture = captured("tcp-clean.toml");
    let mut bytes = std::fs::read(&capture).expect("the capture is there");
    // The last byte belongs to the last packet, whose checksum covers it.
    *bytes.last_mut().expect("not empty") ^= 1;
    let spoilt = capture.with_file_name("spoilt.pcap");
    std::fs::write(&spoilt, bytes).expect("the folder for tests can be written");
    assert_eq!(packets(&spoilt, WRONG), 1);
}
