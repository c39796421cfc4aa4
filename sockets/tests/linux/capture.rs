//! Wireshark's dissectors check the packets that cross a TUN device, as the kernel sees them.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use hawser_testing::{Need, has};

use crate::polled::exchange;
use crate::testbed::{
    DEVICE, TestResult, Testbed, hawser_v4, hawser_v6, linux_listener, linux_v4, linux_v6, pattern,
    poll_until,
};

/// Returns a filter for packets of Hawser that are malformed or have a wrong checksum. Linux's own packets
/// are not judged: it writes a TCP checksum of zero as 0xffff (`skb_checksum_help`), which Wireshark reports
/// as wrong (RFC 1624).
fn wrong() -> String {
    format!(
        "(ip.src == {} || ipv6.src == {}) && (_ws.malformed || ip.checksum.status == \"Bad\" || \
         tcp.checksum.status == \"Bad\")",
        hawser_v4(),
        hawser_v6()
    )
}

/// Starts a capture and waits until it runs.
fn capture(to: &Path) -> TestResult<Child> {
    let mut command = Command::new("tshark");
    command
        .args(["-q", "-n", "-i", DEVICE, "-w"])
        .arg(to)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut tshark = command.spawn()?;
    let mut printed = Vec::new();
    let mut stderr = tshark.stderr.take().ok_or("no pipe")?;
    while !String::from_utf8_lossy(&printed).contains("Capturing on") {
        let mut byte = [0];
        if stderr.read(&mut byte)? == 0 {
            return Err(format!("tshark: {}", String::from_utf8_lossy(&printed)).into());
        }
        printed.push(byte[0]);
    }
    thread::sleep(Duration::from_millis(300)); // It reports readiness a little too early.
    Ok(tshark)
}

/// Returns the number of packets in a capture that match a filter.
fn count(capture: &Path, filter: &str) -> TestResult<usize> {
    let output = Command::new("tshark")
        .args([
            "-n",
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "ip.check_checksum:TRUE",
            "-Y",
            filter,
        ])
        .args(["-T", "fields", "-e", "frame.number", "-r"])
        .arg(capture)
        .output()?;
    match output.status.success() {
        true => Ok(output.stdout.iter().filter(|byte| **byte == b'\n').count()),
        false => Err(format!("tshark: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

pub(crate) fn tshark_reports_no_errors(stage: &Testbed) -> TestResult {
    if !stage.is_tun() {
        return Ok(()); // A packet socket passes unfinished checksums, which are not errors.
    }
    let mut endpoint = stage.without_offload().endpoint(&[])?;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tun.pcap");
    if !has("capture::tshark_reports_no_errors", &[Need::Tshark]) {
        return Ok(());
    }
    let mut tshark = capture(&file)?;
    for address in [linux_v4(), linux_v6()] {
        let listener = linux_listener(address)?;
        let to = SocketAddr::new(address, listener.local_addr()?.port());
        let linux = thread::spawn(move || -> std::io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            let mut got = Vec::new();
            stream.read_to_end(&mut got)?;
            stream.write_all(&got)
        });
        let connection = endpoint.connect(to)?;
        poll_until(&mut endpoint, "the connection", |e| {
            Ok(e.connected(connection)?.then_some(()))
        })?;
        let data = pattern(200_000);
        assert!(exchange(&mut endpoint, connection, &data)? == data);
        linux.join().map_err(|_| "the peer panicked")??;
    }
    thread::sleep(Duration::from_millis(500));
    // SIGINT lets it write the packets captured so far; `kill` is the shell's own.
    Command::new("sh")
        .arg("-c")
        .arg(format!("kill -INT {}", tshark.id()))
        .status()?;
    tshark.wait()?;
    let all = count(&file, "tcp")?;
    assert!(all > 400, "{all} packets were captured");
    assert_eq!(count(&file, &wrong())?, 0);
    // Checks that the filter does detect errors: one bit of the first packet with this data, which is
    // Hawser's, is flipped.
    let mut bytes = std::fs::read(&file)?;
    let first = bytes
        .windows(8)
        .position(|w| w == &data_mark()[..])
        .ok_or("the data is not in the capture")?;
    bytes[first] ^= 1;
    let spoilt = file.with_file_name("tun-spoilt.pcap");
    std::fs::write(&spoilt, bytes)?;
    assert_eq!(count(&spoilt, &wrong())?, 1);
    Ok(())
}

/// Returns eight bytes in the middle of the sent data.
fn data_mark() -> Vec<u8> {
    pattern(100_008)[100_000..].to_vec()
}
