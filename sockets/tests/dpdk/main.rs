//! Streams against Linux's own TCP over ports of DPDK: on a packet socket, and with a TAP device. No
//! privilege is needed.

#[path = "../linux/against_linux.rs"]
mod against_linux;
#[path = "../linux/asynchronous.rs"]
mod asynchronous;
#[path = "../linux/polled.rs"]
#[allow(
    dead_code,
    reason = "a test of the receive ring of packet sockets is among them"
)]
mod polled;
#[path = "../linux/shards.rs"]
#[allow(dead_code, reason = "what has nothing to do with a device is among them")]
mod shards;
#[path = "../linux/testbed.rs"]
#[allow(dead_code, reason = "what tests over other devices need")]
mod testbed;

use std::process::ExitCode;

use hawser_sockets::host::netns::{Namespace, Netlink};
use hawser_testing::{Need, enter_namespace, run, skip};

use against_linux::{AGAINST_LINUX, OF_SHARDS, Test};
use testbed::{Medium, TestResult, Testbed};

fn main() -> ExitCode {
    if !enter_namespace("streams over ports of DPDK") {
        return ExitCode::SUCCESS;
    }
    let over = |medium, tests: &'static [Test]| {
        tests
            .iter()
            .map(move |&(name, test)| (format!("{name} over {medium:?}"), move || on_stage(medium, test)))
    };
    run(over(Medium::DpdkPacket, AGAINST_LINUX)
        .chain(over(Medium::DpdkTap, AGAINST_LINUX))
        .chain(over(Medium::DpdkPacketQueues, OF_SHARDS))
        .chain(over(Medium::DpdkTap, OF_SHARDS)))
}

/// Runs a test in a fresh network namespace.
fn on_stage(medium: Medium, test: fn(&Testbed) -> TestResult) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        match Testbed::set_up(medium)? {
            Some(stage) => test(&stage),
            None => {
                skip(
                    Need::Tun,
                    "a port of DPDK with a TAP device",
                    "no permission to open /dev/net/tun",
                );
                Ok(())
            }
        }
    })?
}
