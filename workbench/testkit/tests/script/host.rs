//! Scripts in real time, over a TUN device: the stack, its wire and its timers as on a real machine.
//!
//! Tests that the system does not permit are skipped, with the reason printed.

mod device;

use std::process::ExitCode;

use device::{a_wrong_script_fails, passes};
use hawser_testing::{Need, TestResult, enter_namespace, has, run};
use hawser_testkit::script::RunTarget;

/// Both kinds of opening and of closing, data in each direction, timers, options, an ICMP error, and a reset.
const SCRIPTS: &[&str] = &[
    "RFC9293/active-open-blocking.pkt",
    "RFC9293/passive-open.pkt",
    "RFC9293/close-active.pkt",
    "RFC9293/ack-every-second.pkt",
    "RFC9293/closed-syn.pkt",
    "RFC9293/mss-default-ipv6.pkt",
    "RFC9293/delayed-ack.pkt",
    "RFC2018/gap-filled.pkt",
    "RFC1191/lower.pkt",
    "RFC3168/echo.pkt",
    "RFC5961/rst-exact.pkt",
    "RFC7413/server-valid-cookie.pkt",
    "RFC7413/client-text-in-syn.pkt",
];

fn main() -> ExitCode {
    let what = "all scripts on a device";
    if !enter_namespace(what) || !has(what, &[Need::Tun]) {
        return ExitCode::SUCCESS;
    }
    let scripts = SCRIPTS.iter().map(|name| {
        let test = || passes(name, RunTarget::Host).map(drop).map_err(Into::into);
        (*name, Box::new(test) as Box<dyn FnOnce() -> TestResult + Send>)
    });
    run(scripts.chain([(
        "a wrong script fails",
        Box::new(|| a_wrong_script_fails(RunTarget::Host)) as _,
    )]))
}
