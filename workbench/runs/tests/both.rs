//! Real transfers of the built-in TCP, with each call made on the interpreter and on generated C. After every
//! event both have the same contexts, scratchpad and records; for every packet both give the same events and
//! header.
//!
//! Random programs and events (`lang/equality`) cover the language; these transfers cover the states of real
//! connections. `hawser sim swarm --engine both` compares the packets that leave a host; this test also compares
//! the state within it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_engine::Stack;
use hawser_engine::program::Program;
use hawser_ir::Module;
use hawser_ir::abi::{Built, ChainOutcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header};
use hawser_load::Engine;
use hawser_load::programs::resolve_with_on;
use hawser_runs::swarm::{self, Abilities, SwarmProgram};
use hawser_sim::{Options, Scenario, run};

/// The numbers of compared calls.
#[derive(Default)]
struct Calls {
    react: AtomicU64,
    parse: AtomicU64,
    build: AtomicU64,
    coalesce: AtomicU64,
}

/// The interpreter, with generated C beside it on copies of all state.
struct Both {
    interpreter: Arc<dyn Program>,
    native: Arc<dyn Program>,
    calls: Arc<Calls>,
}

/// Copies of the regions on which a chain runs.
struct Copied {
    event: Vec<u8>,
    keyed: Option<Vec<u8>>,
    fresh: Option<Vec<u8>>,
    globals: Vec<Vec<u8>>,
    scratch: Vec<u8>,
}

impl Copied {
    fn new(event: &[u8], memory: &Regions<'_>) -> Copied {
        Copied {
            event: event.to_vec(),
            keyed: memory.keyed.as_ref().map(|(_, bytes)| bytes.to_vec()),
            fresh: memory.fresh.as_ref().map(|bytes| bytes.to_vec()),
            globals: memory.globals.to_vec(),
            scratch: memory.scratch.to_vec(),
        }
    }

    /// Returns each region with its name.
    fn regions(&self) -> Vec<(String, &[u8])> {
        let one = |name: &str, bytes: &Option<Vec<u8>>| bytes.as_ref().map(|_| name.to_owned());
        let mut all = vec![
            ("event".to_owned(), self.event.as_slice()),
            ("scratchpad".to_owned(), &self.scratch),
        ];
        all.extend(one("keyed context", &self.keyed).zip(self.keyed.as_deref()));
        all.extend(one("new context", &self.fresh).zip(self.fresh.as_deref()));
        all.extend(
            self.globals
                .iter()
                .enumerate()
                .map(|(i, bytes)| (format!("global {i}"), bytes.as_slice())),
        );
        all
    }
}

/// Panics if the two byte strings differ.
fn same(what: &str, interpreted: &[u8], native: &[u8]) {
    if interpreted != native {
        let at = interpreted.iter().zip(native).position(|(a, b)| a != b);
        panic!(
            "{what}: byte {at:?} of {} and {}: {interpreted:?} | {native:?}",
            interpreted.len(),
            native.len()
        );
    }
}

fn all_events(events: &EventBuf, from: usize) -> Vec<u8> {
    (from..events.len())
        .flat_map(|i| events.get(i).to_vec())
        .collect()
}

impl Program for Both {
    fn module(&self) -> &Module {
        self.interpreter.module()
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        self.calls.parse.fetch_add(1, Ordering::Relaxed);
        let mut beside = EventBuf::default();
        let native = self.native.parse(parser, input, &mut beside);
        let before = out.len();
        let result = self.interpreter.parse(parser, input, out);
        assert_eq!(result, native, "parser {parser}");
        same(
            &format!("parser {parser}"),
            &all_events(out, before),
            &all_events(&beside, 0),
        );
        result
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        self.calls.react.fetch_add(1, Ordering::Relaxed);
        let name = &self.module().events[usize::from(event_header(event).event)].name;
        let mut copied = Copied::new(event, memory);
        let mut beside = RecordBuf::default();
        beside.want(out.wanted());
        let native = {
            let mut regions = Regions {
                keyed: memory
                    .keyed
                    .as_ref()
                    .map(|(id, _)| *id)
                    .zip(copied.keyed.as_deref_mut()),
                fresh: copied.fresh.as_deref_mut(),
                globals: &mut copied.globals,
                scratch: &mut copied.scratch,
            };
            self.native.react(&mut copied.event, &mut regions, &mut beside)
        };
        let before = out.bytes().len();
        let outcome = self.interpreter.react(event, memory, out);
        assert_eq!(outcome, native, "{name}");
        same(
            &format!("{name}: records"),
            &out.bytes()[before..],
            beside.bytes(),
        );
        let left = Copied::new(event, memory);
        for ((what, interpreted), (_, native)) in left.regions().into_iter().zip(copied.regions()) {
            same(&format!("{name}: {what}"), interpreted, native);
        }
        outcome
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        self.calls.build.fetch_add(1, Ordering::Relaxed);
        let (mut image_beside, mut header_beside) = (image.to_vec(), header.to_vec());
        let native = self
            .native
            .build(packet, &mut image_beside, segment, &mut header_beside);
        let built = self.interpreter.build(packet, image, segment, header);
        assert_eq!(
            (built.len, built.csum),
            (native.len, native.csum),
            "segment {}",
            segment.index
        );
        same("header", &header[..built.len], &header_beside[..built.len]);
        same("image", image, &image_beside);
        built
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        self.calls.coalesce.fetch_add(1, Ordering::Relaxed);
        let replaces = self.interpreter.coalesce(blueprint, earlier, later);
        assert_eq!(replaces, self.native.coalesce(blueprint, earlier, later));
        replaces
    }
}

/// Runs a scenario of TCP; returns the numbers of calls that gave equal results.
fn compared(scenario: &Scenario) -> Arc<Calls> {
    let calls = Arc::new(Calls::default());
    let resolve = |name: &str, settings: &[String]| {
        let on = |engine| resolve_with_on(Some(engine), name, settings);
        Ok(Arc::new(Both {
            interpreter: on(Engine::Interp)?,
            native: on(Engine::Native)?,
            calls: calls.clone(),
        }) as Arc<dyn Program>)
    };
    // Signals are compared as well.
    let want_all = |_: &str, stack: &mut Stack| stack.want_signals(u64::MAX);
    let options = Options { stacks: Some(Box::new(want_all)), ..Options::default() };
    let report = run(scenario, &resolve, options);
    let report = report.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    assert!(report.ok, "{}", swarm::explain(scenario, &report));
    calls
}

#[test]
fn transfers_are_the_same_call_by_call() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    for name in [
        "tcp-clean.toml",
        "tcp-lossy.toml",
        "tcp-reordering.toml",
        "tcp-down-up.toml",
    ] {
        let text = fs::read_to_string(folder.join(name)).expect("the example");
        let calls = compared(&Scenario::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}")));
        let [react, parse, build, coalesce] =
            [&calls.react, &calls.parse, &calls.build, &calls.coalesce].map(|n| n.load(Ordering::Relaxed));
        println!("{name}: {react} chains, {parse} parsers, {build} headers, {coalesce} pairs of packets");
        assert!(
            react > 100 && parse > 100 && build > 100,
            "{name}: {react} {parse} {build}"
        );
    }
}

#[test]
fn random_networks_are_the_same_call_by_call() {
    for seed in 9000..9010 {
        compared(&swarm::scenario(seed, &SwarmProgram::new("tcp", Abilities::ALL)));
    }
}
