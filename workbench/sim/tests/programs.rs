//! Whole runs with real programs: they are safe, complete and reproducible, and violations are reported.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::watch::{RunSample, SampleRequest};
use hawser_sim::{Options, Report, ResolveError, Run, RunError, Scenario, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

/// Returns a scenario of `examples/scenarios/`.
fn example(name: &str) -> Scenario {
    let folder = root().join("examples/scenarios");
    let text = fs::read_to_string(folder.join(name)).expect("the example");
    let mut scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    scenario.relative_to(&folder);
    scenario
}

/// Returns a scenario with two hosts, a link with these rules, and the rest as given.
fn pair(program: &str, rules: &str, rest: &str) -> Scenario {
    let program = root().join(program);
    let text = format!(
        "program = '{}'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ {rules} }} }}]\n{rest}",
        program.display()
    );
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

fn go(scenario: &Scenario) -> Report {
    run(scenario, &resolve, Options::default()).unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

/// Runs twice, and expects success and equal reports.
fn good(scenario: &Scenario) -> Report {
    let report = go(scenario);
    assert!(report.ok, "{report}");
    assert_eq!(go(scenario), report, "another run of the same");
    report
}

const STOP_AND_WAIT: &str = "examples/stop-and-wait.mtp";
const GO_BACK_N: &str = "examples/go-back-n.mtp";

#[test]
fn stop_and_wait_moves_a_mebibyte_through_ten_percent_loss() {
    let scenario = example("stop-and-wait.toml");
    let report = good(&scenario);
    let flow = &report.flows[0];
    assert_eq!((flow.forward.bytes, flow.forward.sha256_ok), (1 << 20, true));
    // 749 packets of 1400 bytes. A round fails if the packet or its answer is lost, which happens to 0.19 of
    // them.
    let again = flow.retransmissions.expect("an observable") as f64;
    let expected = 749.0 * 0.19 / 0.81;
    assert!(
        (again - expected).abs() < 5.0 * (749.0f64 * 0.19).sqrt() / 0.81,
        "{again} of {expected}"
    );
    let other = run(
        &scenario,
        &resolve,
        Options { seed: Some(2), ..Options::default() },
    )
    .expect("a run");
    assert!(other.ok);
    assert_ne!(other.trace_hash, report.trace_hash);
}

/// Watching does not change a run. The first samples are those of two rounds of 5 ms and 1400 bytes each.
#[test]
fn a_watch_sees_every_sample_and_does_not_change_the_run() {
    let scenario = pair(
        STOP_AND_WAIT,
        "delay = '5ms'",
        "flow = [{ from = 'a', to = 'b', bulk = { bytes = 14000 } }]",
    );
    let report = good(&scenario);
    let mut moments = Vec::new();
    let mut reported = |moment: &RunSample| moments.push(moment.clone());
    let watch = SampleRequest {
        every: Duration::from_millis(10),
        fields: &["retransmissions", "nothing"],
        reported: &mut reported,
    };
    let watched = run(
        &scenario,
        &resolve,
        Options { watch: Some(watch), ..Options::default() },
    )
    .expect("a run");
    assert_eq!(watched, report);
    let received: Vec<u64> = moments.iter().map(|moment| moment.flows[0].received[0]).collect();
    assert!(received.is_sorted() && received.len() > 5, "{received:?}");
    assert_eq!(received.last(), Some(&14_000));
    assert_eq!(moments[5].flows[0].values, [Some(0), None]);
    assert_eq!(moments[5].at, Duration::from_millis(60));
    assert_eq!((moments[5].links.len(), moments[5].links[0].dropped), (2, 0));
}

#[test]
fn a_program_of_ones_own_runs_by_its_path() {
    let report = good(&example("go-back-n.toml"));
    assert_eq!(report.flows[0].forward.bytes, 1 << 20);
    assert_eq!(report.flows[1].times.map(|times| times.count), Some(10));
}

#[test]
fn rounds_take_the_time_of_the_link() {
    // One packet of 1400 bytes and its answer are in flight at a time. At 8 Mbit/s a byte takes 1 µs. A
    // packet takes 1400 + 12 + 20 bytes and 3 ms, and its answer 12 + 20 bytes and 3 ms. The last byte
    // arrives after 9 rounds and one way.
    let scenario = pair(
        STOP_AND_WAIT,
        "rate = '8Mbit/s', delay = '3ms'",
        "flow = [{ from = 'a', to = 'b', bulk = { bytes = 14000 } }]",
    );
    let there = 0.001_432 + 0.003;
    let back = 0.000_032 + 0.003;
    // The first packet makes the connection and is repeated after the RTO of 100 ms.
    let expected = 0.1 + there + 9.0 * (there + back);
    let taken = good(&scenario).flows[0].forward.seconds.expect("it arrives");
    assert!((taken - expected).abs() < 1e-9, "{taken} instead of {expected}");
}

#[test]
fn corrupt_packets_are_never_delivered() {
    let flows = "flow = [{ from = 'a', to = 'b', bulk = { bytes = '256KiB', back = 1000 } }, \
                 { from = 'a', to = 'b', family = 6, bulk = { bytes = '256KiB' } }]";
    let scenario = pair(
        GO_BACK_N,
        "delay = '1ms', corrupt = 0.05, duplicate = 0.05, reorder = 0.05",
        flows,
    );
    let report = good(&scenario);
    let corrupted: u64 = report.links.iter().map(|link| link.corrupted).sum();
    let seen: u64 = report
        .hosts
        .iter()
        .filter_map(|host| host.counters.get("parse_checksum"))
        .sum();
    assert!(corrupted > 20 && seen > 0, "{corrupted} corrupted, {seen} seen");
}

#[test]
fn a_cut_delays_and_a_cut_for_good_is_reported() {
    let flow = "flow = [{ from = 'a', to = 'b', bulk = { bytes = '100KiB' } }]\n";
    let cut = "[[at]]\ntime = '20ms'\nlink = 'a-b'\nstate = 'down'\n";
    let mended = format!("{flow}{cut}[[at]]\ntime = '5s'\nlink = 'a-b'\nstate = 'up'\n");
    let taken = good(&pair(GO_BACK_N, "delay = '5ms'", &mended)).flows[0]
        .forward
        .seconds;
    // The timer doubles from 100 ms: six timeouts take 6.3 s.
    assert!(taken.is_some_and(|taken| taken > 6.3 && taken < 6.5), "{taken:?}");

    let report = go(&pair(
        GO_BACK_N,
        "delay = '5ms'",
        &format!("duration = '10s'\n{flow}{cut}"),
    ));
    assert!(!report.ok);
    assert_eq!(report.end, "time");
    assert!(
        report
            .failures
            .iter()
            .any(|f| f.contains("of 102400 bytes received")),
        "{:?}",
        report.failures
    );
    let lost: u64 = report
        .links
        .iter()
        .filter_map(|link| link.dropped.get("down"))
        .sum();
    assert!(lost > 0);
}

#[test]
fn connections_open_and_close_in_all_orders() {
    let mut flows = String::from("linger = '1min'\n");
    for open in ["client", "both"] {
        for close in ["client", "server", "both"] {
            flows += &format!(
                "[[flow]]\nfrom = 'a'\nto = 'b'\nopen = '{open}'\nclose = '{close}'\n\
                 bulk = {{ bytes = 20000, back = 10000 }}\n"
            );
        }
    }
    let report = good(&pair(GO_BACK_N, "delay = '5ms', loss = 0.05", &flows));
    assert_eq!(report.flows.len(), 6);
}

#[test]
fn a_slow_reader_reads_at_its_rate() {
    let flow = "flow = [{ from = 'a', to = 'b', read_rate = '800kbit/s', bulk = { bytes = 100000 } }]";
    let report = good(&pair(GO_BACK_N, "delay = '5ms'", flow));
    let (flow, connected) = (&report.flows[0], 0.005);
    let taken = flow.forward.seconds.expect("it arrives");
    assert!((taken - connected - 1.0).abs() < 1e-6, "{taken}");
}

#[test]
fn a_host_between_two_others_serves_both_flows() {
    let text = format!(
        "program = '{}'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}, {{ name = 'c' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ delay = '1ms' }} }}, \
         {{ between = ['b', 'c'], both = {{ delay = '2ms' }} }}]\n\
         flow = [{{ from = 'b', to = 'a', bulk = {{ bytes = 5000 }} }}, \
         {{ from = 'b', to = 'c', bulk = {{ bytes = 5000 }} }}]",
        root().join(GO_BACK_N).display()
    );
    let report = good(&Scenario::parse(&text).expect("a good scenario"));
    let connect: Vec<Option<f64>> = report.flows.iter().map(|flow| flow.connect_seconds).collect();
    assert_eq!(
        connect,
        [Some(0.002), Some(0.004)],
        "each flow takes its own link"
    );
}

/// Writes a program with a change that makes it wrong.
fn broken(from: &str, to: &str) -> PathBuf {
    let text = fs::read_to_string(root().join(STOP_AND_WAIT)).expect("the example");
    assert!(text.contains(from), "{from}");
    let name: String = from.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.mtp"));
    fs::write(&path, text.replacen(from, to, 1)).expect("a file");
    path
}

#[test]
fn unsafe_programs_are_detected() {
    let flow = "duration = '2min'\nflow = [{ from = 'a', to = 'b', bulk = { bytes = '100KiB' } }]";
    let failures = |path: PathBuf, rules: &str| {
        go(&pair(&path.to_string_lossy(), rules, flow))
            .failures
            .join("\n")
    };
    // Accepts every packet, including repeated ones.
    let twice = broken("if (ev.seq == c.next_in) {", "if (true) {");
    let message = failures(twice, "delay = '1ms', loss = 0.1");
    assert!(message.contains("is not what was sent there"), "{message}");
    // Does not verify checksums.
    let blind = broken("checksum16_t sum over (pseudo, this)", "uint16 sum");
    let message = failures(blind, "delay = '1ms', corrupt = 0.2");
    assert!(message.contains("is not what was sent there"), "{message}");
    // Never retransmits.
    let deaf = broken(
        "transmit(c, c.flight == 0 ? FIN : DATA, c.next_out, c.flight);\n    emit timer_start(c.rtx, max(c.rto, c.wait));\n}\nvoid listen",
        "}\nvoid listen",
    );
    let message = failures(deaf, "delay = '1ms', loss = 0.1");
    assert!(message.contains("not done"), "{message}");
}

#[test]
fn unrunnable_scenarios_are_rejected_with_the_reason() {
    let flow = "flow = [{ from = 'a', to = 'b', bulk = { bytes = 1 } }]";
    let fails = |scenario: &Scenario| match run(scenario, &resolve, Options::default()) {
        Err(RunError::Program { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(!fails(&pair("examples/missing.mtp", "", flow)).is_empty());
    for (params, reported) in [
        ("NO_SUCH = 1", "unknown param `NO_SUCH`"),
        ("RTO = 5", "RTO takes a duration with its unit (200ms), not `5`"),
        (
            "RTO = true",
            "RTO takes a duration with its unit (200ms), not `true`",
        ),
        ("WINDOW = '5ms'", "WINDOW takes a number, not `5ms`"),
    ] {
        let message = fails(&pair(GO_BACK_N, "", &format!("params = {{ {params} }}\n{flow}")));
        assert!(message.contains(reported), "{params}: {message}");
    }
}

/// The end of the stream is reported before the data. A real client would close at that point, and lose the
/// data to come.
#[test]
fn an_end_of_stream_before_the_data_fails_at_once() {
    let early = broken(
        "rport: ev.rport};\n    emit new_tx_ordered_data(INF, c.self);\n    emit new_rx_ordered_data(INF, c.self, NONE, 65536);\n    emit notify(CONNECTED);",
        "rport: ev.rport};\n    emit new_tx_ordered_data(INF, c.self);\n    emit new_rx_ordered_data(INF, c.self, NONE, 65536);\n    emit notify(CONNECTED);  emit notify(EOF);",
    );
    let flow = "flow = [{ from = 'a', to = 'b', bulk = { bytes = 14000, back = 100000 } }]";
    let report = go(&pair(&early.to_string_lossy(), "delay = '5ms'", flow));
    assert!(!report.ok);
    let message = report.failures.join("\n");
    assert!(
        message.contains("the end of the stream was reported after 0 of 100000 bytes"),
        "{message}"
    );
}

#[test]
fn a_repeated_notice_is_a_failure() {
    let twice = broken(
        "emit timer_stop(c.rtx);",
        "emit timer_stop(c.rtx);  emit notify(CONNECTED);",
    );
    let flow = "flow = [{ from = 'a', to = 'b', bulk = { bytes = 14000 } }]";
    let report = go(&pair(&twice.to_string_lossy(), "delay = '5ms'", flow));
    let message = report.failures.join("\n");
    assert!(
        message.contains("client: the program reported CONNECTED twice"),
        "{message}"
    );
}

/// Two ends that acknowledge each other's acknowledgements move no byte, for as long as virtual time lasts.
#[test]
fn packets_that_go_round_end_a_run() {
    let round = broken(
        "    if (ev.kind == ACK) {\n",
        "    if (ev.kind == ACK) { transmit(c, ACK, ev.seq, 0);  return; }\n    if (ev.kind == ACK) {\n",
    );
    let flow = "duration = '1000s'\nidle_packets = 5000\nflow = [{ from = 'a', to = 'b', bulk = { bytes = 14000 } }]";
    let report = go(&pair(&round.to_string_lossy(), "delay = '1ms'", flow));
    assert_eq!(report.end, "no-progress");
    let sent: u64 = report.links.iter().map(|link| link.sent).sum();
    assert!(sent < 5200, "{sent} packets");
    let message = report.failures.join("\n");
    assert!(
        message.contains("5000 packets were sent and no byte was delivered"),
        "{message}"
    );
    assert!(
        message.contains("10.0.0.1 -> 10.0.0.2") && message.contains("10.0.0.2 -> 10.0.0.1"),
        "{message}"
    );
}

/// A caller that stops after each event sees the same run as one that does not.
#[test]
fn a_run_in_steps_is_the_same_run() {
    let mut scenario = example("stop-and-wait.toml");
    scenario.linger = "1s".parse().expect("a time span");
    let mut stepped = Run::begin(&scenario, &resolve, Options::default()).expect("it can be run");
    let mut steps = 1;
    while stepped.step() {
        steps += 1;
    }
    assert!(!stepped.step(), "it is over");
    let (report, whole) = (stepped.report(), go(&scenario));
    assert_eq!(report, whole);
    assert!(
        steps > whole.events / 2,
        "{steps} steps of {} entries",
        whole.events
    );
}
