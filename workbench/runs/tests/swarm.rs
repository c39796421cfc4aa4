//! Swarms of programs: each drawn scenario passes, alike on both engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_load::programs::resolve_with_on;
use hawser_load::{Engine, LoadedProgram};
use hawser_runs::swarm::{self, Abilities, Ability, SwarmProgram, TrafficKind, TrafficModel};
use hawser_sim::scenario::units::ParamValue;
use hawser_sim::{Options, Report, ResolveError, Scenario, run};

const STOP_AND_WAIT: &str = "examples/stop-and-wait.mtp";
const GO_BACK_N: &str = "examples/go-back-n.mtp";
const SELECTIVE_REPEAT: &str = "transports/selective-repeat/selective-repeat.mtp";
/// A program of streams in QUIC's frames, for any path.
const QUIC: &str = "transports/quic-lite/quic-lite.mtp";

/// Seeds of streams that draw resets, cuts and translators.
const STREAM_SEEDS: &[u64] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 18, 19, 20, 22, 23, 24, 26, 27, 28, 29, 33, 34,
];

/// The seeds of the swarm that both engines run here; `scripts/phases swarm` runs a hundred.
const WORK_SEEDS: std::ops::Range<u64> = 1..5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn go(engine: Engine, scenario: &Scenario) -> Report {
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        Ok(resolve_with_on(Some(engine), name, settings)?)
    };
    run(scenario, &resolve, Options::default()).unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

/// Readers copy the example, so it has to be correct by itself: `hawser sim swarm examples/stop-and-wait.mtp
/// --plain`.
#[test]
fn stop_and_wait_passes_the_plain_swarm() {
    swarm_of(STOP_AND_WAIT, Abilities::MINIMAL, &[]);
}

#[test]
fn go_back_n_passes_the_plain_swarm() {
    swarm_of(GO_BACK_N, Abilities::MINIMAL, &[]);
}

#[test]
fn go_back_n_passes_its_swarm() {
    let abilities = [
        Ability::FlowControl,
        Ability::Reuse,
        Ability::Restart,
        Ability::Refusals,
        Ability::Aborts,
        Ability::Resets,
        Ability::Congestion,
    ]
    .into_iter()
    .fold(Abilities::ALL, Abilities::without);
    swarm_of(GO_BACK_N, abilities, &[("RTO", "3s"), ("LINGER", "1min")]);
}

#[test]
fn selective_repeat_passes_its_swarm() {
    swarm_of(SELECTIVE_REPEAT, Abilities::ALL, &[]);
}

fn swarm_of(program: &str, abilities: Abilities, params: &[(&str, &str)]) {
    let program = root().join(program).to_string_lossy().into_owned();
    let loaded = LoadedProgram::open(&program, Some(Engine::Interp)).expect("a good program");
    let subject = SwarmProgram::new(&program, abilities).known(loaded.module());
    for seed in 1..=100 {
        let mut scenario = swarm::scenario(seed, &subject);
        for (name, span) in params {
            let span = span.parse().expect("a time span");
            scenario.params.insert((*name).to_owned(), ParamValue::Span(span));
        }
        let report = go(Engine::Interp, &scenario);
        assert!(report.ok, "{}", swarm::explain(&scenario, &report));
    }
}

/// The swarm draws calls for the programs that carry them, over a link or a fabric, and all of them end.
/// These are the first seeds; the phase `swarm` of scripts/phases runs a hundred.
#[test]
fn a_swarm_of_calls_passes_alike_on_both_engines() {
    let carried = TrafficModel { longest: 4000, ..TrafficModel::new(TrafficKind::Calls) };
    let abilities = Abilities::MINIMAL
        .with(Ability::AnyMtu)
        .with(Ability::Ends)
        .with(Ability::Restart);
    for program in ["homa", "ndp"] {
        let loaded = resolve_with_on(Some(Engine::Native), program, &[]).expect("it is built in");
        let subject = SwarmProgram::new(program, abilities)
            .carrying(carried)
            .known(loaded.module());
        let params = params(program);
        let mut fabrics = 0;
        for seed in 1..=12 {
            let mut scenario = swarm::scenario(seed, &subject);
            scenario.params.extend(params.clone());
            fabrics += usize::from(!scenario.switch.is_empty());
            let reports = [Engine::Interp, Engine::Native].map(|engine| go(engine, &scenario));
            assert!(reports[0].ok, "{}", swarm::explain(&scenario, &reports[0]));
            assert_eq!(reports[0].trace_hash, reports[1].trace_hash, "seed {seed}");
        }
        assert!((1..12).contains(&fabrics), "{fabrics} of 12");
    }
}

/// The params of a program for the swarm, whose round trips are a thousand times those for which its defaults
/// are meant. They are taken from the program's file of arguments for `hawser sim swarm`.
fn params(program: &str) -> Vec<(String, ParamValue)> {
    let file = format!(
        "{}/../../transports/{program}/swarm.args",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&file).expect("the file");
    let words: Vec<&str> = text.split_whitespace().collect();
    let params = words.windows(2).filter(|words| words[0] == "--param");
    let param = |words: &[&str]| {
        let (name, value) = words[1].split_once('=').expect("NAME=VALUE");
        let value = toml::Value::String(value.to_owned()).try_into();
        (name.to_owned(), value.expect("a span of time"))
    };
    params.map(param).collect()
}

#[test]
fn random_networks_with_pauses_pass_on_both_engines() {
    for program in ["roce", "roce-irn"] {
        random_networks(program);
    }
}

fn random_networks(name: &str) {
    let loaded = LoadedProgram::open(name, Some(Engine::Interp)).unwrap_or_else(|error| panic!("{error}"));
    let subject = SwarmProgram::new(name, Abilities::ALL)
        .carrying(TrafficModel::new(TrafficKind::Works))
        .known(loaded.module());
    for seed in WORK_SEEDS {
        let scenario = swarm::scenario(seed, &subject);
        let [first, second] = [Engine::Interp, Engine::Native].map(|engine| go(engine, &scenario));
        assert!(first.ok, "{}", swarm::explain(&scenario, &first));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
    let drawn = (0..40).map(|seed| swarm::scenario(seed, &subject));
    let (storms, pauses) = drawn.fold((0, 0), |(storms, pauses), scenario| {
        let is_storm = scenario
            .flow
            .iter()
            .flat_map(|flow| &flow.works)
            .any(|works| works.refill.0 > 0);
        (storms + u64::from(is_storm), pauses + scenario.switch.len())
    });
    assert!(storms > 0 && pauses > 0, "{storms} storms, {pauses} pauses");
}

/// Seeds of a swarm in which streams are whole, reset and stopped, of one direction and of both, through
/// losses, cuts and translators. Both engines give the same result.
#[test]
fn a_swarm_of_streams_is_safe_and_live_on_both_engines() {
    let name = root().join(QUIC).to_string_lossy().into_owned();
    let engines = [Engine::Interp, Engine::Native].map(|engine| {
        let loaded = LoadedProgram::open(&name, Some(engine));
        loaded.unwrap_or_else(|error| panic!("{error}"))
    });
    let less = [Ability::OpenBoth, Ability::Refusals, Ability::Resets];
    let abilities = less.into_iter().fold(Abilities::ALL, Abilities::without);
    let subject = SwarmProgram::new(&name, abilities)
        .carrying(TrafficModel::new(TrafficKind::Streams))
        .known(engines[0].module());
    let (mut streams, mut translated) = (0, 0);
    for seed in STREAM_SEEDS {
        let scenario = swarm::scenario(*seed, &subject);
        let reports = engines.each_ref().map(|loaded| {
            let resolve = |_: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
                Ok(hawser_load::programs::set(loaded, settings)?)
            };
            let report = run(&scenario, &resolve, Options::default());
            let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(report.ok, "seed {seed}: {report}");
            report
        });
        assert_eq!(reports[0].trace_hash, reports[1].trace_hash, "seed {seed}");
        let directions = reports[0]
            .flows
            .iter()
            .flat_map(|flow| [&flow.forward, &flow.backward]);
        let counts = directions.filter_map(|direction| direction.streams);
        streams += counts.map(|counts| counts.received).sum::<u64>();
        translated += u64::from(scenario.link[0].nat.is_some());
    }
    assert!(
        streams > 200 && translated > 3,
        "{streams} streams, {translated} translators"
    );
}
