//! Scenarios in the simulator, run with their programs.
//!
//! * [`load`]: loads a scenario from a file; [`run`] and its variants: plain, watched, steered, traced
//! * [`run_pictured`]: a run, and the data for drawing it
//! * [`why`]: the reasons for a failed run; [`shrink()`]: the smallest scenario that still fails
//! * [`swarm`]: scenarios drawn from a seed
//! * [`mod@debug`]: a run forwards and backwards; [`mutants`]: changes that checks of a program should detect
//! * [`sweep`]: a scenario with values that vary, and seeds, as tasks
//! * [`files`]: files that users and scenarios name, read within limits
//!
//! The simulator finds programs by a function from their names; here that function is [`Programs`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod debug;
pub mod drawing;
mod explanation;
pub mod mutants;
pub mod mutations;
mod picture;
mod shrink;
pub mod swarm;
pub mod sweep;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use crate::drawing::{DrawingLimits, DrawnQueue, Picture, Series, SignalField, Window, slowdown_table};
pub use explanation::{EndStory, ExplainedEvent, Explanation, LinkStory, LostPacket, PacketFate, Set, why};
use hawser_bus::Bus;
pub use hawser_documents::files;
use hawser_engine::Stack;
use hawser_engine::program::Program;
pub use hawser_inspect::trace::{
    Connection, EventCallback, Filter, Flows, OutputFormat, Packet, Print, Printed, Recorder, TracedEvent,
};
pub use hawser_load::ParamError;
pub use hawser_sim::app::{FlowSide, Script};
pub use hawser_sim::map::{MapLink, MapNode, NetworkMap};
pub use hawser_sim::pcapng;
use hawser_sim::scenario::FlowHosts;
use hawser_sim::scenario::units::{ParamValue, TimeSpan};
use hawser_sim::segment;
pub use hawser_sim::watch::{FlowMoment, LinkMoment, RunSample, SampleRequest};
use hawser_sim::world::{FrameFate, FrameSighting};
pub use hawser_sim::{OwnScript, Report, RunError, Scenario, ScenarioError};
pub use picture::{Shows, run_pictured};
pub use shrink::Shrunk;
use shrink::{FailureSignature, Tried};

use hawser_load::Engine;
use hawser_load::programs::{self, Programs};

/// A scenario could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The path of the scenario.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file's text is wrong.
    #[error("{}: {error}", path.display())]
    Scenario {
        /// The path of the scenario.
        path: PathBuf,
        /// The key, and the expected value.
        error: ScenarioError,
    },
}

/// Returns the meaning of a stack's counter, by its name in a report or a trace.
#[must_use]
pub fn counter_meaning(counter: &str) -> Option<&'static str> {
    hawser_engine::StackCounters::meaning(counter)
}

/// Loads a scenario. Its programs are files relative to it.
///
/// # Errors
/// The file, the key, and the expected value.
pub fn load(path: &Path) -> Result<Scenario, LoadError> {
    let text = files::given(path, files::DOCUMENT_MAX)
        .map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
    let mut scenario =
        Scenario::parse(&text).map_err(|error| LoadError::Scenario { path: path.to_owned(), error })?;
    scenario.keep_text(&text);
    read_beside(&mut scenario, path)
        .map_err(|error| LoadError::Scenario { path: path.to_owned(), error: error.located(&text) })?;
    Ok(scenario)
}

/// Resolves a scenario's files relative to its own, and reads those that it needs.
fn read_beside(scenario: &mut Scenario, path: &Path) -> Result<(), ScenarioError> {
    if let Some(directory) = path.parent() {
        scenario.relative_to(directory);
    }
    scenario.read_files(&mut |file| {
        files::named(Path::new(file), files::DATA_MAX).map_err(|error| error.to_string())
    })
}

/// Sets a param of a scenario's program, like its `params`: `RTO=3s`, `WINDOW=32`.
///
/// # Errors
/// The fault in the text.
pub fn set_param(scenario: &mut Scenario, text: &str) -> Result<(), ParamError> {
    let (name, value) = param(text)?;
    scenario.params.insert(name, value);
    Ok(())
}

/// Parses a param and its value from `RTO=3s`.
///
/// # Errors
/// The fault in the text.
pub fn param(text: &str) -> Result<(String, ParamValue), ParamError> {
    let (name, raw) = hawser_load::parse_param(text)?;
    let written = text.split_once('=').map_or("", |(_, value)| value.trim());
    let value = match written {
        "true" | "false" => ParamValue::Flag(raw == 1),
        _ if written.ends_with('s') || written.ends_with("min") => ParamValue::Span(TimeSpan(raw)),
        _ => ParamValue::Number(raw),
    };
    Ok((name, value))
}

/// Sets the engine for a scenario's programs, like its `engine`.
pub fn set_engine(scenario: &mut Scenario, engine: Engine) {
    scenario.engine = Some(match engine {
        Engine::Interp => hawser_sim::scenario::Engine::Interp,
        Engine::Native => hawser_sim::scenario::Engine::Native,
    });
}

/// Returns the engine that a scenario chooses for its programs.
#[must_use]
pub fn engine(scenario: &Scenario) -> Option<Engine> {
    scenario.engine.map(engine_of)
}

fn engine_of(engine: hawser_sim::scenario::Engine) -> Engine {
    match engine {
        hawser_sim::scenario::Engine::Interp => Engine::Interp,
        hawser_sim::scenario::Engine::Native => Engine::Native,
    }
}

/// Runs a scenario. `seed` replaces the scenario's own, `capture` receives every packet as pcap, and
/// `progress` receives the completed part, from 0 to 1.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run(
    scenario: &Scenario,
    seed: Option<u64>,
    capture: Option<File>,
    progress: Option<&mut dyn FnMut(f64)>,
) -> Result<Report, RunError> {
    run_with(&Programs::default(), scenario, seed, capture, progress)
}

/// Returns whether a run has at least this many events, as [`Report::events`] counts them.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn is_longer(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    events: u64,
) -> Result<bool, RunError> {
    let options = hawser_sim::Options { seed, events_max: events, ..Default::default() };
    let resolve = resolver(programs, engine(scenario));
    Ok(hawser_sim::run(scenario, &resolve, options)?.events >= events)
}

/// Runs a scenario with built-in programs, and a callback for intermediate states.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run_watched(
    scenario: &Scenario,
    seed: Option<u64>,
    watch: SampleRequest<'_>,
) -> Result<Report, RunError> {
    let programs = Programs::default();
    let engine = engine(scenario);
    let resolve = resolver(&programs, engine);
    hawser_sim::run(
        scenario,
        &resolve,
        hawser_sim::Options { seed, watch: Some(watch), ..Default::default() },
    )
}

/// Like `run_watched`, with the programs of some hosts on a bus. T-wares in the loop steer them in virtual
/// time. Other parties cannot send them requests in between.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run_steered(
    scenario: &Scenario,
    seed: Option<u64>,
    watch: SampleRequest<'_>,
    bus: &Bus,
    hosts: &[&str],
) -> Result<Report, RunError> {
    run_live(scenario, seed, watch, bus, hosts, &mut |_, _, _| None)
}

/// Like `run_steered`, with the caller's applications instead of some of the scenario's. The data that they
/// send may depend on what T-wares have received so far.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run_live(
    scenario: &Scenario,
    seed: Option<u64>,
    watch: SampleRequest<'_>,
    bus: &Bus,
    hosts: &[&str],
    scripts: &mut OwnScript<'_>,
) -> Result<Report, RunError> {
    let programs = Programs::default();
    let engine = engine(scenario);
    let resolve = resolver(&programs, engine);
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let bus = bus.clone();
    let join = move |host: &str, stack: &mut Stack| {
        if hosts.iter().any(|joins| joins == host)
            && let Ok(schema) = hawser_engine::schema(stack.module())
        {
            stack.interact(bus.source(Arc::new(schema), None));
        }
    };
    let SampleRequest { every, fields, reported } = watch;
    let watch = SampleRequest { every, fields, reported: &mut |moment| reported(moment) };
    let mut scripts = |flow, side, start| scripts(flow, side, start);
    let options = hawser_sim::Options {
        seed,
        watch: Some(watch),
        stacks: Some(Box::new(join)),
        scripts: Some(&mut scripts),
        ..Default::default()
    };
    hawser_sim::run(scenario, &resolve, options)
}

/// Runs a scenario, and prints the effects of each event that the filter accepts, in order. It uses all
/// processors of the machine, because printing takes longer than the run. It calls `print` on this thread.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run_printed(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    filter: Filter,
    form: OutputFormat,
    print: Print,
) -> Result<Report, RunError> {
    let recorder = Recorder::printing(hawser_sim::START, filter, form, print).with_flows(flows(scenario));
    let options = hawser_sim::Options { seed, ..Default::default() };
    let report = observed(programs, scenario, recorder.clone(), options);
    recorder.finish();
    report
}

/// A callback that receives each packet of a run: its time of sending, its bytes, and the event that sent it,
/// if that was wanted.
pub type ShowPacket = Box<dyn FnMut(Duration, &[u8], Option<&hawser_inspect::trace::SentPacket>)>;

/// Runs a scenario, and shows the effects of each event that the filter accepts, in order. Events describe the
/// packets from which they come, and `packet` receives the sent ones.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run_traced_packets(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    filter: Filter,
    show: EventCallback,
    mut packet: ShowPacket,
) -> Result<Report, RunError> {
    let recorder = Recorder::new(hawser_sim::START, filter, show)
        .with_flows(flows(scenario))
        .with_packets();
    let names: Vec<String> = scenario.host.iter().map(|host| host.name.clone()).collect();
    let of = recorder.clone();
    let watch = move |sight: &FrameSighting<'_>| {
        if sight.fate != FrameFate::Sent {
            return;
        }
        let (at, frame) = (sight.at - hawser_sim::START, sight.frame);
        for mut part in segment::cut(frame.clone()) {
            part.complete();
            part.flatten();
            let sent = of.sent(at, &names[sight.from], frame.number, frame.cause, &part.head);
            packet(at, &part.head, sent.as_ref());
        }
    };
    let options = hawser_sim::Options { seed, packets: Some(Box::new(watch)), ..Default::default() };
    observed(programs, scenario, recorder, options)
}

/// The port at which queue pairs see their peers, which is RoCEv2's.
const PAIRS: u16 = 4791;

/// Returns the flows of a scenario, as a trace distinguishes them.
pub(crate) fn flows(scenario: &Scenario) -> Flows {
    Flows::new(connections(scenario).map(|(flow, hosts, ends)| connection(scenario, flow, hosts, ends)))
}

/// Returns the connection of a flow between these two hosts. [`Flows::between`] defines the ports.
pub(crate) fn between(
    scenario: &Scenario,
    flow: usize,
    hosts: [&str; 2],
    ports: [u16; 2],
) -> Option<Connection> {
    let numbers = hosts.map(|name| scenario.host_number(name));
    let of_hosts = connections(scenario)
        .filter(|(of, ends, _)| *of == flow && ends.map(Some) == numbers)
        .map(|(flow, hosts, ends)| connection(scenario, flow, hosts, ends));
    Flows::new(of_hosts).between(flow, hosts, ports)
}

/// Returns the flows with a separate number for each pair of hosts, as a picture distinguishes them.
pub(crate) fn pairs(scenario: &Scenario) -> Flows {
    let numbers: BTreeMap<_, usize> = crate::drawing::pairs(scenario).zip(0..).collect();
    Flows::new(connections(scenario).map(|(flow, hosts, ends)| {
        let [from, to] = hosts.map(|host| &scenario.host[host].name);
        let number = numbers.get(&(flow, from, to)).copied().unwrap_or(numbers.len());
        Connection { flow: number, ..connection(scenario, flow, hosts, ends) }
    }))
}

fn connection(scenario: &Scenario, flow: usize, hosts: [usize; 2], ends: [SocketAddr; 2]) -> Connection {
    let [client, server] = ends.map(|mut end| {
        if scenario.flow[flow].works.is_some() {
            end.set_port(PAIRS);
        }
        end
    });
    Connection {
        flow,
        hosts: hosts.map(|host| scenario.host[host].name.clone()),
        client,
        server,
    }
}

/// Returns, for each connection and for each pair of hosts that call, the flow, the two hosts and their
/// addresses.
fn connections(scenario: &Scenario) -> impl Iterator<Item = (usize, [usize; 2], [SocketAddr; 2])> {
    let ends = scenario.ends().unwrap_or_default();
    let of_flow = |(flow, ends)| -> Box<dyn Iterator<Item = _>> {
        match ends {
            FlowHosts::Connections(connections) => {
                let of = move |of: hawser_sim::scenario::Connection| (flow, of.hosts, [of.client, of.server]);
                Box::new(connections.into_iter().map(of))
            }
            FlowHosts::Calls(calling) => {
                let pairs: Vec<_> = calling.pairs().collect();
                Box::new(pairs.into_iter().map(move |(caller, server)| {
                    let ends = [calling.callers[caller], calling.servers[server]];
                    (flow, ends.map(|(host, _)| host), ends.map(|(_, address)| address))
                }))
            }
        }
    };
    ends.into_iter().enumerate().flat_map(of_flow)
}

/// Finds the origin of a packet of a run, by its number in a capture of the run, from 1. Returns `None` if
/// fewer packets are sent.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn find_packet(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    number: u64,
) -> Result<Option<Packet>, RunError> {
    let found = Rc::new(RefCell::new(None));
    let into = Rc::clone(&found);
    let names: Vec<String> = scenario.host.iter().map(|host| host.name.clone()).collect();
    let watch = move |sight: &FrameSighting<'_>| {
        if sight.fate == FrameFate::Sent && sight.frame.number == number {
            *into.borrow_mut() =
                Some(Packet { number, host: names[sight.from].clone(), cause: sight.frame.cause });
        }
    };
    let none = Filter { to: Some(Duration::ZERO), ..Filter::default() };
    let recorder = Recorder::new(hawser_sim::START, none, Box::new(|_| ()));
    let options = hawser_sim::Options { seed, packets: Some(Box::new(watch)), ..Default::default() };
    observed(programs, scenario, recorder, options)?;
    Ok(found.take())
}

/// Returns the smallest scenario that fails in the same manner as this one. It calls `goes_on` before each
/// further run, with the number of runs so far.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn shrink(
    programs: &Programs,
    scenario: &Scenario,
    report: &Report,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Shrunk, RunError> {
    let engine = engine(scenario);
    let resolve = resolver(programs, engine);
    let manner = FailureSignature::from_report(report);
    let (mut runs, mut error) = (0, None);
    let mut fails = |candidate: &Scenario| {
        if runs > 0 && !goes_on(runs) {
            return Tried::Enough;
        }
        runs += 1;
        match shrink::try_out(candidate, &resolve, &manner) {
            Ok(Some(failing)) => Tried::Fails(failing),
            Ok(None) => Tried::Passes,
            Err(failed) => {
                error.get_or_insert(failed);
                Tried::Passes
            }
        }
    };
    let seeded = Scenario { seed: report.seed, ..scenario.clone() };
    let shrunk = shrink::shrink(&seeded, &mut fails);
    match (shrunk, error) {
        (Some(shrunk), _) => Ok(shrunk),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(Shrunk { scenario: seeded, runs: 1, is_minimal: false }),
    }
}

/// Runs a scenario with observed stacks.
fn observed(
    programs: &Programs,
    scenario: &Scenario,
    recorder: Recorder,
    options: hawser_sim::Options<'_>,
) -> Result<Report, RunError> {
    let engine = engine(scenario);
    let resolve = resolver(programs, engine);
    let unsupported = Rc::new(Cell::new(None));
    let first = Rc::clone(&unsupported);
    let observe = move |host: &str, stack: &mut Stack| {
        first.set(first.take().or(recorder.observe(host, stack).err()));
    };
    let mut receiver = options.progress;
    let mut progress = |done: f64| {
        if let Some(progress) = &mut receiver {
            progress(done);
        }
    };
    let options = hawser_sim::Options {
        seed: options.seed,
        pcap: options.pcap,
        progress: Some(&mut progress),
        packets: options.packets,
        stacks: Some(Box::new(observe)),
        ..Default::default()
    };
    let report = hawser_sim::run(scenario, &resolve, options);
    match unsupported.take() {
        None => report,
        Some(error) => Err(RunError::Program { name: scenario.program.clone(), error: error.into() }),
    }
}

/// Returns whether a context of a scenario's programs has a field of this name: `cc.cwnd`, or
/// `tcp_conn.cc.cwnd`.
///
/// # Errors
/// A program could not be loaded.
pub fn has_field(
    programs: &Programs,
    scenario: &Scenario,
    wanted: &str,
) -> Result<bool, hawser_load::LoadError> {
    let of_hosts = scenario.host.iter().filter_map(|host| host.program.as_ref());
    for name in of_hosts.chain([&scenario.program]) {
        let loaded = programs.open(engine(scenario), name)?;
        if hawser_inspect::trace::has_field(loaded.module(), wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns a function that finds programs by name and sets their params.
pub(crate) fn resolver(
    programs: &Programs,
    engine: Option<Engine>,
) -> impl Fn(&str, &[String]) -> Result<Arc<dyn Program>, hawser_sim::ResolveError> {
    move |name, settings| {
        let loaded = programs.open(engine, name)?;
        Ok(programs::set(&loaded, settings)?)
    }
}

/// Like [`run`], with programs that are kept from run to run.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run_with(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    capture: Option<File>,
    progress: Option<&mut dyn FnMut(f64)>,
) -> Result<Report, RunError> {
    run_shown(programs, scenario, seed, capture, progress, None)
}

/// Like `run_with`. If `show` is given, it receives the effects of each event.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn run_shown(
    programs: &Programs,
    scenario: &Scenario,
    seed: Option<u64>,
    capture: Option<File>,
    progress: Option<&mut dyn FnMut(f64)>,
    show: Option<EventCallback>,
) -> Result<Report, RunError> {
    let pcap = capture.map(|file| Box::new(BufWriter::new(file)) as Box<_>);
    let options = hawser_sim::Options { seed, pcap, progress, ..Default::default() };
    if let Some(show) = show {
        let recorder = Recorder::new(hawser_sim::START, Filter::default(), show);
        return observed(programs, scenario, recorder.with_flows(flows(scenario)), options);
    }
    hawser_sim::run(scenario, &resolver(programs, engine(scenario)), options)
}
