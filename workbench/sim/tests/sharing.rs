//! Several connections at one port, from one host or from many, and flows with many ends.

use std::sync::Arc;

use hawser_engine::Stack;
use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::report::Report;
use hawser_sim::{Options, ResolveError, START, Scenario, run};

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

fn parse(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// Three hosts and a server at a switch; `rules` are those of each link.
fn star(program: &str, rules: &str, rest: &str) -> String {
    let links: String = ["a", "b", "c", "server"]
        .map(|host| format!("{{ between = ['{host}', 's'], both = {{ {rules} }} }},"))
        .concat();
    format!(
        "program = '{program}'\nduration = '10min'\nlinger = '5min'\nforget = '5min'\n\
         host = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'c' }}, {{ name = 'server' }}]\n\
         switch = [{{ name = 's' }}]\nlink = [{links}]\n{rest}"
    )
}

fn go(text: &str, seed: u64) -> Report {
    let options = Options { seed: Some(seed), ..Options::default() };
    let report = run(&parse(text), &resolve, options).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.ok, "seed {seed}: {report}");
    report
}

/// Returns the ends of each flow, its port, and its bytes both ways.
fn rows(report: &Report) -> Vec<(&str, &str, u16, u64, u64)> {
    let row = |flow: &'_ hawser_sim::report::FlowReport| (flow.port, flow.forward.bytes, flow.backward.bytes);
    let rows = report.flows.iter().map(|flow| {
        let (port, forward, backward) = row(flow);
        (flow.from.as_str(), flow.to.as_str(), port, forward, backward)
    });
    rows.collect()
}

fn unexpected(report: &Report, host: &str) -> u64 {
    let host = report.hosts.iter().find(|known| known.host == host);
    let counters = &host.expect("the host").counters;
    counters.get("unexpected_connections").copied().unwrap_or(0)
}

const LOSSY: &str =
    "rate = '10Mbit/s', delay = '2ms', loss = 0.05, reorder = 0.1, hold = '5ms', duplicate = 0.02";

/// Every connection gets its own bytes, in whatever order they are accepted.
#[test]
fn connections_at_one_port_are_matched_by_their_clients() {
    let flows = "[[flow]]\nfrom = 'a'\nto = 'server'\nport = 80\ncount = 3\none_port = true\nbulk = { bytes = 20000, back = 100 }\n\
                 [[flow]]\nfrom = 'b'\nto = 'server'\nport = 80\nbulk = { bytes = 3000, back = 40000 }\n\
                 [[flow]]\nfrom = 'c'\nto = 'server'\nport = 80\nrequest = { count = 3, size = 100, response = 1000 }\n\
                 [[flow]]\nfrom = 'c'\nto = 'server'\nport = 81\nbulk = { bytes = 10 }\n";
    for program in ["tcp", "selective-repeat"] {
        for seed in 1..6 {
            let report = go(&star(program, LOSSY, flows), seed);
            let expected = [
                ("a", "server", 80, 20_000, 100),
                ("a", "server", 80, 20_000, 100),
                ("a", "server", 80, 20_000, 100),
                ("b", "server", 80, 3000, 40_000),
                ("c", "server", 80, 300, 3000),
                ("c", "server", 81, 10, 0),
            ];
            assert_eq!(rows(&report), expected, "{program}, seed {seed}");
            let mut ports: Vec<_> = report.flows.iter().map(|flow| flow.client_port).collect();
            assert_eq!(ports.pop(), Some(None), "a port of its own");
            ports.sort_unstable();
            ports.dedup();
            assert!(ports.len() == 5 && ports[0].is_some(), "{ports:?}");
            assert_eq!(unexpected(&report, "server"), 0);
        }
    }
}

/// A hundred simultaneous opens exceed the number of connections that may wait at a listener of one flow.
#[test]
fn a_hundred_clients_open_at_once() {
    let flows = "[[flow]]\nfrom = ['a', 'b', 'c']\nto = 'server'\nport = 80\ncount = 34\none_port = true\nbulk = { bytes = 1000 }\n";
    let text = star("tcp", "rate = '100Mbit/s', delay = '1ms'", flows);
    let report = go(&text, 1);
    assert_eq!(report.flows.len(), 102);
    // All connections were accepted: each opens within one round trip, and behind a queue of 102 packets of
    // at most 100 bytes.
    let slowest = report.flows.iter().filter_map(|flow| flow.connect_seconds);
    let slowest = slowest.fold(0.0, f64::max);
    let bound = 8.0 * 0.001 + 2.0 * 102.0 * 100.0 * 8.0 / 100e6;
    assert!(slowest < bound, "{slowest} of {bound}");
}

/// The report has one row for each pair of hosts, in the order of the lists.
#[test]
fn lists_of_hosts_expand_to_one_flow_per_pair() {
    let rules = "rate = '10Mbit/s', delay = '1ms'";
    let to_many = "[[flow]]\nfrom = 'server'\nto = ['a', 'b', 'c']\nport = 80\nbulk = { bytes = 5000 }\n";
    let report = go(&star("tcp", rules, to_many), 1);
    let expected = ["a", "b", "c"].map(|to| ("server", to, 80, 5000, 0));
    assert_eq!(rows(&report), expected);
    assert!(
        report
            .flows
            .iter()
            .all(|flow| flow.flow == 0 && flow.client_port.is_none())
    );
    let both = "[[flow]]\nfrom = ['a', 'b']\nto = ['c', 'server']\ncount = 2\nbulk = { bytes = 7000 }\n";
    let report = go(&star("tcp", rules, both), 1);
    let mut expected = Vec::new();
    for from in ["a", "b"] {
        for to in ["c", "server"] {
            expected.extend([7001, 7002].map(|port| (from, to, port, 7000, 0)));
        }
    }
    assert_eq!(rows(&report), expected);
}

/// Data from many senders to one host shares its line: together they reach almost the line's rate.
#[test]
fn an_incast_fills_the_line_of_its_receiver() {
    let flows = "[[flow]]\nfrom = ['a', 'b', 'c']\nto = 'server'\nport = 80\nbulk = { bytes = '1MiB' }\n";
    let report = go(
        &star("tcp", "rate = '10Mbit/s', delay = '1ms', queue = '64KiB'", flows),
        1,
    );
    let bytes: u64 = report.flows.iter().map(|flow| flow.forward.bytes).sum();
    let seconds = report.flows.iter().filter_map(|flow| flow.forward.seconds);
    let goodput = bytes as f64 * 8.0 / seconds.fold(0.0, f64::max);
    let limit = 10e6 * (1500.0 - 40.0) / 1500.0;
    assert!((0.85 * limit..=limit).contains(&goodput), "{goodput} of {limit}");
}

/// The listener is gone with its host. An end that has not connected yet opens a new listener, and the ends
/// that follow share it.
#[test]
fn a_shared_listener_listens_again_when_its_host_is_back() {
    let flows = "[[flow]]\nfrom = 'a'\nto = 'server'\nport = 80\nagain = 1\nsend_buffer = '32KiB'\nbulk = { bytes = '1MiB' }\n\
                 [[flow]]\nfrom = 'b'\nto = 'server'\nport = 80\nat = '6s'\nbulk = { bytes = 5000 }\n\
                 [[flow]]\nfrom = 'c'\nto = 'server'\nport = 80\nagain = 2\nbulk = { bytes = 100, back = 100 }\n\
                 [[at]]\ntime = '2s'\nhost = 'server'\nstate = 'down'\n[[at]]\ntime = '3s'\nhost = 'server'\nstate = 'up'\n";
    for program in ["tcp", "selective-repeat"] {
        let report = go(&star(program, "rate = '1Mbit/s', delay = '10ms'", flows), 1);
        let bytes: Vec<u64> = report.flows.iter().map(|flow| flow.forward.bytes).collect();
        assert!(bytes[0] < 250_000, "{program}: {bytes:?}");
        assert_eq!(bytes[1..3], [1 << 20, 5000], "{program}");
        assert_eq!(report.flows.len(), 6);
    }
}

/// The unexpected connection is reset and counted at the host, and does not take the place of an expected
/// one.
#[test]
fn a_connection_that_no_flow_expects_is_reset_and_counted() {
    let flows = "[[flow]]\nfrom = ['a', 'b']\nto = 'server'\nport = 80\nbulk = { bytes = '2MiB' }\n";
    let text = star("tcp", "rate = '10Mbit/s', delay = '1ms'", flows).replace("forget = '5min'\n", "");
    let intrude = |host: &str, stack: &mut Stack| {
        if host == "c" {
            let server = "10.0.0.4:80".parse().expect("an address");
            stack.connect_with(START, server, None, &[]).expect("it opens");
        }
    };
    let options = Options { stacks: Some(Box::new(intrude)), ..Options::default() };
    let report = run(&parse(&text), &resolve, options).expect("it runs");
    assert!(report.ok, "{report}");
    assert_eq!(unexpected(&report, "server"), 1);
    assert_eq!(
        report.flows.iter().map(|flow| flow.forward.bytes).sum::<u64>(),
        4 << 20
    );
}
