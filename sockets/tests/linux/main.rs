//! Streams against Linux's own TCP, polled and on tokio, over TUN and over AF_PACKET.
//!
//! Tests that the system does not permit are skipped, with the reason printed.

mod addresses;
mod against_linux;
mod asynchronous;
mod attach;
mod capture;
mod conditions;
mod crowd;
mod datagrams;
mod messages;
mod polled;
mod queue;
mod shards;
mod shares;
mod testbed;

use std::process::ExitCode;

use hawser_sockets::host::netns::{Namespace, Netlink};
use hawser_testing::{Need, enter_namespace, run, skip, tests};

use against_linux::{AGAINST_LINUX, OF_SHARDS, Test};
use testbed::{Medium, TestResult, Testbed};

const OTHERS: &[Test] = tests![
    addresses::a_device_has_an_address_once,
    addresses::an_address_of_the_kernel_is_not_taken,
    addresses::an_address_of_a_neighbour_is_not_taken,
    polled::a_small_ring_causes_only_repaired_losses,
    messages::two_stacks_call_each_other,
    messages::linux_calls_by_frames,
    queue::a_short_call_overtakes_frames_waiting_for_a_slow_device,
    queue::a_slow_device_is_kept_busy_on_tokio,
    conditions::transfers_survive_loss,
    conditions::transfers_survive_bursts_of_loss,
    conditions::transfers_survive_reordering,
    conditions::transfers_survive_duplication,
    conditions::transfers_survive_all_faults_at_once,
    crowd::a_thousand_connections_are_opened_here,
    crowd::a_thousand_connections_are_opened_by_linux,
    crowd::ten_thousand_connections_are_opened_here,
    crowd::ten_thousand_connections_are_opened_by_linux,
    shards::a_global_context_is_one_for_all,
    shards::a_shard_that_waits_is_woken,
    shards::a_program_of_one_shard_is_refused,
    shares::clients_that_do_not_read_leave_others_their_rate,
    shares::unread_request_bodies_leave_others_their_rate,
    attach::attaching_and_detaching_leaks_and_loses_no_bytes,
    attach::an_applications_attachment_is_logged,
    capture::tshark_reports_no_errors,
    datagrams::a_program_in_udp_answers_sockets,
    datagrams::shards_at_a_socket_share_peers_out,
    datagrams::other_ports_are_unreachable,
    datagrams::an_error_wakes_up_the_task_of_a_socket,
];

fn main() -> ExitCode {
    if !enter_namespace("streams against Linux") {
        return ExitCode::SUCCESS;
    }
    // A thousand of Linux's sockets are open at once.
    if let Err(error) = rlimit::increase_nofile_limit(4 * 1024) {
        eprintln!("the limit of open files stays as it is: {error}");
    }
    let over = |medium| {
        let tests = [AGAINST_LINUX, OF_SHARDS, OTHERS].concat();
        tests.into_iter().map(move |(name, test)| {
            let name = format!("{name} over {medium:?}");
            (name.clone(), move || judge(&name, medium, test))
        })
    };
    run(over(Medium::Tun).chain(over(Medium::Packet)))
}

/// Runs a test in its own network namespace.
fn judge(name: &str, medium: Medium, test: fn(&Testbed) -> TestResult) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        match Testbed::set_up(medium)? {
            Some(stage) => test(&stage),
            None => {
                skip(Need::Tun, name, "no TUN for this user");
                Ok(())
            }
        }
    })?
}
