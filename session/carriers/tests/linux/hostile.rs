//! Peers that attack the library. Their packets end at most their own association.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::TestResult;
use crate::network::{Peer, client, expect, two_links, value};

/// After the handshake, a peer sends INIT again, with a parameter of length 0. usrsctp 0.9.5 loops for ever
/// on it (`sctp_are_there_new_addresses`).
pub(crate) fn a_server_survives_a_parameter_without_length() -> TestResult {
    let lab = two_links("")?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2")?;
    let (line, _) = client(&lab, "attack at=10.77.0.1 to=10.77.0.2")?;
    expect(line.starts_with("attacked"), line)?;
    let (line, _) = client(&lab, "send to=10.77.0.2 bytes=100000 handshake=3000")?;
    expect(
        line.starts_with("ok=1") && value(&line, "intact")? == "true",
        "the server serves no longer",
    )
}

/// A server does the same to its client, with an INIT that has tag 0.
pub(crate) fn a_client_survives_a_parameter_without_length() -> TestResult {
    let lab = two_links("")?;
    let mut rogue = Peer::start(&lab, "server", "rogue at=10.77.0.2")?;
    expect(rogue.line()? == "ready", "no rogue server")?;
    let _sink = Peer::sink(&lab, "at=10.77.1.2")?;
    let (line, _) = client(
        &lab,
        "send after=10.77.0.2 to=10.77.1.2 bytes=100000 handshake=3000",
    )?;
    expect(
        line.starts_with("ok=1") && value(&line, "intact")? == "true",
        "the client connects no longer",
    )
}

/// A process that is killed is restarted, with its port and its listener.
pub(crate) fn an_ended_helper_process_is_restarted() -> TestResult {
    serves_after("KILL", Duration::from_secs(15))
}

/// A process that gives no sign of life for 5 s is killed and restarted.
pub(crate) fn a_hung_helper_process_is_restarted() -> TestResult {
    serves_after("STOP", Duration::from_secs(15))
}

/// Sends this signal to the server's SCTP process, and waits until the server works again.
fn serves_after(signal: &str, limit: Duration) -> TestResult {
    let lab = two_links("")?;
    let sink = Peer::sink(&lab, "at=10.77.0.2")?;
    let process = sink.sctp_process()?;
    let sent = Command::new("kill")
        .args(["-s", signal, &process.to_string()])
        .status()?;
    expect(sent.success(), "no signal was sent")?;
    let begin = Instant::now();
    loop {
        let (line, _) = client(&lab, "send to=10.77.0.2 bytes=100000 handshake=1000")?;
        if line.starts_with("ok=1") {
            expect(value(&line, "intact")? == "true", "bytes were lost")?;
            return expect(sink.sctp_process()? != process, "the process is the same");
        }
        expect(begin.elapsed() < limit, "the server serves no longer")?;
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A server without free descriptors cannot offer its process a stream for the next association. It does so
/// once it has free ones again.
pub(crate) fn a_server_recovers_from_exhausted_descriptors() -> TestResult {
    let lab = two_links("")?;
    let sink = Peer::sink(&lab, "at=10.77.0.2 slow=300")?;
    sink.limit_descriptors(sink.descriptors()?)?;
    // There are more associations than the streams already offered.
    let (line, _) = client(&lab, "send to=10.77.0.2 bytes=1000 count=30 handshake=10000")?;
    expect(
        line.starts_with("ok=30"),
        format!("the server serves no longer: {line}"),
    )
}

/// The process has few rights: no files but its sockets, no new ones, no privileges.
pub(crate) fn the_helper_process_is_confined() -> TestResult {
    let lab = two_links("")?;
    let sink = Peer::sink(&lab, "at=10.77.0.2")?;
    let process = sink.sctp_process()?;
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"] {
        expect(status.contains(line), format!("no {line} in {status}"))?;
    }
    for open in std::fs::read_dir(format!("/proc/{process}/fd"))? {
        let target = std::fs::read_link(open?.path())?;
        let target = target.to_string_lossy();
        let allowed = ["socket:", "anon_inode:", "/dev/null"];
        expect(
            allowed.iter().any(|kind| target.starts_with(kind)),
            format!("{target} is open"),
        )?;
    }
    Ok(())
}
