//! Streams against Linux's own TCP over AF_XDP, and what becomes of an interface that it is attached to. Real root is needed:
//! eBPF cannot be loaded in a user namespace. Where it cannot be loaded the tests print so and pass.

#[path = "../linux/polled.rs"]
mod polled;
#[path = "../linux/stage.rs"]
#[allow(dead_code, reason = "what tests over other devices need")]
mod stage;

use std::process::ExitCode;

use hawser_net::host::XdpWire;
use hawser_net::host::netns::{Namespace, Netlink};
use hawser_testing::{is_listing, run, skip};

use stage::{Medium, Stage, TestResult};

/// Name and body.
type Test = (&'static str, fn(&Stage) -> TestResult);

const STREAMS: &[Test] = hawser_testing::tests![
    polled::linux_echoes_what_we_send,
    polled::we_echo_what_linux_sends,
    polled::a_closed_port_refuses,
    polled::a_reset_is_an_error,
    polled::our_reset_is_an_error_for_linux,
    polled::a_slow_linux_stops_us,
    polled::linux_half_closes_and_still_receives,
    polled::a_close_right_after_reading_is_orderly,
    polled::nothing_is_left_after_closing,
    polled::a_full_backlog_takes_no_more,
];

fn main() -> ExitCode {
    let streams = STREAMS.iter().map(|&(name, test)| {
        let body = move || in_namespace(|| {
            let stage = Stage::set_up(Medium::Xdp)?.ok_or("there is a device")?;
            test(&stage)
        });
        (name.to_owned(), Box::new(body) as Box<dyn FnOnce() -> TestResult + Send>)
    });
    run(streams)
}

/// Runs a test in a fresh network namespace.
fn in_namespace(test: impl FnOnce() -> TestResult + Send) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        test()
    })?
}
