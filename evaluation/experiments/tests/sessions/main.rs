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
    aggregate::linux_simult_flows_passes,
    faults::killing_a_path_loses_no_byte,
    faults::a_link_reported_down_is_left_at_once,
    faults::a_link_that_drops_everything_is_left_soon,
    faults::a_session_survives_the_loss_and_return_of_all_paths,
    faults::a_translator_is_rebound,
    faults::a_path_that_comes_back_is_used_again,
    faults::a_backup_carries_when_other_paths_fail,
    conditions::tcp_completes_where_long_packets_are_lost,
    conditions::both_paths_carry_where_one_loses_long_packets,
    conditions::a_handshake_completes_where_long_packets_are_lost,
    conditions::a_loss_of_long_packets_is_remembered,
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
    streams::messages_of_two_sizes_fill_the_line,
];

/// The tests of `cargo xtask long sessions`. They check the goals themselves, and need an otherwise idle
/// machine.
const LONG: &[Test] = tests![
    aggregate::unequal_paths_add_up_long,
    aggregate::fast_paths_exceed_the_better_one_long,
    aggregate::short_transfers_take_the_best_path,
    aggregate::linux_simult_flows_passes_long,
    faults::killing_a_path_loses_no_byte_long,
    faults::a_session_survives_two_minutes_without_paths,
];

fn main() -> ExitCode {
    in_user_namespace("sessions in labs", if is_long() { LONG } else { TESTS })
}
