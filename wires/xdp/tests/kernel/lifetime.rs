//! State left by a wire, and the behaviour of a wire whose interface is removed.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hawser_engine::wire::Wire;

use crate::TestResult;
use crate::cable::{self, DEVICE, EXPERIMENT, TIMEOUT, frame, ip, lay, set_up};

/// Holds a wire until the process is killed.
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

pub(crate) fn a_killed_process_leaves_no_program() -> TestResult {
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

/// A sending wire detects the removal at once, and an idle one within a second, after which it does not
/// sleep.
pub(crate) fn an_interface_that_is_removed_is_an_error() -> TestResult {
    let set_up = || -> TestResult<_> {
        let (mut wire, far, peer) = set_up(1500)?;
        assert_eq!(wire.receive(64)?, 0);
        ip(&format!("link delete {DEVICE}"))?;
        Ok((wire, frame(far.mac(), EXPERIMENT, vec![7; 50]), peer))
    };
    let (mut sending, frame, _peer) = set_up()?;
    let at_once = sending.transmit(&[frame]).err().ok_or("it was sent")?;
    let (mut idle, _, _peer) = set_up()?;
    let begin = Instant::now();
    let in_time = loop {
        idle.wait(Some(TIMEOUT))?;
        if let Err(error) = idle.receive(64) {
            break error;
        }
        idle.release();
        assert!(begin.elapsed() < Duration::from_secs(2), "nothing was noticed");
    };
    for error in [at_once, in_time] {
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        let text = error.to_string();
        assert!(text.contains("'cable0' was removed"), "{text}");
    }
    Ok(())
}

/// Root can detach a link by its number: `bpftool link detach`.
pub(crate) fn a_program_that_is_detached_is_an_error() -> TestResult {
    let (mut wire, _, _peer) = set_up(1500)?;
    assert_eq!(wire.receive(64)?, 0);
    let shown = ip(&format!("-details link show {DEVICE}"))?;
    let (_, rest) = shown.split_once("prog/xdp id ").ok_or("a program")?;
    let program: u32 = rest.split_whitespace().next().ok_or("its number")?.parse()?;
    detach(program)?;
    let begin = Instant::now();
    let error = loop {
        wire.wait(Some(TIMEOUT))?;
        if let Err(error) = wire.receive(64) {
            break error;
        }
        wire.release();
        assert!(begin.elapsed() < Duration::from_secs(2), "nothing was noticed");
    };
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(error.to_string().contains("was detached"), "{error}");
    Ok(())
}

/// Detaches the link of a program.
fn detach(program: u32) -> TestResult {
    use libbpf_sys::{
        bpf_link_detach, bpf_link_get_fd_by_id, bpf_link_get_info_by_fd, bpf_link_get_next_id, bpf_link_info,
    };
    let mut id = 0;
    // SAFETY: the number is writable.
    while unsafe { bpf_link_get_next_id(id, &mut id) } == 0 {
        // SAFETY: it takes a number and returns a new descriptor.
        let link = unsafe { bpf_link_get_fd_by_id(id) };
        if link < 0 {
            continue;
        }
        // SAFETY: the descriptor is new and has no other owner.
        let link = unsafe { OwnedFd::from_raw_fd(link) };
        let mut info = bpf_link_info::default();
        let mut length = size_of::<bpf_link_info>() as u32;
        // SAFETY: both are writable, and the kernel writes at most `length` bytes of the first.
        let known = unsafe { bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut length) };
        if known == 0 && info.prog_id == program {
            // SAFETY: it takes an open descriptor.
            assert_eq!(unsafe { bpf_link_detach(link.as_raw_fd()) }, 0);
            return Ok(());
        }
    }
    Err("the program has no link".into())
}

pub(crate) fn a_wire_is_opened_again_and_again() -> TestResult {
    let _peer = lay(1500, 1500)?;
    for _ in 0..50 {
        cable::open()?;
    }
    Ok(())
}
