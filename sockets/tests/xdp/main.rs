//! Streams against Linux's own TCP over AF_XDP, by our own sockets and by DPDK's. The tests need real root,
//! because eBPF cannot be loaded in a user namespace. If it cannot be loaded they print so and pass.

#[path = "../linux/against_linux.rs"]
mod against_linux;
#[path = "../linux/asynchronous.rs"]
mod asynchronous;
mod chains;
mod interface;
#[path = "../linux/polled.rs"]
#[allow(
    dead_code,
    reason = "a test of the receive ring of packet sockets is among them"
)]
mod polled;
#[path = "../linux/shards.rs"]
#[allow(dead_code, reason = "what has nothing to do with a device is among them")]
mod shards;
mod swarm;
#[path = "../linux/testbed.rs"]
#[allow(dead_code, reason = "what tests over other devices need")]
mod testbed;

use std::process::ExitCode;

use hawser_sockets::host::netns::{Namespace, NamespaceError, Netlink};
use hawser_testing::{Need, is_listing, run, skip, tests};

use against_linux::{AGAINST_LINUX, OF_SHARDS, Test};
use testbed::{Medium, TestResult, Testbed};

const OTHERS: &[Test] = tests![
    chains::acknowledgements_leave_from_the_kernel,
    chains::streams_are_whole_for_any_sleep_of_the_stack,
    chains::streams_in_datagrams_are_whole,
    chains::shards_are_refused,
    swarm::streams_through_random_faults_are_whole,
    interface::jumbo_frames_carry_streams,
    interface::an_idle_stack_ends_with_its_interface,
];

/// The tests to run over each device.
const MEDIA: &[(Medium, &[Test])] = &[
    (Medium::Xdp, AGAINST_LINUX),
    (Medium::Xdp, OTHERS),
    (Medium::XdpChains, AGAINST_LINUX),
    (Medium::XdpQueues, OF_SHARDS),
    #[cfg(feature = "dpdk")]
    (Medium::DpdkXdp, AGAINST_LINUX),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let ["swarm", amount @ ..] = &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return swarm::long(amount);
    }
    if !is_listing()
        && let Err(reason) = on_stage(Medium::Xdp, |stage| stage.endpoint(&[]).map(drop))
    {
        if reason.is::<NamespaceError>() || reason.to_string().contains("CAP_BPF") {
            skip(Need::Ebpf, "streams by AF_XDP", reason);
            return ExitCode::SUCCESS;
        }
        println!("streams by AF_XDP: {reason}");
        return ExitCode::FAILURE;
    }
    run(MEDIA.iter().flat_map(|&(medium, tests)| {
        tests
            .iter()
            .map(move |&(name, test)| (format!("{name} over {medium:?}"), move || on_stage(medium, test)))
    }))
}

/// Runs a test in a fresh network namespace.
fn on_stage(medium: Medium, test: impl FnOnce(&Testbed) -> TestResult + Send) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        let stage = Testbed::set_up(medium)?.ok_or("there is a pair of interfaces")?;
        test(&stage)
    })?
}
