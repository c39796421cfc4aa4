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
use hawser_testing::{Test, in_user_namespace, tests};

const TESTS: &[Test] = tests![
    transfers::two_paths_add_up,
    transfers::one_path_is_one_path,
    transfers::ipv6_carries,
    transfers::a_slow_reader_stops_the_sender,
    transfers::a_hundred_at_once,
    transfers::the_address_asked_answers,
    faults::a_path_dies,
    faults::nobody_listens,
    faults::nobody_is_there,
    faults::the_peer_vanishes,
    faults::an_abort_is_an_error,
    faults::peers_of_a_killed_program_are_notified,
    faults::addresses_and_ports_are_checked,
    hostile::a_parameter_without_length_ends_no_server,
    hostile::a_parameter_without_length_ends_no_client,
    hostile::a_process_that_ends_is_started_again,
    hostile::a_process_that_hangs_is_started_again,
    hostile::a_server_without_descriptors_serves_again_afterwards,
    hostile::the_process_has_few_rights,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "peer" => peer::run(rest),
        _ if !peer::has_library() => {
            println!(
                "skipped: SCTP in labs: the library libusrsctp.so.2 is not installed (Debian: libusrsctp2)"
            );
            ExitCode::SUCCESS
        }
        _ => in_user_namespace("SCTP in labs", TESTS),
    }
}
