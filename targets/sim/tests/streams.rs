//! Programs whose connections have streams within them.

#![allow(clippy::disallowed_methods)] // Tests read the repository; the crate itself does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_sim::{Options, Report, ResolveError, Scenario, run};

/// Streams on a path that loses nothing.
const STREAMS: &str = "stack/load/tests/two_stacks/streams.mtp";
/// Streams in QUIC's frames, on any path.
const QUIC: &str = "stack/load/tests/two_stacks/quic_lite.mtp";

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

/// A program of this repository with other words in some places.
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

/// [`STREAMS`], in which who closes a connection ends it.
const ENDS: (&str, &str) = (
    "void close_conn(close_request ev, conn c) { }",
    "void close_conn(close_request ev, conn c) { end_all(c, 0); }",
);

fn go_on(scenario: &Scenario, engine: Engine) -> Report {
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(engine), name, settings)?)
    };
    let options = Options {
        events_max: 3_000_000,
        ..Options::default()
    };
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
