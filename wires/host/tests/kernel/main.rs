//! The wires and the network layer against Linux, each test inside separate network namespaces.
//!
//! Tests that the system does not permit are skipped, with the reason printed.

mod cable;
mod errors;
mod path_mtu;
mod ping;
mod queue;
mod refusal;
mod routes;
mod shards;
mod sockets;
mod station;
mod stream;
mod tun;

use std::process::ExitCode;
use std::sync::LazyLock;

use hawser_host::OpenError;
use hawser_host::netns::{Namespace, Netlink, enter_user_namespace};
pub(crate) use hawser_testing::TestResult;
use hawser_testing::{Need, Test, run, skip, tests};

/// The tests that run before any namespace is entered.
const OUTSIDE: &[Test] = tests![errors::a_packet_socket_needs_permission];

const TESTS: &[Test] = tests![
    tun::echo_is_answered,
    tun::checksums_are_described,
    tun::without_offload_packets_have_checksums,
    tun::super_segments_cross_in_both_directions,
    tun::a_written_packet_has_arrived_on_return,
    cable::echo_is_answered,
    cable::echo_is_answered_through_a_ring,
    cable::neighbours_are_found,
    cable::super_segments_cross_in_both_directions,
    cable::super_segments_pass_through_a_ring,
    cable::super_segments_pass_beside_a_ring_in_order,
    cable::a_full_ring_drops_and_goes_on,
    cable::frames_for_the_kernel_do_not_reach_the_socket,
    queue::few_frames_wait_in_a_slow_devices_queue,
    queue::a_fast_device_gets_more_ahead,
    queue::a_queue_that_drops_does_not_stop_the_wire,
    queue::an_interface_going_down_wakes_waiting_senders,
    path_mtu::a_path_mtu_is_learnt_from_a_router,
    routes::a_route_can_name_a_congestion_control,
    refusal::protocol_unreachable_reaches_linux,
    shards::packet_sockets_share_frames_out_as_steering_says,
    shards::udp_sockets_share_datagrams_out_as_steering_says,
    shards::a_tun_device_of_one_queue_has_no_second,
    shards::a_queue_of_a_tun_device_gets_the_answers_to_what_it_sent,
    sockets::an_answer_leaves_by_the_interface_of_the_question,
    sockets::an_interfaces_mtu_is_reported_for_each_datagram,
    errors::opening_an_invalid_packet_device_fails,
    errors::receiving_on_a_removed_interface_fails,
    errors::opening_an_invalid_tun_device_fails,
];

fn main() -> ExitCode {
    let outside = OUTSIDE
        .iter()
        .map(|&(name, test)| (name, Box::new(test) as Box<dyn FnOnce() -> TestResult + Send>));
    let inside = TESTS
        .iter()
        .map(|&(name, test)| (name, Box::new(move || in_namespace(name, test)) as _));
    run(outside.chain(inside))
}

/// The result of entering a user namespace, which the first test that needs it does.
static ENTERED: LazyLock<Result<(), String>> =
    LazyLock::new(|| enter_user_namespace().map_err(|reason| reason.to_string()));

/// Runs a test in a fresh network namespace, if the system permits it.
fn in_namespace(name: &str, test: fn() -> TestResult) -> TestResult {
    if let Err(reason) = &*ENTERED {
        skip(Need::Netns, name, reason);
        return Ok(());
    }
    let result = Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        test()
    })?;
    match result {
        Err(error)
            if matches!(
                error.downcast_ref(),
                Some(OpenError::NoTun | OpenError::TunUnreadable)
            ) =>
        {
            skip(Need::Tun, name, error);
            Ok(())
        }
        result => result,
    }
}
