//! Associations over emulated networks, between two processes: throughput over two paths, failing paths and
//! peers, slow readers, many associations.
//!
//! A process has one stack, so each end is a process of its own: this program, called with `peer`.

mod faults;
mod hostile;
mod network;
mod peer;
mod raw;
mod transfers;

use std::process::ExitCode;

pub(crate) use hawser_testing::TestResult;
use hawser_testing::{Need, Test, in_user_namespace, is_listing, skip, tests};

const TESTS: &[Test] = tests![
    transfers::two_paths_add_up,
    transfers::one_path_carries_its_rate,
    transfers::two_ipv6_paths_add_up,
    transfers::a_slow_reader_stops_the_sender,
    transfers::a_hundred_associations_transfer_at_once,
    transfers::the_addressed_server_address_answers,
    faults::an_association_survives_the_loss_of_a_path,
    faults::connecting_to_a_closed_port_is_refused,
    faults::connecting_to_an_absent_host_times_out,
    faults::a_vanished_peer_times_out,
    faults::an_abort_is_an_error,
    faults::peers_of_a_killed_program_are_notified,
    faults::addresses_and_ports_are_checked,
    hostile::a_server_survives_a_parameter_without_length,
    hostile::a_client_survives_a_parameter_without_length,
    hostile::an_ended_helper_process_is_restarted,
    hostile::a_hung_helper_process_is_restarted,
    hostile::a_server_recovers_from_exhausted_descriptors,
    hostile::the_helper_process_is_confined,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "peer" => peer::run(rest),
        _ if !is_listing() && !peer::has_library() => {
            skip(Need::Usrsctp, "SCTP in labs", "install it (Debian: libusrsctp2)");
            ExitCode::SUCCESS
        }
        _ => in_user_namespace("SCTP in labs", TESTS),
    }
}
