//! Streams against Linux's own TCP over AF_XDP. Real root is needed: eBPF cannot be loaded in a user namespace. Where it
//! cannot be loaded the tests print so and pass.

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
#[path = "../linux/stage.rs"]
#[allow(dead_code, reason = "what tests over other devices need")]
mod stage;
mod swarm;

use std::process::ExitCode;

use hawser_net::host::netns::{Namespace, NamespaceError, Netlink};
use hawser_testing::{is_listing, run, skip, tests};

use stage::{Medium, Stage, TestResult};

/// Name and body.
type Test = (&'static str, fn(&Stage) -> TestResult);

/// Against Linux, with the chains of TCP in the stack and in the kernel.
const AGAINST_LINUX: &[Test] = tests![
    polled::linux_echoes_what_we_send,
    polled::we_echo_what_linux_sends,
    polled::a_closed_port_refuses,
    polled::an_address_in_use_is_refused,
    polled::a_reset_is_an_error,
    polled::our_reset_is_an_error_for_linux,
    polled::a_slow_linux_stops_us,
    polled::linux_half_closes_and_still_receives,
    polled::a_close_right_after_reading_is_orderly,
    polled::nothing_is_left_after_closing,
    polled::a_full_backlog_takes_no_more,
    asynchronous::a_half_closed_stream_still_receives,
    asynchronous::fifty_at_once,
    asynchronous::a_slow_reader_stops_the_sender,
    asynchronous::no_answer_times_out,
];

const OTHERS: &[Test] = tests![
    chains::acknowledgements_leave_from_the_kernel,
    chains::streams_are_whole_however_the_stack_sleeps,
    chains::streams_in_datagrams_are_whole,
    chains::shards_are_refused,
    swarm::streams_through_random_faults_are_whole,
    interface::jumbo_frames_carry_streams,
    interface::an_idle_stack_ends_with_its_interface,
];

/// Over each of an interface's queues.
const OF_SHARDS: &[Test] = tests![shards::linux_reaches_them_all, shards::they_reach_linux,];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let ["swarm", amount @ ..] = &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return swarm::long(amount);
    }
    if !is_listing()
        && let Err(reason) = on_stage(Medium::Xdp, |stage| stage.endpoint(&[]).map(drop))
    {
        if reason.is::<NamespaceError>() || reason.to_string().contains("CAP_BPF") {
            skip("streams by AF_XDP, whose eBPF takes root", reason);
            return ExitCode::SUCCESS;
        }
        println!("streams by AF_XDP: {reason}");
        return ExitCode::FAILURE;
    }
    let here = [AGAINST_LINUX, OTHERS].concat();
    let here = here
        .into_iter()
        .map(|(name, test)| (name.to_owned(), Medium::Xdp, test));
    let in_kernel = AGAINST_LINUX
        .iter()
        .map(|(name, test)| (format!("{name}, chains in the kernel"), Medium::XdpChains, *test));
    let of_shards = OF_SHARDS
        .iter()
        .map(|(name, test)| ((*name).to_owned(), Medium::XdpQueues, *test));
    run(here
        .chain(in_kernel)
        .chain(of_shards)
        .map(|(name, medium, test)| (name, move || on_stage(medium, test))))
}

/// Runs a test in a fresh network namespace.
fn on_stage(medium: Medium, test: impl FnOnce(&Stage) -> TestResult + Send) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        let stage = Stage::set_up(medium)?.ok_or("there is a pair of interfaces")?;
        test(&stage)
    })?
}
