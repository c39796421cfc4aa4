//! Streams against Linux's own TCP over AF_XDP. Real root is needed: eBPF cannot be loaded in a user namespace. Where it
//! cannot be loaded the tests print so and pass.

#[path = "../linux/asynchronous.rs"]
mod asynchronous;
#[path = "../linux/polled.rs"]
#[allow(
    dead_code,
    reason = "a test of the receive ring of packet sockets is among them"
)]
mod polled;
#[path = "../linux/stage.rs"]
#[allow(dead_code, reason = "what tests over other devices need")]
mod stage;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use hawser_net::host::netns::{Namespace, NamespaceError, Netlink};
use hawser_testing::{is_listing, run, skip, tests};

use stage::{DEVICE, KERNEL_END, Medium, Stage, TestResult, hawser_v4};

/// Name and body.
type Test = (&'static str, fn(&Stage) -> TestResult);

const TESTS: &[Test] = tests![
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
    jumbo_frames_carry_streams,
    an_idle_stack_ends_with_its_interface,
];

fn main() -> ExitCode {
    if !is_listing()
        && let Err(reason) = on_stage(|stage| stage.endpoint(&[]).map(drop))
    {
        if reason.is::<NamespaceError>() || reason.to_string().contains("CAP_BPF") {
            skip("streams by AF_XDP, whose eBPF takes root", reason);
            return ExitCode::SUCCESS;
        }
        println!("streams by AF_XDP: {reason}");
        return ExitCode::FAILURE;
    }
    run(TESTS.iter().map(|&(name, test)| (name, move || on_stage(test))))
}

/// Runs a test in a fresh network namespace.
fn on_stage(test: fn(&Stage) -> TestResult) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        let stage = Stage::set_up(Medium::Xdp)?.ok_or("there is a pair of interfaces")?;
        test(&stage)
    })?
}

/// With an MTU of 9000 bytes a segment takes three buffers.
fn jumbo_frames_carry_streams(stage: &Stage) -> TestResult {
    let mut netlink = Netlink::open()?;
    for name in [KERNEL_END, DEVICE] {
        netlink.set_mtu(name, 9000)?;
    }
    polled::linux_echoes_what_we_send(stage)?;
    polled::we_echo_what_linux_sends(stage)?;
    let counters = netlink.interface_counters(KERNEL_END)?;
    // With acknowledgments half as often as data of 9000 bytes; of 1500 bytes none is more than 1514.
    for (bytes, frames) in [
        (counters.sent_bytes, counters.sent),
        (counters.received_bytes, counters.received),
    ] {
        assert!(bytes / frames > 3000, "{frames} frames have {bytes} bytes");
    }
    Ok(())
}

fn an_idle_stack_ends_with_its_interface(stage: &Stage) -> TestResult {
    let mut endpoint = stage.endpoint(&[])?;
    endpoint.listen(SocketAddr::new(hawser_v4(), 80), 1)?;
    while endpoint.poll()? {}
    assert!(
        Command::new("ip")
            .args(["link", "delete", DEVICE])
            .status()?
            .success()
    );
    let begin = Instant::now();
    let error = loop {
        if let Err(error) = endpoint.wait(None).and_then(|()| endpoint.poll()) {
            break error;
        }
        assert!(begin.elapsed() < Duration::from_secs(2), "nothing was noticed");
    };
    assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
    Ok(())
}
