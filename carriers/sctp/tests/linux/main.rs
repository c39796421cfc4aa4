//! Associations over emulated networks, between two processes: throughput over two paths, paths and peers
//! that die, slow readers, crowds.
//!
//! A process has one stack, so each end is a process of its own: this program, called with `peer`.

mod faults;
#[path = "../../../../lab/tests/common/harness.rs"]
mod harness;
mod network;
mod peer;
mod transfers;

use std::process::ExitCode;

use harness::Test;
pub(crate) use harness::TestResult;

const TESTS: &[Test] = &[
    ("transfers::two_paths_add_up", transfers::two_paths_add_up),
    ("transfers::one_path_is_one_path", transfers::one_path_is_one_path),
    ("transfers::ipv6_carries", transfers::ipv6_carries),
    ("transfers::a_slow_reader_stops_the_sender", transfers::a_slow_reader_stops_the_sender),
    ("transfers::a_hundred_at_once", transfers::a_hundred_at_once),
    ("transfers::the_address_asked_answers", transfers::the_address_asked_answers),
    ("faults::a_path_dies", faults::a_path_dies),
    ("faults::nobody_listens", faults::nobody_listens),
    ("faults::nobody_is_there", faults::nobody_is_there),
    ("faults::the_peer_vanishes", faults::the_peer_vanishes),
    ("faults::an_abort_is_an_error", faults::an_abort_is_an_error),
    ("faults::addresses_and_ports_are_checked", faults::addresses_and_ports_are_checked),
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
        _ => harness::run("SCTP in labs", TESTS),
    }
}
