//! What is left of a wire, and what becomes of one whose interface goes.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_engine::wire::Wire;

use crate::TestResult;
use crate::cable::{self, DEVICE, EXPERIMENT, TIMEOUT, frame, ip, lay, set_up};

/// Holds a wire until it is killed.
pub(crate) fn hold(name: &str) -> ExitCode {
    match hawser_xdp::XdpWire::open(name, &hawser_xdp::XdpOptions::default()) {
        Ok(wire) => {
            println!("{}", wire.mode());
            loop {
                std::thread::sleep(TIMEOUT);
            }
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn a_killed_process_leaves_nothing() -> TestResult {
    let _peer = lay(1500, 1500)?;
    let shown = || ip(&format!("-details link show {DEVICE}"));
    let untouched = shown()?;
    let mut holder = Command::new(std::env::current_exe()?)
        .args(["hold", DEVICE])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(holder.stdout.take().ok_or("it prints")?).read_line(&mut line)?;
    assert!(line.starts_with("native XDP"), "{line}");
    let held = shown()?;
    assert!(
        held.contains("prog/xdp") && held.contains("promiscuity 1"),
        "{held}"
    );
    holder.kill()?;
    holder.wait()?;
    let begin = Instant::now();
    while shown()? != untouched {
        assert!(begin.elapsed() < TIMEOUT, "{}\nis not\n{untouched}", shown()?);
    }
    cable::open()?;
    Ok(())
}

/// Idle or sending, a wire finds out within a second, and sleeps no longer.
pub(crate) fn an_interface_that_is_removed_is_an_error() -> TestResult {
    for is_sending in [false, true] {
        let (mut wire, far, _peer) = set_up(1500)?;
        assert_eq!(wire.receive(64)?, 0);
        ip(&format!("link delete {DEVICE}"))?;
        let begin = Instant::now();
        let error = loop {
            wire.wait(Some(TIMEOUT))?;
            if let Err(error) = wire.receive(64) {
                break error;
            }
            wire.release();
            let sent = wire.transmit(&[frame(far.mac(), EXPERIMENT, vec![7; 50])]);
            if let (true, Err(error)) = (is_sending, sent) {
                break error;
            }
            assert!(begin.elapsed() < Duration::from_secs(2), "nothing was noticed");
        };
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        let text = error.to_string();
        assert!(text.contains("'cable0' was removed"), "{text}");
    }
    Ok(())
}

pub(crate) fn a_wire_is_opened_again_and_again() -> TestResult {
    let _peer = lay(1500, 1500)?;
    for _ in 0..50 {
        cable::open()?;
    }
    Ok(())
}
