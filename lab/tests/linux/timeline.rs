//! Links that change over time.

use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hawser_lab::{Direction, Host, Lab, LabError, Rules, Spec};

use crate::probe::{Probe, percentile};
use crate::{TestResult, pair};

/// Returns whether a host's interface has its carrier, as any program can read it.
fn has_carrier(host: Host<'_>) -> TestResult<bool> {
    let state = host.run(|| std::fs::read_to_string("/sys/class/net/eth0/operstate"))??;
    Ok(state.trim() == "up")
}

/// Waits for the expected carrier, because the kernel reports it with a delay.
fn carrier_becomes(host: Host<'_>, up: bool) -> TestResult {
    let start = Instant::now();
    while has_carrier(host)? != up {
        if start.elapsed() > Duration::from_secs(3) {
            return Err(format!("the carrier of {} did not become {up}", host.name()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

pub(crate) fn a_silent_link_keeps_its_carrier() -> TestResult {
    let lab = pair("through = \"cell\"")?;
    let probe = Probe::v4(&lab)?;
    assert!(probe.gets_through()?);
    lab.link("link")?.silence(true)?;
    assert!(!probe.gets_through()?);
    assert!(has_carrier(lab.host("a")?)? && has_carrier(lab.host("b")?)?);
    assert_eq!(
        lab.link("link")?.statistics(Direction::Forward)?.lost["silent"],
        1
    );
    lab.link("link")?.silence(false)?;
    assert!(probe.gets_through()?);
    Ok(())
}

pub(crate) fn a_link_that_is_down_loses_its_carrier() -> TestResult {
    let lab = pair("both = { delay = \"1ms\" }")?;
    let probe = Probe::v4(&lab)?;
    lab.link("link")?.down()?;
    for host in ["a", "b"] {
        carrier_becomes(lab.host(host)?, false)?;
    }
    lab.link("link")?.up()?;
    for host in ["a", "b"] {
        carrier_becomes(lab.host(host)?, true)?;
    }
    assert!(probe.gets_through()?, "addresses and routes are there still");
    Ok(())
}

pub(crate) fn a_link_can_begin_without_its_carrier() -> TestResult {
    let lab = pair("state = \"down\"")?;
    for host in ["a", "b"] {
        carrier_becomes(lab.host(host)?, false)?;
    }
    lab.link("link")?.up()?;
    for host in ["a", "b"] {
        carrier_becomes(lab.host(host)?, true)?;
    }
    assert!(Probe::v4(&lab)?.gets_through()?);
    Ok(())
}

pub(crate) fn protocols_are_blocked() -> TestResult {
    let lab = pair("through = \"cell\"\nboth = { block = [\"udp\"] }")?;
    assert!(!Probe::v4(&lab)?.gets_through()?);
    let listener = lab.host("b")?.run(|| TcpListener::bind("0.0.0.0:80"))??;
    let to = std::net::SocketAddr::new(lab.host("b")?.ipv4().ok_or("no IPv4")?, 80);
    let connect = |limit| {
        lab.host("a")?
            .run(|| std::net::TcpStream::connect_timeout(&to, limit))
    };
    assert!(connect(Duration::from_secs(5))?.is_ok());
    lab.link("link")?
        .set_both(&Rules { block: Some(vec!["tcp:80".parse()?]), ..Rules::default() })?;
    assert!(connect(Duration::from_millis(300))?.is_err());
    assert!(
        Probe::v4(&lab)?.gets_through()?,
        "the new list stands in for the old one"
    );
    drop(listener);
    Ok(())
}

pub(crate) fn rates_can_change() -> TestResult {
    for through in ["cell", "kernel"] {
        let lab = pair(&format!(
            "through = \"{through}\"\nboth = {{ rate = \"100Mbit/s\" }}"
        ))?;
        let probe = Probe::v4(&lab)?;
        let time = |probe: &Probe| -> TestResult<Duration> {
            Ok(percentile(&probe.run(20, 1458, Duration::ZERO)?, 1.0))
        };
        let fast = time(&probe)?;
        let rules = Rules { rate: Some("1Mbit/s".parse()?), ..Rules::default() };
        lab.link("link")?.set(Direction::Forward, &rules)?;
        let slow = time(&probe)?;
        // 20 frames of 1500 bytes take 240 ms at 1 Mbit/s; the kernel's bucket holds two of them.
        assert!(
            slow > Duration::from_millis(200),
            "{through}: {slow:?} after {fast:?}"
        );
        assert!(fast < slow / 2, "{through}: {fast:?} before {slow:?}");
        let rules = Rules { rate: Some("0bit/s".parse()?), ..Rules::default() };
        lab.link("link")?.set(Direction::Forward, &rules)?;
        let free = time(&probe)?;
        assert!(free < slow / 2, "{through}: {free:?} without a rate");
    }
    Ok(())
}

pub(crate) fn a_file_is_played() -> TestResult {
    let lab = Lab::up(&Spec::parse(
        r#"
        host = [{ name = "a" }, { name = "b" }]
        link = [{ name = "link", between = ["a", "b"] }]
        at = [
            { time = "100ms", link = "link", both = { silent = false } },
            { time = "0ms", link = "link", both = { silent = true } },
        ]
        "#,
    )?)?;
    let start = Instant::now();
    let mut times = Vec::new();
    lab.play(&AtomicBool::new(false), |entry| times.push(entry.time))?;
    assert!(start.elapsed() >= Duration::from_millis(100));
    assert_eq!(
        times,
        [Duration::ZERO, Duration::from_millis(100)],
        "in the order of time"
    );
    assert!(Probe::v4(&lab)?.gets_through()?);
    Ok(())
}

pub(crate) fn a_kernel_link_refuses_silence_and_down() -> TestResult {
    let lab = pair("both = { rate = \"10Mbit/s\" }")?;
    let link = lab.link("link")?;
    assert!(matches!(link.silence(true), Err(LabError::NotACell { .. })));
    assert!(matches!(link.down(), Err(LabError::NotACell { .. })));
    Ok(())
}
