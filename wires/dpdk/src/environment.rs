//! DPDK's environment: a process starts it once, and it lasts as long as the process.

use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::thread::{CapabilitySet, CpuSet, capabilities, sched_getaffinity};

use crate::OpenError;
use crate::port;

/// The memory for DPDK's frames, in megabytes, if the system has no huge pages. Pages are allocated when they
/// are first used.
const MEMORY: &str = "512";

/// Starts DPDK, unless it has been started.
pub(crate) fn start() -> Result<(), OpenError> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    // DPDK binds the thread that starts it to a processor, so a separate thread starts it.
    let begin = || match std::thread::spawn(|| with_messages(|| port::start(&arguments()))).join() {
        Ok((Ok(()), _)) => Ok(()),
        Ok((Err(error), messages)) => Err(format!("{messages} ({error})")),
        Err(_) => Err("the thread that starts it panicked".to_owned()),
    };
    STARTED.get_or_init(begin).clone().map_err(OpenError::Start)
}

/// Runs `act`, and returns its result with the last lines that DPDK printed meanwhile.
pub(crate) fn with_messages<T>(act: impl FnOnce() -> T) -> (T, String) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock();
    let (result, log) = port::logged(act);
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines.len().saturating_sub(3);
    (result, lines[last..].join("; "))
}

/// Returns the arguments that start DPDK. DPDK leaves no files, takes only requested devices, starts no
/// thread for each processor, and lets threads run on any processor.
fn arguments() -> Vec<String> {
    let mut arguments = vec!["hawser", "--no-shconf", "--no-telemetry"];
    if has_huge_pages() {
        arguments.push("--in-memory");
    } else {
        arguments.extend(["--no-huge", "-m", MEMORY]);
    }
    // DPDK takes only listed devices. This one is a bridge, for which no driver exists.
    arguments.extend(["--allow", "0000:00:00.0", "--lcores"]);
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    arguments.push(format!("0@({})", processors().join(",")));
    // The prefix names DPDK's folder, which is removed again. All processes use the same prefix: if one is
    // killed before it has removed the folder, the next one does.
    arguments.push("--file-prefix=hawser".to_owned());
    arguments
}

/// Returns true if the thread has the privileges for ports on the host's interfaces, as far as the kernel
/// reports them.
pub(crate) fn has_privilege() -> bool {
    let needed = CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn has_huge_pages() -> bool {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = memory
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:"));
    free.is_some_and(|free| free.trim() != "0")
}

/// Returns the processors on which the process may run.
fn processors() -> Vec<String> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let allowed: Vec<String> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .map(|cpu| cpu.to_string())
        .collect();
    if allowed.is_empty() {
        vec!["0".to_owned()]
    } else {
        allowed
    }
}
