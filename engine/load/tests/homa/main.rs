//! Calls of Homa over two stacks and a wire that loses frames, on both engines. Each request is delivered
//! once and complete, and each reply reaches its caller.
//!
//! * [`wire`]: packets in HomaModule's layout, and a peer that the test plays
//! * [`golden`]: comparison of packets with those of HomaModule's header
//! * [`rules`], [`silence`], [`ends`], [`path`]: the program's behaviour, rule by rule

#![allow(unreachable_pub)]

#[path = "../calls/mod.rs"]
mod calls;
mod ends;
mod golden;
mod path;
mod rules;
mod silence;
mod wire;

use calls::cable::{Cable, cable};
use calls::{Host, SIZES, address, calls, program, run};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Errno, Handle, Notice, RequestError, Stack, StackConfig};
use hawser_ir::AppOp;
use hawser_load::Engine;
use hawser_time::Instant;

/// Seven levels of unscheduled bytes and one of granted bytes, from the first packet on.
#[test]
fn hosts_with_equal_params_need_no_cutoffs_packet() {
    let params = [
        ("ALIKE", 1),
        ("SCHEDULED", 0),
        ("CUTOFF_7", 10),
        ("CUTOFF_6", 20),
        ("CUTOFF_5", 30),
        ("CUTOFF_4", 40),
        ("CUTOFF_3", 50),
        ("CUTOFF_2", 60),
        ("CUTOFF_1", 70),
    ];
    let mut stage = wire::Testbed::new(&params);
    for (len, priority) in [
        (10, 7),
        (20, 6),
        (21, 5),
        (40, 4),
        (50, 3),
        (60, 2),
        (70, 1),
        (71, 0),
    ] {
        stage.call(len);
        assert_eq!(stage.take()[0].priority, priority, "{len} bytes");
    }
}

#[test]
fn messages_from_a_byte_to_a_megabyte_are_carried() {
    for engine in [Engine::Interp, Engine::Native] {
        calls("homa", engine, &SIZES, (0, 0), 1);
    }
}

#[test]
fn both_engines_send_the_same_packets() {
    let counted = [Engine::Interp, Engine::Native].map(|engine| {
        let hosts = calls("homa", engine, &SIZES, (3, 0), 7);
        hosts.map(|host| host.stack.counters().clone())
    });
    assert_eq!(counted[0], counted[1]);
}

#[test]
fn losses_are_repaired() {
    for seed in 0..40 {
        calls("homa", Engine::Native, &SIZES, (1 + seed % 10, 0), seed);
    }
}

#[test]
fn a_call_to_a_closed_port_is_refused() {
    let program = program("homa", Engine::Native, &[]);
    let [a, b] = cable(0, 1);
    let mut hosts = [Host::new(&program, 0, a), Host::new(&program, 1, b)];
    hosts[1].answers = false;
    let start = Instant::from_nanos(1_000_000);
    let endpoint = hosts[0].endpoint;
    let call = |host: &mut Host, port| host.stack.call(start, endpoint, address(1, port), b"hello");
    let closed = call(&mut hosts[0], 81)
        .expect("it is taken")
        .expect("there is room");
    let unanswered = call(&mut hosts[0], 80)
        .expect("it is taken")
        .expect("there is room");
    run(&mut hosts, start, Instant::from_nanos(1_000_000_000));
    assert_eq!(hosts[0].failed.get(&closed), Some(&Errno(111)), "ECONNREFUSED");
    assert_eq!(
        hosts[0].failed.get(&unanswered),
        None,
        "the server says that it is busy"
    );
    assert_eq!(hosts[1].served, [b"hello".to_vec()]);
}

#[test]
fn requests_homa_lacks_are_refused() {
    let program = program("homa", Engine::Native, &[]);
    let [a, _] = cable(0, 1);
    let mut host = Host::new(&program, 0, a);
    let (now, peer) = (Instant::from_nanos(1), address(1, 80));
    let endpoint = host.endpoint;
    assert_eq!(
        host.stack.message(now, endpoint, peer, b"x"),
        Err(RequestError::Unsupported(AppOp::Message))
    );
    assert_eq!(
        host.stack.connect(now, peer, None),
        Err(RequestError::Unsupported(AppOp::Connect))
    );
    let long = vec![0; 1_000_001];
    assert_eq!(
        host.stack.call(now, endpoint, peer, &long),
        Err(RequestError::Refused(Errno(90))),
        "EMSGSIZE"
    );
}
