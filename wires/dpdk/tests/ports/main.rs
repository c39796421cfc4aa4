//! Ports of DPDK: frames through them, and errors for unsuitable devices. No privilege is needed.

mod frames;
mod lifetime;
mod refusal;

use std::process::ExitCode;

use hawser_host::netns::Namespace;
use hawser_testing::{TestResult, enter_namespace, run, tests};

/// The name and body of a test.
type Test = (&'static str, fn() -> TestResult);

const TESTS: &[Test] = tests![
    frames::a_ring_returns_what_it_is_sent,
    frames::payload_is_kept_until_it_is_sent,
    frames::shared_memory_carries_frames_in_order,
    frames::queues_carry_frames_apart,
    frames::super_segments_cross_a_ring_of_virtio,
    frames::a_ring_of_virtio_carries_frames_in_order,
    frames::a_closed_port_frees_its_frames,
    frames::sums_that_a_port_does_not_know_are_completed,
    frames::pieces_of_odd_lengths_are_summed_as_one,
    frames::frames_a_port_cannot_send_are_refused,
    refusal::an_invalid_device_name_is_reported,
    refusal::the_error_includes_the_message_of_dpdk,
    refusal::a_missing_capability_is_named,
    refusal::a_port_of_one_queue_has_no_second,
    refusal::a_device_in_use_stays,
    refusal::an_interface_that_is_down_is_named,
    lifetime::shared_memory_is_met_in_a_folder_of_the_users_own,
    lifetime::a_killed_process_leaves_no_device_and_no_folder,
    lifetime::a_killed_process_leaves_an_interface_as_it_was,
    lifetime::a_port_whose_interface_was_taken_away_ends,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let ["hold", device] = &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return lifetime::hold(device);
    }
    if !enter_namespace("ports of DPDK") {
        return ExitCode::SUCCESS;
    }
    run(TESTS
        .iter()
        .map(|&(name, test)| (name.to_owned(), move || Namespace::create()?.run(test)?)))
}
