//! Scripts in real time, over a veth pair by a port of DPDK. No privilege is needed.
//!
//! Tests that the system does not permit are skipped, with the reason printed.

mod device;

use std::process::ExitCode;

use device::{a_wrong_script_fails, passes};
use hawser_testing::{TestResult, enter_namespace, run};
use hawser_testkit::script::RunTarget;

/// Openings and closings, data in each direction, timers, options, an ICMP error, and resets.
const SCRIPTS: &[&str] = &[
    "RFC9293/active-open-blocking.pkt",
    "RFC9293/passive-open.pkt",
    "RFC9293/close-active.pkt",
    "RFC9293/closed-syn.pkt",
    "RFC9293/mss-default-ipv6.pkt",
    "RFC9293/delayed-ack.pkt",
    "RFC2018/gap-filled.pkt",
    "RFC1191/lower.pkt",
    "RFC3168/echo.pkt",
    "RFC5961/rst-exact.pkt",
    "RFC7413/client-text-in-syn.pkt",
];

fn main() -> ExitCode {
    if !enter_namespace("all scripts by a port of DPDK") {
        return ExitCode::SUCCESS;
    }
    let scripts = SCRIPTS.iter().map(|name| {
        let test = || passes(name, RunTarget::Dpdk).map(drop).map_err(Into::into);
        (*name, Box::new(test) as Box<dyn FnOnce() -> TestResult + Send>)
    });
    run(scripts.chain([(
        "a wrong script fails",
        Box::new(|| a_wrong_script_fails(RunTarget::Dpdk)) as _,
    )]))
}
