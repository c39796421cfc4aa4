//! Flows of calls over programs that offer only connections: messages are framed on them, or each call is a
//! stream within one.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::fmt::Write as _;
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::report::Report;
use hawser_sim::{Options, ResolveError, Scenario, run};

fn on(engine: Engine, text: &str) -> Report {
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(engine), name, settings)?)
    };
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    run(&scenario, &resolve, Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Hosts `h0` and so on, connected by a switch.
fn star(program: &str, hosts: usize, link: &str) -> String {
    let mut text = format!(
        "program = '{program}'\nduration = '5min'\nlinger = '3min'\nforget = '5min'\nswitch = [{{ name = 's' }}]\n"
    );
    for host in 0..hosts {
        let _ = writeln!(text, "[[host]]\nname = 'h{host}'");
        let _ = writeln!(text, "[[link]]\nbetween = ['h{host}', 's']\nboth = {{ {link} }}");
    }
    text
}

const FAST: &str = "rate = '10Gbit/s', delay = '1us'";

fn received(report: &Report, flow: usize) -> Option<u64> {
    let messages = report.flows[flow].backward.messages;
    messages.map(|messages| messages.received)
}

/// The scenario of `calls::all_hosts_call_all_others_the_same_on_both_engines`, unchanged but for the
/// program.
#[test]
fn all_hosts_call_each_other_over_lossy_tcp_on_both_engines() {
    let text = star(
        "tcp",
        4,
        &format!("{FAST}, loss = 0.02, reorder = 0.05, hold = '20us', duplicate = 0.02"),
    ) + "[[flow]]\nfrom = 'h[0-3]'\nto = 'h[0-3]'\npairs = 'others'\n\
           calls = { count = 30, size = [1, 40000], reply = [1, 3000], interval = '50us', arrivals = 'poisson' }\n\
           [[flow]]\nfrom = 'h[1-3]'\nto = 'h0'\ncalls = { count = 50, size = [1, 3], reply = [1, 9] }\n\
           [[flow]]\nfrom = 'h[1-3]'\nto = 'h0'\ncalls = { count = 20, size = [1, 9000] }\n";
    // Connections must close with the last call, and not after a minute of idleness.
    let text = text.replace("linger = '3min'", "linger = '10s'");
    let reports = [Engine::Interp, Engine::Native].map(|engine| on(engine, &text));
    for report in &reports {
        assert!(report.ok, "{report}");
        for flow in &report.flows {
            let (calls, replies) = [(30, 30), (50, 50), (20, 0)][flow.flow];
            let messages =
                [&flow.forward, &flow.backward].map(|direction| direction.messages.map(|m| m.received));
            assert_eq!(messages, [Some(calls), Some(replies)], "{flow}");
            assert_eq!(flow.times.map(|times| times.count as u64), Some(calls));
        }
    }
    assert_eq!(reports[0].trace_hash, reports[1].trace_hash);
}

/// Each peer has one connection, which is opened once. The first call waits for the handshake, and the next
/// ones do not. If connections are opened beforehand, no call waits.
#[test]
fn a_connection_is_opened_once_and_used_again() {
    let times = |connect: &str| {
        let text = star("tcp", 2, "delay = '100us'")
            + &format!(
                "[[flow]]\nfrom = 'h0'\nto = 'h1'\nat = '1ms'\n\
                 calls = {{ count = 5, size = 100, reply = 100, outstanding = 1, {connect} }}\n"
            );
        let report = on(Engine::Native, &text);
        assert!(report.ok, "{report}");
        let times = report.flows[0].times.expect("there are calls");
        (report.flows[0].backward.seconds, times.p50, times.max)
    };
    // There and back over two links each take 400 us, and SYN and SYN-ACK take as long again.
    assert_eq!(times(""), (Some(0.0024), 400e-6, 800e-6));
    assert_eq!(times("connect = 'first-call'"), times(""));
    assert_eq!(times("connect = 'at-start'"), (Some(0.0020), 400e-6, 400e-6));
}

/// A host that goes down breaks its connections: calls to it are retried over new ones.
#[test]
fn calls_to_a_restarted_host_use_a_new_connection() {
    let text = star("tcp", 3, FAST)
        + "[[at]]\ntime = '5ms'\nhost = 'h1'\nstate = 'down'\n[[at]]\ntime = '300ms'\nhost = 'h1'\nstate = 'up'\n\
           [[flow]]\nfrom = ['h0', 'h2']\nto = ['h1']\n\
           calls = { count = 100, size = [1, 20000], reply = 50, interval = '200us', retry = '10ms' }\n\
           [[flow]]\nfrom = ['h1']\nto = ['h0']\ncalls = { count = 100, size = 5000, reply = 5000, interval = '100us' }\n";
    let report = on(Engine::Native, &text);
    assert!(report.ok, "{report}");
    assert_eq!(
        [received(&report, 0), received(&report, 1)],
        [Some(100); 2],
        "{report}"
    );
    let own = received(&report, 2);
    assert!(own.is_some_and(|own| (40..=100).contains(&own)), "{own:?}");
}

/// A call fails when its connection fails, and the report names it.
#[test]
fn a_call_whose_connection_fails_is_reported() {
    let text = star("tcp", 2, FAST)
        + "[[at]]\ntime = '0s'\nlink = 'h1-s'\nstate = 'down'\n\
           [[flow]]\nfrom = 'h0'\nto = 'h1'\ncalls = { count = 2, size = 10, reply = 10 }\n";
    let report = on(Engine::Native, &text);
    let expected = "flow 0 (calls h0 -> h1:7001): call 0: failed: the connection to 10.0.0.2:7001 has ended: \
                    Connection timed out";
    let first = report.failures.first();
    assert!(first.is_some_and(|fault| fault.starts_with(expected)), "{report}");
    let ends = report.flows[0].ends.as_ref().expect("it failed");
    assert_eq!([&ends[0].host, &ends[1].host], ["h0", "h1"]);
}

/// A connection with streams has one stream for each call, through losses. Calls in both directions between
/// two hosts use two connections.
#[test]
fn each_call_is_a_stream_of_its_own_the_same_on_both_engines() {
    let text = star(
        "quic-lite",
        3,
        &format!("{FAST}, loss = 0.02, reorder = 0.05, hold = '20us', duplicate = 0.02"),
    ) + "[[flow]]\nfrom = 'h[0-2]'\nto = 'h[0-2]'\npairs = 'others'\nport = 4433\n\
           calls = { count = 150, size = [1, 40000], reply = [1, 3000], interval = '50us', arrivals = 'poisson' }\n";
    let reports = [Engine::Interp, Engine::Native].map(|engine| on(engine, &text));
    for report in &reports {
        assert!(report.ok, "{report}");
        for flow in &report.flows {
            let messages =
                [&flow.forward, &flow.backward].map(|direction| direction.messages.map(|m| m.received));
            assert_eq!(messages, [Some(150); 2], "{flow}");
        }
    }
    assert_eq!(reports[0].trace_hash, reports[1].trace_hash);
}

/// A short call does not wait for a long one before it, which takes 8 ms of the line.
#[test]
fn a_short_call_does_not_wait_for_a_long_one() {
    let text = star("quic-lite", 2, "rate = '1Gbit/s', delay = '10us'")
        + "[[flow]]\nfrom = 'h0'\nto = 'h1'\nat = '1s'\nport = 4433\n\
           calls = { trace = 'two', reply = 8, connect = 'at-start' }\n";
    let mut scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let trace = "0ms h0 h1 1000000\n1ms h0 h1 1000\n";
    scenario
        .read_files(&mut |_| Ok(trace.to_owned()))
        .expect("a trace");
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(Engine::Native), name, settings)?)
    };
    let report = run(&scenario, &resolve, Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.ok, "{report}");
    let times = report.flows[0].times.expect("there are calls");
    assert!(times.min < 2e-3 && times.max > 8e-3, "{times:?}");
}

/// A call fails when the connection of its stream fails, or when that connection is refused.
#[test]
fn a_call_over_a_failed_stream_is_reported() {
    let text = star("quic-lite", 2, FAST)
        + "[[at]]\ntime = '0s'\nlink = 'h1-s'\nstate = 'down'\n\
           [[flow]]\nfrom = 'h0'\nto = 'h1'\nport = 4433\ncalls = { count = 2, size = 10, reply = 10 }\n";
    let report = on(Engine::Native, &text);
    let expected =
        "flow 0 (calls h0 -> h1:4433): call 0: failed: its connection failed: Connection timed out";
    let first = report.failures.first();
    assert!(first.is_some_and(|fault| fault.starts_with(expected)), "{report}");
}

/// Stop-and-wait has streams too, with one packet at a time.
#[test]
fn any_program_with_streams_carries_calls() {
    let text = star("selective-repeat", 3, FAST)
        + "[[flow]]\nfrom = 'h[0-2]'\nto = 'h[0-2]'\npairs = 'others'\n\
           calls = { count = 10, size = [1, 5000], reply = 20, interval = '1ms' }\n";
    let report = on(Engine::Native, &text);
    assert!(report.ok, "{report}");
}

/// A call alone finds its connection open. Sequential calls take as long as alone, and the first one takes
/// the handshake in addition.
#[test]
fn slowdown_compares_with_a_call_over_an_open_connection() {
    let text = star("tcp", 2, "delay = '100us'")
        + "[[flow]]\nfrom = 'h0'\nto = 'h1'\ncalls = { count = 10, size = 100, reply = 8, outstanding = 1 }\n";
    let report = on(
        Engine::Native,
        &text.replace("duration", "slowdown = true\nduration"),
    );
    let slowdown = report.slowdown.expect("there are calls").all;
    assert_eq!((slowdown.count, slowdown.p50, slowdown.max), (10, 1.0, 2.0));
}
