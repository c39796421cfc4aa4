//! The wire on one end of a veth pair. At the other end, in another namespace, is a packet socket, or the
//! kernel. Real root is needed: eBPF cannot be loaded in a user namespace. If it cannot be loaded, the tests
//! say so and pass.

#![allow(unsafe_code)] // Functions of libbpf.

mod cable;
mod chains;
mod frames;
mod front;
mod lifetime;
mod random;
mod refusal;
mod side;

use std::process::ExitCode;

use hawser_host::netns::{Namespace, NamespaceError, Netlink};
pub(crate) use hawser_testing::TestResult;
use hawser_testing::{Need, Test, is_listing, run, skip, tests};
use hawser_xdp::OpenError;

const TESTS: &[Test] = tests![
    chains::chains_in_the_kernel_do_what_the_interpreter_does,
    random::random_programs_do_the_same_in_the_kernel,
    random::programs_once_refused_run_in_the_kernel,
    frames::frames_to_our_address_are_ours_and_others_the_kernels,
    frames::the_kernels_own_address_still_answers,
    frames::every_length_arrives_in_both_directions,
    frames::jumbo_frames_take_several_buffers,
    frames::a_driver_that_refuses_leaves_generic_xdp,
    frames::batches_take_few_system_calls,
    frames::a_flood_is_received_or_counted,
    frames::frames_the_wire_cannot_send_are_refused,
    frames::a_device_that_is_down_keeps_waiting_frames,
    lifetime::a_killed_process_leaves_no_program,
    lifetime::an_interface_that_is_removed_is_an_error,
    lifetime::a_program_that_is_detached_is_an_error,
    lifetime::a_wire_is_opened_again_and_again,
    front::a_program_without_chains_for_the_kernel_is_refused,
    front::a_full_map_leaves_unknown_connections_to_the_stack,
    front::a_flood_leaves_room_for_connections,
    front::a_killed_process_leaves_no_chain,
    front::datagrams_are_answered_as_datagrams,
    front::frames_during_compilation_do_not_block_chains,
    refusal::an_unusable_interface_is_reported,
    refusal::a_packet_socket_works_in_a_user_namespace,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold", name] => return lifetime::hold(name),
        ["hold-chains", name] => return front::hold(name),
        ["random", ref amount @ ..] => return random::long(amount),
        ["in-user-namespace"] => return refusal::in_user_namespace(),
        _ => {}
    }
    if !is_listing()
        && let Err(reason) = in_namespace(|| cable::set_up(1500).map(drop))
    {
        let lacks_privilege = reason.is::<NamespaceError>()
            || matches!(
                reason.downcast_ref(),
                Some(OpenError::Permission { .. } | OpenError::UserNamespace { .. })
            );
        if lacks_privilege {
            skip(Need::Ebpf, "AF_XDP", reason);
            return ExitCode::SUCCESS;
        }
        println!("AF_XDP: {reason}");
        return ExitCode::FAILURE;
    }
    run(TESTS
        .iter()
        .map(|&(name, test)| (name, move || in_namespace(test))))
}

/// Runs a test in a fresh network namespace.
fn in_namespace(test: impl FnOnce() -> TestResult + Send) -> TestResult {
    Namespace::create()?.run(|| {
        Netlink::open()?.bring_up("lo")?;
        test()
    })?
}
