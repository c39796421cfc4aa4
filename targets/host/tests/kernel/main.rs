//! The wires and the network layer against Linux, each test inside network namespaces of its own.
//!
//! Not the usual harness, since a process can enter a user namespace only while it has one thread.
//! What the system does not permit is skipped, with the reason printed.

mod cable;
mod errors;
mod path_mtu;
mod ping;
mod refusal;
mod station;
mod stream;
mod tun;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use hawser_host::OpenError;
use hawser_host::netns::{Namespace, Netlink, enter_user_namespace};

type TestResult = Result<(), Box<dyn Error + Send + Sync>>;
/// Name and body.
type Test = (&'static str, fn() -> TestResult);

/// The test that runs before any namespace is entered.
const PERMISSION: &str = "errors::permission";

const TESTS: &[Test] = &[
    ("tun::echo_is_answered", tun::echo_is_answered),
    ("tun::checksums_are_described", tun::checksums_are_described),
    ("tun::without_offload_packets_are_whole", tun::without_offload_packets_are_whole),
    ("tun::super_segments_both_ways", tun::super_segments_both_ways),
    ("packet::echo_is_answered", cable::echo_is_answered),
    ("packet::echo_is_answered_by_way_of_a_ring", cable::echo_is_answered_by_way_of_a_ring),
    ("packet::neighbours_are_found", cable::neighbours_are_found),
    ("packet::super_segments_both_ways", cable::super_segments_both_ways),
    ("packet::super_segments_both_ways_by_way_of_a_ring", cable::super_segments_by_way_of_a_ring),
    ("packet::super_segments_both_ways_beside_a_ring", cable::super_segments_beside_a_ring),
    ("packet::a_full_ring_drops_and_goes_on", cable::a_full_ring_drops_and_goes_on),
    ("packet::frames_of_others_stay_out", cable::frames_of_others_stay_out),
    ("path_mtu::is_learnt_from_a_router", path_mtu::is_learnt_from_a_router),
    ("refusal::protocol_unreachable_reaches_linux", refusal::protocol_unreachable_reaches_linux),
    ("errors::of_packet_sockets", errors::of_packet_sockets),
    ("errors::of_tun_devices", errors::of_tun_devices),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        println!("{PERMISSION}: test");
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let mut failed = 0;
    let mut judge = |name: &str, test: &dyn Fn() -> TestResult| {
        if filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str())) {
            failed += usize::from(!passes(name, test));
        }
    };
    judge(PERMISSION, &errors::permission);
    match enter_user_namespace() {
        Ok(()) => TESTS.iter().for_each(|(name, test)| judge(name, &|| in_namespace(*test))),
        Err(reason) => println!("skipped: all tests against the kernel: {reason}"),
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a test and says how it went; false when it failed.
fn passes(name: &str, test: &dyn Fn() -> TestResult) -> bool {
    let start = Instant::now();
    let result = test();
    let verdict = match &result {
        Ok(()) => "ok".to_owned(),
        Err(error) if is_excusable(error.as_ref()) => format!("skipped: {error}"),
        Err(error) => format!("FAILED: {error}"),
    };
    match verdict.starts_with("skipped") {
        true => println!("skipped: {name}{}", verdict.trim_start_matches("skipped")),
        false => println!("test {name} ... {verdict} ({} ms)", start.elapsed().as_millis()),
    }
    !verdict.starts_with("FAILED")
}

/// Runs a test in a fresh network namespace; a panic is a failure.
fn in_namespace(test: fn() -> TestResult) -> TestResult {
    let namespace = Namespace::create()?;
    namespace.run(|| {
        Netlink::open()?.bring_up("lo")?;
        std::panic::catch_unwind(test).unwrap_or_else(|_| Err("it panicked".into()))
    })?
}

/// Whether the system at hand cannot run the test at all.
fn is_excusable(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref::<OpenError>(), Some(OpenError::NoTun | OpenError::TunUnreadable))
}
