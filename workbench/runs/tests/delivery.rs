//! Flows other than streams in both directions: messages, datagrams, and data in only one direction.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::programs::resolve_with_on;
use hawser_load::{Engine, LoadedProgram};
use hawser_runs::swarm::{self, Abilities, Delivery, SwarmProgram, TrafficModel};
use hawser_sim::{Options, Report, ResolveError, Scenario, run};

const DATAGRAMS: &str = "examples/datagrams.mtp";
const STOP_AND_WAIT: &str = "examples/stop-and-wait.mtp";
/// Changes that make stop-and-wait a program of one direction: a server that closes sends no FIN, and
/// continues to acknowledge.
const ONE_WAY: [[&str; 2]; 3] = [
    [
        "    uint32 next_out, next_in;",
        "    bool serves;  uint32 next_out, next_in;",
    ],
    [
        "    emit notify(ACCEPTED, c.self);",
        "    c.serves = true;  emit notify(ACCEPTED, c.self);",
    ],
    [
        "void close(sw_close ev, sw_conn c) { c.closing = true; }",
        "void close(sw_close ev, sw_conn c) { if (c.serves) emit notify(CLOSED); else c.closing = true; }",
    ],
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes a copy of a program with some texts replaced.
fn altered(program: &str, name: &str, changes: &[[&str; 2]]) -> PathBuf {
    let mut text = fs::read_to_string(root().join(program)).expect("the program");
    for [from, to] in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("a file");
    path
}

fn resolve(name: &str, settings: &[String]) -> Result<Arc<dyn Program>, ResolveError> {
    Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
}

/// Runs two hosts, a link with these rules, and one flow with these keys.
fn go(program: &Path, rules: &str, flow: &str) -> Report {
    let text = format!(
        "program = '{}'\nduration = '2min'\nlinger = '30s'\nhost = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ delay = '1ms' }}, forward = {{ {rules} }} }}]\n\
         flow = [{{ from = 'a', to = 'b', {flow} }}]",
        program.display()
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let report = run(&scenario, &resolve, Options::default());
    report.unwrap_or_else(|error| panic!("{error}"))
}

fn messages(delivery: &str) -> String {
    format!("messages = {{ count = 10, size = [1, 1200], interval = '1ms', delivery = '{delivery}' }}")
}

fn is_blamed(report: &Report, reason: &str) {
    let failures = report.failures.join("\n");
    assert!(failures.contains(reason), "{reason:?} is not in:\n{failures}");
}

#[test]
fn datagrams_may_be_lost_up_to_their_share() {
    let program = root().join(DATAGRAMS);
    // The third and the seventh packet from a to b are the third and the seventh datagram.
    let lost = |may_lose| {
        let flow = messages("datagrams").replace(" }", &format!(", may_lose = '{may_lose}' }}"));
        go(&program, "drop = [3, 7]", &flow)
    };
    let report = lost("20%");
    assert_eq!(report.failures, Vec::<String>::new());
    let messages = report.flows[0].forward.messages.expect("they are messages");
    assert_eq!((messages.sent, messages.received), (10, 8));
    assert!(report.to_string().contains("8 of 10 messages"), "{report}");
    is_blamed(&lost("19%"), "2 datagrams did not arrive; at most 1 may be lost");
    // The receiver waits for missing datagrams until five seconds after the last one was due, 9 ms after the
    // start.
    assert!((report.seconds - 5.009).abs() < 0.01, "{} s", report.seconds);
}

#[test]
fn a_datagram_that_comes_twice_or_altered_fails() {
    let twice = [
        ["if (c.seen.is_set(n)) {", "if (false) {"],
        [
            "if (!c.seen.set(n, n + 1)) return;",
            "bool _ = c.seen.set(n, n + 1);",
        ],
    ];
    let report = go(
        &altered(DATAGRAMS, "twice.mtp", &twice),
        "duplicate = 1.0",
        &messages("datagrams"),
    );
    is_blamed(&report, "bytes was delivered twice");
    let blind = [["checksum16_t sum over (pseudo, this);", "uint16 sum;"]];
    let report = go(
        &altered(DATAGRAMS, "blind.mtp", &blind),
        "corrupt = 1.0",
        &messages("datagrams").replace("count = 10", "count = 200"),
    );
    is_blamed(&report, "bytes was never sent");
    let program = root().join(DATAGRAMS);
    for rules in ["duplicate = 1.0", "corrupt = 0.5, duplicate = 0.5, reorder = 0.5"] {
        assert_eq!(
            go(&program, rules, &messages("datagrams")).failures,
            Vec::<String>::new()
        );
    }
}

#[test]
fn messages_that_are_lost_or_repeated_fail() {
    let program = root().join(DATAGRAMS);
    let report = go(&program, "drop = [3]", &messages("messages"));
    is_blamed(
        &report,
        "server: not done: 9 of 10 messages received, 0 of 0 handed over",
    );
    // One datagram holds two messages, so it equals neither.
    let joined = [[
        "emit new_rx_ordered_data(ev.len, uid, NONE, ev.len);",
        "emit new_rx_ordered_data(ev.len - 1, uid, NONE, ev.len);",
    ]];
    let report = go(
        &altered(DATAGRAMS, "cut.mtp", &joined),
        "",
        &messages("messages").replace("size = [1, 1200]", "size = 1000"),
    );
    is_blamed(&report, "a message of 999 bytes was never sent");
    // The program carries streams, not messages.
    let report = go(&root().join(STOP_AND_WAIT), "", &messages("messages"));
    is_blamed(
        &report,
        "0 of 10 messages received, 0 of 0 handed over; bytes wait that are no whole message",
    );
}

#[test]
fn a_message_that_is_too_long_is_refused_with_its_errno() {
    let flow = messages("datagrams").replace("size = [1, 1200]", "size = 1201");
    let report = go(&root().join(DATAGRAMS), "", &flow);
    is_blamed(&report, "client: Message too long (os error 90)");
}

#[test]
fn a_one_way_program_needs_no_end_of_the_other_direction() {
    let program = altered(STOP_AND_WAIT, "one-way.mtp", &ONE_WAY);
    let report = go(
        &program,
        "loss = 0.1",
        "bulk = { bytes = 100000 }, one_way = true",
    );
    assert_eq!(report.failures, Vec::<String>::new());
    assert_eq!(report.flows[0].forward.bytes, 100_000);
    let report = go(&program, "loss = 0.1", "bulk = { bytes = 100000 }");
    is_blamed(&report, "client: the program reported CLOSED before EOF");
    swarm_of(
        &program,
        TrafficModel { one_way: true, ..TrafficModel::default() },
    );
}

#[test]
fn datagrams_pass_their_swarm() {
    for one_way in [false, true] {
        let carried = TrafficModel { delivery: Delivery::Datagrams, one_way, ..TrafficModel::default() };
        swarm_of(&root().join(DATAGRAMS), carried);
    }
}

/// A program that delivers no data in a network without faults has no excuse.
#[test]
fn a_swarm_detects_missing_datagrams() {
    let mute = [["emit rx_flush_and_notify(uid, ev.len, NONE);", ""]];
    let program = altered(DATAGRAMS, "mute.mtp", &mute);
    let subject = subject(
        &program,
        TrafficModel { delivery: Delivery::Datagrams, ..TrafficModel::default() },
    );
    let report = |seed| {
        let scenario = swarm::scenario(seed, &subject);
        run(&scenario, &resolve, Options::default()).expect("it can be run")
    };
    assert!((1..=40).any(|seed| !report(seed).ok));
}

fn subject(program: &Path, carried: TrafficModel) -> SwarmProgram<'_> {
    let name = program.to_str().expect("a name in UTF-8");
    let loaded = LoadedProgram::open(name, Some(Engine::Interp)).expect("a good program");
    SwarmProgram::new(name, Abilities::MINIMAL)
        .carrying(carried)
        .known(loaded.module())
}

fn swarm_of(program: &Path, carried: TrafficModel) {
    let subject = subject(program, carried);
    for seed in 1..=100 {
        let scenario = swarm::scenario(seed, &subject);
        let report = run(&scenario, &resolve, Options::default()).expect("it can be run");
        assert!(report.ok, "{}", swarm::explain(&scenario, &report));
    }
}
