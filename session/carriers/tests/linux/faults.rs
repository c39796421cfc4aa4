//! Paths and peers that fail.

use std::time::{Duration, Instant};

use hawser_lab::Link;

use crate::TestResult;
use crate::network::{Peer, client, expect, number, two_links, value};

const TEN: &str = "both = { rate = \"10Mbit/s\", queue = \"60kB\", delay = \"5ms\" }";
const BOTH: &str = "from=10.77.0.1,10.77.1.1 to=10.77.0.2,10.77.1.2";

/// The association continues on the other path, and all bytes arrive. It is slow for some seconds, which is a
/// known limitation.
pub(crate) fn an_association_survives_the_loss_of_a_path() -> TestResult {
    let lab = two_links(TEN)?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2,10.77.1.2 idle=8000")?;
    let begin = Instant::now();
    let mut sender = Peer::start(&lab, "client", &format!("send {BOTH} bytes=12000000 idle=8000"))?;
    std::thread::sleep(Duration::from_millis(1_500));
    let second: Link<'_> = lab.link("second")?;
    second.silence(true)?;
    let line = sender.line()?;
    println!("  {line} ({:?})", begin.elapsed());
    expect(value(&line, "intact")? == "true", "bytes were lost")?;
    expect(
        value(&line, "events")?.contains("10.77.1.2:Unreachable"),
        "no event of the path",
    )?;
    let logged = value(&line, "log")?.split(';').any(|line| {
        [
            "DEBUG_hawser_carriers::sctp",
            "peer=10.77.1.2",
            "state=Unreachable",
        ]
        .iter()
        .all(|part| line.contains(part))
    });
    expect(logged, "the path's state was not logged")?;
    expect(begin.elapsed() < Duration::from_secs(25), "too slow")
}

/// Once, no process uses the UDP port; once, a process uses it and does not listen.
pub(crate) fn connecting_to_a_closed_port_is_refused() -> TestResult {
    let lab = two_links("")?;
    let (line, _) = client(&lab, &format!("send {BOTH} bytes=1"))?;
    expect(
        value(&line, "error")? == "ConnectionRefused",
        "no refusal without a process",
    )?;
    expect(number(&line, "after")? < 1_000, "too late")?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2")?;
    let (line, _) = client(&lab, "send from=10.77.1.1 to=10.77.1.2 bytes=1")?;
    expect(
        value(&line, "error")? == "ConnectionRefused",
        "no refusal without a listener",
    )?;
    expect(number(&line, "after")? < 1_000, "too late")
}

/// All packets are lost.
pub(crate) fn connecting_to_an_absent_host_times_out() -> TestResult {
    let lab = two_links("both = { silent = true }")?;
    let (line, _) = client(&lab, &format!("send {BOTH} bytes=1 handshake=1500"))?;
    expect(value(&line, "error")? == "TimedOut", "no timeout")?;
    let after = number(&line, "after")?;
    expect((1_500..2_500).contains(&after), format!("after {after} ms"))
}

/// The peer's host is silent from some moment on.
pub(crate) fn a_vanished_peer_times_out() -> TestResult {
    let lab = two_links(TEN)?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2,10.77.1.2")?;
    let mut sender = Peer::start(&lab, "client", &format!("send {BOTH} bytes=100000000 idle=3000"))?;
    std::thread::sleep(Duration::from_millis(1_000));
    lab.link("first")?.silence(true)?;
    lab.link("second")?.silence(true)?;
    let begin = Instant::now();
    let line = sender.line()?;
    println!("  {line} ({:?})", begin.elapsed());
    expect(value(&line, "error")? == "TimedOut", "no timeout")?;
    expect(begin.elapsed() < Duration::from_secs(8), "too late")
}

pub(crate) fn an_abort_is_an_error() -> TestResult {
    let lab = two_links("")?;
    let _sink = Peer::sink(&lab, "at=10.77.0.2 abort=1 slow=300")?;
    let (line, took) = client(&lab, "send to=10.77.0.2 bytes=0")?;
    expect(value(&line, "error")? == "ConnectionReset", "no reset")?;
    expect(took < Duration::from_secs(3), "too late")
}

/// If a program is killed, its SCTP process lives for a moment longer and notifies the peers.
pub(crate) fn peers_of_a_killed_program_are_notified() -> TestResult {
    let lab = two_links(TEN)?;
    let sink = Peer::sink(&lab, "at=10.77.0.2,10.77.1.2")?;
    let mut sender = Peer::start(&lab, "client", &format!("send {BOTH} bytes=100000000"))?;
    std::thread::sleep(Duration::from_millis(1_000));
    let begin = Instant::now();
    drop(sink);
    let line = sender.line()?;
    expect(value(&line, "error")? == "ConnectionReset", line)?;
    expect(begin.elapsed() < Duration::from_secs(3), "too late")
}

pub(crate) fn addresses_and_ports_are_checked() -> TestResult {
    let lab = two_links("")?;
    let (line, _) = client(&lab, "misuse from=10.77.0.1")?;
    expect(line.starts_with("ok=true"), line)
}
