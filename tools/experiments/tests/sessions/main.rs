//! Sessions over emulated networks: losses, durations and the effect of faults.

mod aggregate;
mod calls;
mod conditions;
mod controllers;
mod faults;
mod mptcp;
mod network;
mod rdma;
mod streams;

use std::process::ExitCode;

pub(crate) use hawser_testing::TestResult;
use hawser_testing::{Test, in_user_namespace, is_long, tests};

const TESTS: &[Test] = tests![
    aggregate::two_paths_add_up,
    aggregate::simult_flows_of_linux,
    faults::killing_a_path_loses_no_byte,
    faults::a_link_seen_to_go_is_left_at_once,
    faults::a_link_that_drops_everything_is_left_soon,
    faults::every_path_goes_and_comes_back,
    faults::a_translator_is_rebound,
    faults::a_path_that_comes_back_is_used_again,
    faults::a_backup_carries_when_nothing_else_does,
    conditions::long_packets_lost_tcp_completes,
    conditions::long_packets_lost_both_paths_carry,
    conditions::long_packets_lost_handshake_completes,
    conditions::long_packets_lost_are_remembered,
    conditions::overtaken_packets_do_not_stop_quic,
    conditions::a_flapping_path_has_short_gaps,
    conditions::a_rate_that_returns_is_used_again,
    conditions::every_interface_with_a_route_is_used,
    conditions::a_path_that_falls_does_not_stop_the_other,
    conditions::rebinding_every_3_s_is_survived,
    controllers::a_session_sends_no_more_than_plain_tcp,
    mptcp::mptcp_is_used_or_reported_as_absent,
    calls::calls_by_each_carrier_are_measured,
    rdma::works_and_round_trips_of_tcp_are_measured,
    streams::messages_of_two_sizes_take_what_the_line_takes,
];

/// The tests of `cargo xtask long sessions`. They check the goals themselves, and need an otherwise idle
/// machine.
const LONG: &[Test] = tests![
    aggregate::paths_add_up_long,
    aggregate::fast_paths_long,
    aggregate::short_transfers_take_the_best_path,
    aggregate::simult_flows_of_linux_long,
    faults::killing_a_path_loses_no_byte_long,
    faults::every_path_goes_for_two_minutes,
];

fn main() -> ExitCode {
    in_user_namespace("sessions in labs", if is_long() { LONG } else { TESTS })
}
