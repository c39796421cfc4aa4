//! The entry of the SCTP process, and its setup before it serves.
#![allow(unsafe_code)] // It is entered before `main`, and takes descriptors by number.

use std::net::UdpSocket;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::interpose::PULSE;
use super::reports::Reports;
use super::stack::HelperStack;
use super::{sandbox, serve};
use crate::sctp::error::Fault;
use crate::sctp::protocol::{CONTROL, ProcessReport, ProcessSetup, VARIABLE};
use crate::sctp::udp::Sockets;

/// The maximum time for the library's threads to start.
const BEGINNING: Duration = Duration::from_secs(5);
/// The exit codes of the process.
const SERVED: i32 = 0;
const UNABLE: i32 = 1;

/// The entry of the process, which the loader calls before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
pub(crate) static ENTRY: extern "C" fn() = enter;

extern "C" fn enter() {
    // SAFETY: the auxiliary vector exists from the start of the process.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if is_privileged {
        return;
    }
    let Some(setup) = std::env::var(VARIABLE)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
    else {
        return;
    };
    let code = run(&setup);
    // SAFETY: it ends the process, whose threads hold no state that outlives it.
    unsafe { libc::_exit(code) }
}

fn run(setup: &ProcessSetup) -> i32 {
    // Only the program ends its process, by closing the socket pair. The process then first notifies its
    // peers.
    for signal in [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGPIPE,
    ] {
        // SAFETY: it sets a disposition; no handler runs.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let count = 1 + RawFd::from(setup.v4) + RawFd::from(setup.v6);
    // SAFETY: the program has opened this number of descriptors for the process, which owns them from here
    // on. The call closes all others that it has inherited.
    let (control, mut sockets) = unsafe {
        libc::syscall(libc::SYS_close_range, CONTROL + count, libc::c_uint::MAX, 0);
        let sockets = (CONTROL + 1..CONTROL + count).map(|fd| UdpSocket::from_raw_fd(fd));
        (
            OwnedFd::from_raw_fd(CONTROL),
            sockets.collect::<Vec<_>>().into_iter(),
        )
    };
    let sockets = Sockets {
        v4: if setup.v4 { sockets.next() } else { None },
        v6: if setup.v6 { sockets.next() } else { None },
        addresses: setup.addresses.clone(),
    };
    let reports = Reports(control.into());
    match begin(setup.udp_port, sockets) {
        Ok((stack, runtime)) => {
            reports.send(&ProcessReport::Ready);
            runtime.block_on(serve::serve(stack, reports));
            SERVED
        }
        Err(fault) => {
            reports.send(&ProcessReport::Unable(fault));
            UNABLE
        }
    }
}

/// Starts the library, and drops the process's rights.
fn begin(udp_port: u16, sockets: Sockets) -> Result<(HelperStack, tokio::runtime::Runtime), Fault> {
    let start = |error: std::io::Error| Fault::Start(error.to_string());
    sandbox::drop_privileges().map_err(start)?;
    let stack = HelperStack::begin(udp_port, sockets)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(start)?;
    await_threads()?;
    sandbox::confine().map_err(start)?;
    Ok((stack, runtime))
}

/// Waits until each thread of the library runs, because a starting thread needs rights that are dropped
/// later.
fn await_threads() -> Result<(), Fault> {
    let limit = Instant::now() + BEGINNING;
    while PULSE.counts().contains(&0) {
        if Instant::now() > limit {
            return Err(Fault::Start("a thread of the SCTP library does not start".into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
