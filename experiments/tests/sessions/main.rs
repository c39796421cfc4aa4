//! Sessions over emulated networks: what is lost, how long it takes, what comes of faults.

mod aggregate;
mod conditions;
mod faults;
#[path = "../../../lab/tests/common/harness.rs"]
mod harness;
mod mptcp;
mod network;

use std::process::ExitCode;

use harness::Test;
pub(crate) use harness::TestResult;

const TESTS: &[Test] = &[
    ("aggregate::two_paths_add_up", aggregate::two_paths_add_up),
    ("aggregate::simult_flows_of_linux", aggregate::simult_flows_of_linux),
    ("faults::killing_a_path_loses_no_byte", faults::killing_a_path_loses_no_byte),
    ("faults::a_link_seen_to_go_is_left_at_once", faults::a_link_seen_to_go_is_left_at_once),
    ("faults::a_silent_link_is_left_soon", faults::a_silent_link_is_left_soon),
    ("faults::every_path_goes_and_comes_back", faults::every_path_goes_and_comes_back),
    ("faults::a_translator_is_rebound", faults::a_translator_is_rebound),
    ("faults::a_path_that_comes_back_is_used_again", faults::a_path_that_comes_back_is_used_again),
    ("faults::a_backup_carries_when_nothing_else_does", faults::a_backup_carries_when_nothing_else_does),
    ("conditions::long_packets_lost_tcp_completes", conditions::long_packets_lost_tcp_completes),
    ("conditions::long_packets_lost_both_paths_carry", conditions::long_packets_lost_both_paths_carry),
    ("conditions::long_packets_lost_handshake_completes", conditions::long_packets_lost_handshake_completes),
    ("conditions::long_packets_lost_are_remembered", conditions::long_packets_lost_are_remembered),
    ("conditions::overtaken_packets_do_not_stop_quic", conditions::overtaken_packets_do_not_stop_quic),
    ("conditions::a_flapping_path_has_short_gaps", conditions::a_flapping_path_has_short_gaps),
    ("conditions::a_rate_that_returns_is_used_again", conditions::a_rate_that_returns_is_used_again),
    ("conditions::rebinding_every_3_s_is_survived", conditions::rebinding_every_3_s_is_survived),
    ("mptcp::it_is_spoken_or_said_not_to_be", mptcp::it_is_spoken_or_said_not_to_be),
];

/// What `cargo xtask long sessions` runs: the goals themselves, on a machine that does nothing else.
const LONG: &[Test] = &[
    ("aggregate::paths_add_up_long", aggregate::paths_add_up_long),
    ("aggregate::fast_paths_long", aggregate::fast_paths_long),
    ("aggregate::short_transfers_take_the_best_path", aggregate::short_transfers_take_the_best_path),
    ("aggregate::simult_flows_of_linux_long", aggregate::simult_flows_of_linux_long),
    ("faults::killing_a_path_loses_no_byte_long", faults::killing_a_path_loses_no_byte_long),
    ("faults::every_path_goes_for_two_minutes", faults::every_path_goes_for_two_minutes),
];

fn main() -> ExitCode {
    let is_long = std::env::args().any(|argument| argument == "--long");
    harness::run("sessions in labs", if is_long { LONG } else { TESTS })
}
