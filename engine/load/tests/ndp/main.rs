//! Calls of NDP over two stacks and a wire that loses packets and trims the data of others, on both engines.

#![allow(unreachable_pub)]

#[path = "../calls/mod.rs"]
mod calls;
mod rules;

use calls::cable::cable;
use calls::{Host, SIZES, address, calls, program, run};
use hawser_engine::Errno;
use hawser_load::Engine;
use hawser_time::Instant;

#[test]
fn messages_from_a_byte_to_a_megabyte_are_carried() {
    for engine in [Engine::Interp, Engine::Native] {
        calls("ndp", engine, &SIZES, (0, 0), 1);
    }
}

#[test]
fn both_engines_send_the_same_packets() {
    let counted = [Engine::Interp, Engine::Native].map(|engine| {
        let hosts = calls("ndp", engine, &SIZES, (2, 20), 7);
        hosts.map(|host| host.stack.counters().clone())
    });
    assert_eq!(counted[0], counted[1]);
}

#[test]
fn packets_that_are_cut_are_sent_again_when_they_are_pulled() {
    for seed in 0..20 {
        let hosts = calls("ndp", Engine::Native, &SIZES, (0, 10 + seed * 3), seed);
        // No packet is lost. Only a trimmed control packet would have to wait for a timeout, and none is that
        // long.
        assert!(hosts.iter().all(|host| host.failed.is_empty()));
    }
}

#[test]
fn losses_are_repaired_also_of_control_packets() {
    for seed in 0..30 {
        calls("ndp", Engine::Native, &SIZES, (1 + seed % 10, 15), seed);
    }
}

#[test]
fn a_call_to_a_closed_port_is_refused() {
    let program = program("ndp", Engine::Native, &[]);
    let [a, b] = cable(0, 1);
    let mut hosts = [Host::new(&program, 0, a), Host::new(&program, 1, b)];
    hosts[1].answers = false;
    let start = Instant::from_nanos(1_000_000);
    let endpoint = hosts[0].endpoint;
    let call = hosts[0].stack.call(start, endpoint, address(1, 81), b"hello");
    let call = call.expect("it is taken").expect("there is room");
    let waits = hosts[0].stack.call(start, endpoint, address(1, 80), b"hello");
    let waits = waits.expect("it is taken").expect("there is room");
    run(&mut hosts, start, Instant::from_nanos(20_000_000_000));
    assert_eq!(hosts[0].failed.get(&call), Some(&Errno(111)), "ECONNREFUSED");
    assert_eq!(
        hosts[0].failed.get(&waits),
        None,
        "the server is there, and has not replied yet"
    );
    assert_eq!(hosts[1].served, [b"hello".to_vec()]);
}
