//! Streams against Linux's own TCP, polled and on tokio, over TUN and over AF_PACKET.
//!
//! Not the usual harness, since a process can enter a user namespace only while it has one thread.
//! What the system does not permit is skipped, with the reason printed.

mod asynchronous;
mod attach;
mod capture;
mod crowd;
mod polled;
mod shares;
mod stage;
mod weather;

use std::process::ExitCode;
use std::time::Instant;

use hawser::host::netns::{Namespace, Netlink, enter_user_namespace};

use stage::{Medium, Stage, TestResult};

/// Name and body.
type Test = (&'static str, fn(&Stage) -> TestResult);

const TESTS: &[Test] = &[
    ("polled::linux_echoes_what_we_send", polled::linux_echoes_what_we_send),
    ("polled::we_echo_what_linux_sends", polled::we_echo_what_linux_sends),
    ("polled::a_closed_port_refuses", polled::a_closed_port_refuses),
    ("polled::an_address_in_use_is_refused", polled::an_address_in_use_is_refused),
    ("polled::a_reset_is_an_error", polled::a_reset_is_an_error),
    ("polled::our_reset_is_an_error_for_linux", polled::our_reset_is_an_error_for_linux),
    ("polled::a_slow_linux_stops_us", polled::a_slow_linux_stops_us),
    ("polled::linux_half_closes_and_still_receives", polled::linux_half_closes_and_still_receives),
    ("polled::a_close_right_after_reading_is_orderly", polled::a_close_right_after_reading_is_orderly),
    ("polled::a_small_ring_loses_nothing_for_good", polled::a_small_ring_loses_nothing_for_good),
    ("polled::nothing_is_left_after_closing", polled::nothing_is_left_after_closing),
    ("polled::a_full_backlog_takes_no_more", polled::a_full_backlog_takes_no_more),
    ("asynchronous::a_half_closed_stream_still_receives", asynchronous::a_half_closed_stream_still_receives),
    ("asynchronous::fifty_at_once", asynchronous::fifty_at_once),
    ("asynchronous::a_slow_reader_stops_the_sender", asynchronous::a_slow_reader_stops_the_sender),
    ("asynchronous::no_answer_times_out", asynchronous::no_answer_times_out),
    ("weather::loss", weather::loss),
    ("weather::bursts_of_loss", weather::bursts_of_loss),
    ("weather::reordering", weather::reordering),
    ("weather::duplication", weather::duplication),
    ("weather::everything_at_once", weather::everything_at_once),
    ("crowd::a_thousand_opened_here", crowd::a_thousand_opened_here),
    ("crowd::a_thousand_opened_by_linux", crowd::a_thousand_opened_by_linux),
    ("crowd::ten_thousand_opened_here", crowd::ten_thousand_opened_here),
    ("crowd::ten_thousand_opened_by_linux", crowd::ten_thousand_opened_by_linux),
    (
        "shares::clients_that_do_not_read_leave_others_their_rate",
        shares::clients_that_do_not_read_leave_others_their_rate,
    ),
    (
        "shares::bodies_that_nobody_reads_leave_others_their_rate",
        shares::bodies_that_nobody_reads_leave_others_their_rate,
    ),
    ("attach::coming_and_going_leaks_and_loses_nothing", attach::coming_and_going_leaks_and_loses_nothing),
    (
        "attach::what_the_application_attaches_is_in_the_log",
        attach::what_the_application_attaches_is_in_the_log,
    ),
    ("capture::tshark_finds_nothing_wrong", capture::tshark_finds_nothing_wrong),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = enter_user_namespace() {
        println!("skipped: streams against Linux: {reason}");
        return ExitCode::SUCCESS;
    }
    // A thousand of Linux's sockets are open at once.
    if let Err(error) = rlimit::increase_nofile_limit(4 * 1024) {
        println!("the limit of open files stays as it is: {error}");
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for medium in [Medium::Tun, Medium::Packet] {
        for (name, test) in TESTS {
            if filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str())) {
                match judge(name, medium, *test) {
                    Verdict::Passed => passed += 1,
                    Verdict::Failed => failed += 1,
                    Verdict::Skipped => skipped += 1,
                }
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How a test went.
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// Runs a test in a network namespace of its own and says how it went.
fn judge(name: &str, medium: Medium, test: fn(&Stage) -> TestResult) -> Verdict {
    let start = Instant::now();
    let result =
        Namespace::create().map_err(Box::<dyn std::error::Error + Send + Sync>::from).and_then(|namespace| {
            namespace.run(|| {
                Netlink::open()?.bring_up("lo")?;
                let Some(stage) = Stage::set_up(medium)? else { return Ok(Some("no TUN for this user")) };
                std::panic::catch_unwind(|| test(&stage)).unwrap_or_else(|_| Err("it panicked".into()))?;
                Ok(None)
            })?
        });
    let took = start.elapsed().as_millis();
    match result {
        Ok(None) => {
            println!("test {name} over {medium:?} ... ok ({took} ms)");
            Verdict::Passed
        }
        Ok(Some(reason)) => {
            println!("skipped: {name} over {medium:?}: {reason}");
            Verdict::Skipped
        }
        Err(error) => {
            println!("test {name} over {medium:?} ... FAILED: {error} ({took} ms)");
            Verdict::Failed
        }
    }
}
