//! Streams against Linux's own TCP over ports of DPDK: on a packet socket, and with a TAP device. No privilege is needed.

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
#[path = "../linux/stage.rs"]
#[allow(dead_code, reason = "what tests over other devices need")]
mod stage;

use std::process::ExitCode;

use hawser_net::host::netns::{Namespace, Netlink, enter_user_namespace};
use hawser_testing::{is_listing, run, skip, tests};

use stage::{Medium, Stage, TestResult};

/// Name and body.
type Test = (&'static str, fn(&Stage) -> TestResult);

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

/// Over each of a port's queues.
const OF_SHARDS: &[Test] = tests![shards::linux_reaches_them_all, shards::they_reach_linux,];

fn main() -> ExitCode {
    if !is_listing()
        && let Err(reason) = enter_user_namespace()
    {
        skip("streams over ports of DPDK", reason);
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
fn on_stage(medium: Medium, test: fn(&Stage) -> TestResult) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        match Stage::set_up(medium)? {
            Some(stage) => test(&stage),
            None => {
                skip(
                    "a port of DPDK with a TAP device",
                    "/dev/net/tun may not be opened",
                );
                Ok(())
            }
        }
    })?
}
