//! Programs whose connections have streams within them.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::scenario::NatSpec;
use hawser_sim::scenario::units::TimeSpan;
use hawser_sim::{Options, Report, ResolveError, Scenario, run};

/// A program of streams for a path without losses.
const STREAMS: &str = "engine/load/tests/two_stacks/streams.mtp";
/// A program of streams in QUIC's frames, for any path.
const QUIC: &str = "transports/quic-lite/quic-lite.mtp";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A flow of streams from `a` to `b` over a link with these rules.
fn pair(program: &Path, rules: &str, streams: &str, more: &str) -> Scenario {
    let text = format!(
        "program = '{}'\nduration = '10min'\nlinger = '5min'\nforget = '5min'\n\
         host = [{{ name = 'a' }}, {{ name = 'b' }}]\n\
         link = [{{ between = ['a', 'b'], both = {{ {rules} }} }}]\n\
         flow = [{{ from = 'a', to = 'b', port = 4433, client_port = 4433, {more} streams = {{ {streams} }} }}]\n",
        program.display()
    );
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"))
}

/// Writes a copy of a repository program with some texts replaced.
fn variant(program: &str, name: &str, changes: &[(&str, &str)]) -> PathBuf {
    let path = root().join(program);
    let mut text = fs::read_to_string(&path).expect("the program");
    for (was, now) in changes {
        assert_eq!(text.matches(was).count(), 1, "{name}: `{was}` stands there once");
        text = text.replacen(was, now, 1);
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.mtp"));
    fs::write(&path, text).expect("a file");
    path
}

/// A change of [`STREAMS`] by which the end that closes a connection ends it.
const ENDS: (&str, &str) = (
    "void close_conn(close_request ev, conn c) { }",
    "void close_conn(close_request ev, conn c) { end_all(c, 0); }",
);

fn go_on(scenario: &Scenario, engine: Engine) -> Report {
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(engine), name, settings)?)
    };
    let options = Options { events_max: 3_000_000, ..Options::default() };
    run(scenario, &resolve, options).unwrap_or_else(|error| panic!("{error}"))
}

fn go(scenario: &Scenario) -> Report {
    go_on(scenario, Engine::Interp)
}

fn good(report: Report) -> Report {
    assert!(report.ok, "{report}\n{:#?}", report.flows);
    report
}

#[test]
fn streams_of_both_ends_are_whole_on_a_clean_path() {
    let program = variant(STREAMS, "streams", &[ENDS]);
    for streams in [
        "size = 0",
        "size = [0, 20000], count = 20, concurrent = 2, one_way = '30%'",
        "size = [0, 20000], count = 20, concurrent = 2, one_way = '30%', opened_by = 'server'",
        "size = [0, 20000], count = 20, concurrent = 2, one_way = '30%', opened_by = 'both'",
    ] {
        let scenario = pair(&program, "delay = '2ms', rate = '10Mbit/s'", streams, "");
        let report = good(go(&scenario));
        let flow = &report.flows[0];
        let (forward, backward) = (flow.forward.streams, flow.backward.streams);
        println!("{forward:?} {backward:?}");
    }
}

#[test]
fn streams_of_both_ends_are_whole_through_losses() {
    for streams in [
        "size = 0",
        "size = [0, 100000], count = 20, one_way = '30%'",
        "size = [0, 100000], count = 20, one_way = '30%', opened_by = 'server'",
        "size = [0, 100000], count = 20, one_way = '30%', opened_by = 'both'",
    ] {
        let rules = "delay = '2ms', rate = '10Mbit/s', loss = '3%', duplicate = '2%', reorder = '2%'";
        let scenario = pair(&root().join(QUIC), rules, streams, "");
        let report = good(go(&scenario));
        let flow = &report.flows[0];
        let (forward, backward) = (flow.forward.streams, flow.backward.streams);
        println!("{forward:?} {backward:?}");
    }
}

/// Some streams are reset by their sender, and some are stopped by their reader, on a path without losses.
const GIVEN_UP: &str = "size = [0, 20000], count = 30, concurrent = 3, one_way = '30%', opened_by = 'both', \
                        reset = '20%', stop = '20%'";
const CLEAN: &str = "delay = '2ms', rate = '10Mbit/s'";

#[test]
fn reset_streams_end_at_both_ends_on_both_engines() {
    let program = variant(STREAMS, "given-up", &[ENDS]);
    for close in ["close = 'client',", "close = 'server',"] {
        let scenario = pair(&program, CLEAN, GIVEN_UP, close);
        let reports = [Engine::Interp, Engine::Native].map(|engine| good(go_on(&scenario, engine)));
        assert_eq!(reports[0].trace_hash, reports[1].trace_hash, "the same packets");
        let flow = &reports[0].flows[0];
        for direction in [&flow.forward, &flow.backward] {
            let streams = direction.streams.expect("it has streams");
            assert!(
                streams.reset > 4 && streams.stopped > 2 && streams.received > 20,
                "{streams:?}"
            );
        }
    }
}

/// Breaks each promise once; the report names it.
#[test]
fn a_program_that_breaks_a_promise_about_streams_is_found() {
    for (name, was, now, wanted) in [
        (
            "reset-reason",
            "put(s.ends, RESET, s.number, ev.reason, false)",
            "put(s.ends, RESET, s.number, ev.reason + 1, false)",
            "RESET was reported with reason",
        ),
        (
            "stop-reason",
            "put(s.ends, STOP, s.number, ev.reason, false)",
            "put(s.ends, STOP, s.number, ev.reason / 2, false)",
            "STOPPED was reported with reason",
        ),
        (
            "no-reset",
            "if (s.sends) {\n        s.sends = false;\n        put(s.ends, RESET, s.number, ev.reason, false);\n    }",
            "s.sends = false;",
            "did not come",
        ),
        (
            "reset-as-end",
            "s.reads = false;\n        emit notify(RESET, ev.value);",
            "s.reads = false;\n        emit notify(EOF);",
            "EOF was reported",
        ),
        (
            "end-as-reset",
            "emit notify(EOF);",
            "emit notify(RESET, 5);",
            "RESET was reported, but the stream was not reset",
        ),
        (
            "no-stopped",
            "emit notify(STOPPED, ev.value);",
            "",
            "CLOSED was reported, but this end still sends",
        ),
        (
            "early-end",
            "s.next += ev.len;",
            "s.next += ev.len;  emit notify(EOF);",
            "EOF was reported",
        ),
        (
            "gap",
            "if (ev.kind == BYTES && s.reads && ev.value == s.next) {",
            "if (ev.kind == BYTES && s.reads && ev.value != 3000) {",
            "is not what was sent there",
        ),
        (
            "one-way",
            "reads: true, sends: !ev.one_way}",
            "reads: true, sends: true}",
            "came as one that is not",
        ),
        (
            "end-and-reset",
            "emit notify(EOF);",
            "emit notify(EOF);  emit notify(RESET, 3);",
            "RESET was reported after EOF",
        ),
        (
            "leak",
            "    put(c.ends, LEAVE, 0, reason, false);\n    emit notify(CLOSED);\n    emit del_ctx();",
            "    put(c.ends, LEAVE, 0, reason, false);\n    emit notify(CLOSED);",
            "contexts of connections are left",
        ),
        (
            "no-closed",
            "    emit notify(CLOSED);\n    emit raise(ended",
            "    emit raise(ended",
            "CLOSED did not come",
        ),
    ] {
        let program = variant(STREAMS, name, &[ENDS, (was, now)]);
        let report = go(&pair(&program, CLEAN, GIVEN_UP, ""));
        assert!(
            report.failures.iter().any(|failure| failure.contains(wanted)),
            "{name}: {:#?}",
            report.failures
        );
    }
}

#[test]
fn a_program_without_streams_is_refused() {
    let scenario = pair(&root().join("examples/stop-and-wait.mtp"), CLEAN, "size = 1", "");
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(Engine::Interp), name, settings)?)
    };
    let error = run(&scenario, &resolve, Options::default()).expect_err("it has none");
    let error = error.to_string();
    assert!(
        error.contains("`flow[0].streams`") && error.contains("have no streams"),
        "{error}"
    );
}

/// A translator in front of the client gives it another port while streams are in progress.
#[test]
fn streams_go_on_through_a_translator_that_rebinds() {
    let streams = "size = [100, 100000], count = 20, opened_by = 'both'";
    for (family, moves, sides) in [
        (4, false, ["a", "b"]),
        (6, true, ["a", "b"]),
        (4, true, ["b", "a"]),
        (6, false, ["b", "a"]),
    ] {
        let mut scenario = pair(
            &root().join(QUIC),
            "delay = '10ms', rate = '2Mbit/s'",
            streams,
            "",
        );
        scenario.flow[0].family = Some(family);
        (scenario.flow[0].from, scenario.flow[0].to) = (sides[0].into(), sides[1].into());
        scenario.link[0].nat = Some(NatSpec {
            inside: sides[0].to_owned(),
            rebind: vec![TimeSpan(500_000_000), TimeSpan(3_000_000_000)],
            moves,
        });
        let report = good(go(&scenario));
        let dropped: u64 = report
            .links
            .iter()
            .filter_map(|link| link.dropped.get("nat"))
            .sum();
        assert!(
            dropped > 0 && report.seconds > 3.0,
            "packets to a former port: {dropped}"
        );
    }
}

/// Writes a copy of [`QUIC`] with one text replaced.
fn variant_of_quic(name: &str, file: &str, was: &str, now: &str) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for folder in ["quic-lite", "tcp"] {
        fs::create_dir_all(to.join(folder)).expect("a folder");
        for entry in fs::read_dir(root().join("transports").join(folder)).expect("the program") {
            let path = entry.expect("an entry").path();
            let file_name = path.file_name().expect("a name");
            if path.extension().is_none_or(|extension| extension != "mtp") {
                continue;
            }
            let mut text = fs::read_to_string(&path).expect("a text");
            if file_name == file {
                assert_eq!(text.matches(was).count(), 1, "{name}: `{was}` stands there once");
                text = text.replacen(was, now, 1);
            }
            fs::write(to.join(folder).join(file_name), text).expect("a file");
        }
    }
    to.join("quic-lite/quic-lite.mtp")
}

/// A program that keeps to its peer's first address does not survive a rebinding, and the swarm reports it.
#[test]
fn a_program_that_does_not_follow_its_peer_is_found() {
    let program = variant_of_quic(
        "does-not-follow",
        "quic-lite.mtp",
        "{follow, answer, pump}",
        "{answer, pump}",
    );
    let mut scenario = pair(
        &program,
        "delay = '10ms', rate = '2Mbit/s'",
        "size = 100000, count = 20",
        "",
    );
    good(go(&scenario));
    scenario.link[0].nat = Some(NatSpec::default());
    good(go(&scenario));
    scenario.link[0].nat = Some(NatSpec { rebind: vec![TimeSpan(500_000_000)], ..NatSpec::default() });
    let report = go(&scenario);
    let wanted = "Connection timed out";
    assert!(
        report.failures.iter().any(|failure| failure.contains(wanted)),
        "{report}"
    );
}
