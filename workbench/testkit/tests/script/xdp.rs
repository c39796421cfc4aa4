//! Scripts in real time, over a veth pair by AF_XDP, with TCP's chains in the kernel.
//!
//! Tests that the system does not permit are skipped, with the reason printed.

mod device;

use std::process::ExitCode;

use device::{a_wrong_script_fails, passes};
use hawser_host::netns::{Namespace, is_in_user_namespace};
use hawser_testing::{Need, TestResult, is_listing, run, skip};
use hawser_testkit::script::RunTarget;

/// Openings and closings, data in each direction, timers, options, an ICMP error, resets, connections that
/// replace others, and packets without a connection.
const SCRIPTS: &[&str] = &[
    "RFC9293/active-open-blocking.pkt",
    "RFC9293/passive-open.pkt",
    "RFC9293/close-active.pkt",
    "RFC9293/ack-every-second.pkt",
    "RFC9293/closed-syn.pkt",
    "RFC9293/mss-default-ipv6.pkt",
    "RFC9293/delayed-ack.pkt",
    "RFC9293/window-limits.pkt",
    "RFC2018/gap-filled.pkt",
    "RFC1191/lower.pkt",
    "RFC3168/echo.pkt",
    "RFC5961/rst-exact.pkt",
    "RFC6191/next-number.pkt",
    "RFC6191/same-timestamp.pkt",
    "RFC7413/server-valid-cookie.pkt",
    "RFC7413/client-text-in-syn.pkt",
];
/// A script with an MTU of 9,000. Chains do not run on frames that span several buffers, so that the stack
/// receives them all.
const LARGE: &str = "RFC6928/two-large-segments.pkt";

fn main() -> ExitCode {
    if !is_listing()
        && let Err(reason) = is_permitted()
    {
        skip(Need::Ebpf, "all scripts over AF_XDP", reason);
        return ExitCode::SUCCESS;
    }
    let scripts = SCRIPTS.iter().map(|name| {
        let test = || handles(name);
        (*name, Box::new(test) as Box<dyn FnOnce() -> TestResult + Send>)
    });
    let large = || passes(LARGE, RunTarget::Xdp).map(drop).map_err(Into::into);
    run(scripts.chain([
        (LARGE, Box::new(large) as _),
        (
            "a wrong script fails",
            Box::new(|| a_wrong_script_fails(RunTarget::Xdp)) as _,
        ),
    ]))
}

/// Checks that a script passes, and that a chain in the kernel has handled at least one of its packets.
fn handles(name: &str) -> TestResult {
    match passes(name, RunTarget::Xdp)?.in_kernel {
        0 => Err("no packet was handled in the kernel".into()),
        _ => Ok(()),
    }
}

/// Returns the reason why programs may not be loaded into the kernel or namespaces not created, if there is
/// one.
fn is_permitted() -> Result<(), String> {
    Namespace::create().map_err(|error| error.to_string())?;
    if is_in_user_namespace() {
        return Err("from a user namespace no program may be loaded into the kernel".into());
    }
    Ok(())
}
