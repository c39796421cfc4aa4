//! Records and the contexts that they name: all instructions with contexts of all kinds, on both engines.
//!
//! The expected values come from docs/language.md, section Instructions: the context that an instruction
//! names, or its default context.

#![allow(unreachable_pub)]

#[path = "../../engine/tests/common/cable.rs"]
#[allow(dead_code)]
mod cable;

use std::path::Path;
use std::sync::Arc;

use cable::{Cable, cable};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Stack, StackConfig, TapEvent};
use hawser_ir::abi::{ON_FRESH, ON_GLOBAL, ON_KEYED, ON_TARGET};
use hawser_ir::buf::event_header;
use hawser_load::{Engine, LoadedProgram};
use hawser_time::Instant;
use parking_lot::Mutex;

/// The contexts: CONN is kept for each connection, LISTENER is a SHARD one, ALL is GLOBAL.
const PROGRAM: &str = "
pkt_bp piece { uint16 port; uint8 what; data_t data; }
event packet : NET_EVENT { uint8 what; addr_t addr; uint32 len; }
event setup : NET_EVENT { uint8 what; }
event own : TIMER_EVENT { }
event general : TIMER_EVENT { }
event shared : TIMER_EVENT { }
event poke : EVENT { uint32 by; }
signal reached { uint32 by; }
context conn { timer_t beat -> own; uint32 fired, poked; id_t alias; }
context listener { timer_t beat -> general; uint32 fired, poked; id_t alias; }
context spare { uint8 unused; }
context all_t { timer_t slow -> shared; timer_t beat -> shared; uint32 fired, poked; id_t alias; }
sched nic = PRIO(8) { paced: RATE(PER_FLOW) };
void fired(own ev, conn c) { c.fired += 1; }
void fired_listener(general ev, listener l) { l.fired += 1; }
void fired_all(shared ev, all_t g) { g.fired += 1;  assert(!g.beat.armed); }
void poked(poke ev, conn c) { c.poked += ev.by; }
void poked_listener(poke ev, listener l) { l.poked += ev.by; }
void poked_all(poke ev, all_t g) { g.poked += ev.by; }
void open(setup ev, no_ctx none) { if (ev.what != 1) return;  conn c = new_ctx{}; }
void listen(setup ev, no_ctx none) { if (ev.what != 2) return;  listener l = new_ctx{}; }
list<event_t> parse(pkt_t p, IPheader i) {
    list<event_t> out;  piece h;  p.extract(h);
    packet e;  e.what = h.what;  e.addr = h.data.addr;  e.len = h.data.len;
    flow_id one(h.port, uint8(9)), two(h.port), alias(uint64(h.port), uint8(7));
    if (h.what < 3) {
        setup first;  first.what = h.what;  set_flow_id(first, two);  out.add(first);
        return out;
    }
    if (h.what == 4) set_flow_id(e, alias);
    else if (h.what == 3) set_flow_id(e, one, two);
    else set_flow_id(e, two);
    out.add(e);
    return out;
}
";

const DEPLOY: &str = "
deploy {
    register_ep_chains(d);  register_ctx_spec(listener, SHARD);  register_ctx_spec(all_t, GLOBAL);
    register_ev_parser(parse, ip(253));
}";

/// The instructions, where `X` stands for the named context. For each kind of chain in [`CHAINS`], a letter
/// gives the context that the record names. `k` is the keyed one, `f` the fresh one, `g` the GLOBAL one, and
/// `t` the one of an id. `-` means no record, and `!` means that the checker refuses the program.
const TABLE: [(&str, &str); 21] = [
    ("new_tx_ordered_data(INF, X.self)", "kffk!"),
    ("add_tx_data(ev.addr, ev.len, X.self)", "kffk!"),
    ("tx_flush_and_notify(X.self, 0)", "kffk!"),
    ("new_rx_ordered_data(INF, X.self, NONE, INF)", "kffk!"),
    ("add_rx_data_seg(ev.addr, ev.len, X.self, 0)", "kffk!"),
    ("rx_flush_and_notify(X.self, 0, NONE)", "kffk!"),
    ("del_tx_ordered_data(X.self)", "kffk!"),
    ("del_rx_ordered_data(X.self)", "kffk!"),
    ("pkt_gen(ip, h, queue nic.paced)", "kffkk"),
    ("timer_start(X.beat, 5ms)", "kffkg"),
    ("timer_restart(X.beat, 6ms)", "kffkg"),
    ("timer_stop(X.beat)", "kffkg"),
    ("add_id(alias)", "kffk!"),
    ("drop_id(alias)", "kffk!"),
    ("notify(CONNECTED)", "kfkk!"),
    ("notify(ACCEPTED, X.self)", "kfkk!"),
    ("raise(poke{by: 1})", "kfkkk"),
    ("raise(poke{by: 1}, X.self)", "ttttt"),
    ("set_queue_rate(nic.paced, 1_000_000)", "kffkk"),
    ("queue_reset(nic.paced)", "kffkk"),
    ("del_ctx()", "kfkk!"),
];

/// The kinds of chain: the start of the processor, up to its instructions, and the packets before its own.
const CHAINS: [(&str, &[u8], char); 5] = [
    ("packet ev, conn x) {", &[1], 'k'),
    (
        "packet ev, no_ctx none) { if (ev.what != 3) return;  conn x = new_ctx{};",
        &[],
        'f',
    ),
    ("packet ev, listener l) { conn x = new_ctx{};", &[2], 'n'),
    ("packet ev, listener x) {", &[2], 's'),
    ("packet ev, all_t x) {", &[], 'g'),
];

/// Returns a program with these instructions in a chain of this kind.
fn program(kind: usize, instructions: &[&str]) -> String {
    let (head, before, _) = CHAINS[kind];
    let mut body = format!("void run({head}\n IPheader ip; piece h; flow_id alias(uint64(7), uint8(7));\n");
    for instruction in instructions {
        let named = instruction.replace("X.", "x.");
        body += &format!(" emit {named};\n");
    }
    // In a chain on GLOBAL contexts alone, no processor may ask for other contexts.
    let makers = match before {
        [] => "open",
        [1] => "open",
        _ => "listen",
    };
    format!(
        "{PROGRAM}\n{body}}}\ndispatch d {{ setup -> {{{makers}}}; packet -> {{run}}; own -> {{fired}}; general -> {{fired_listener}}; \
         shared -> {{fired_all}}; poke -> {{poked, poked_listener, poked_all}}; }}\n{DEPLOY}"
    )
}

fn open(engine: Engine, name: &str, text: &str) -> Result<LoadedProgram, String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("records_{name}_{engine:?}.mtp"));
    std::fs::write(&path, text).expect("room");
    LoadedProgram::open(&path.display().to_string(), Some(engine)).map_err(|error| error.to_string())
}

/// The events seen: the number of each, and the contexts that its records name.
type Seen = Arc<Mutex<Vec<(u16, String)>>>;

struct Bench {
    stack: Stack,
    end: Cable,
    seen: Seen,
    loaded: LoadedProgram,
    globals: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Bench {
    fn new(engine: Engine, name: &str, text: &str) -> Bench {
        let loaded = open(engine, name, text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let [end, _] = cable(0, 1);
        let interface = InterfaceConfig {
            addresses: vec![("10.0.0.1".parse().expect("an address"), 24)],
            gateways: vec![],
            mtu: 1500,
        };
        let program = loaded.with(&[]).expect("it runs");
        let mut stack = Stack::new(program, StackConfig::new(interface, 1), end.caps()).expect("good");
        let (seen, globals) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
        let (log, last) = (seen.clone(), globals.clone());
        stack.set_event_tap(Some(Box::new(move |event: &TapEvent<'_>| {
            let of_record = |record: hawser_ir::buf::Record<'_>| match record.on {
                ON_KEYED => 'k',
                ON_FRESH => 'f',
                ON_GLOBAL if record.global().is_some_and(|global| global.0 == 3) => 'g',
                ON_TARGET => 't',
                _ => '?',
            };
            if !event.globals.is_empty() {
                *last.lock() = event.globals.to_vec();
            }
            let records = event.records.iter().map(of_record).collect();
            log.lock().push((event_header(event.event).event, records));
        })));
        Bench { stack, end, seen, loaded, globals }
    }

    fn packet(&mut self, now_ms: u64, port: u16, what: u8) {
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
        ip[2..4].copy_from_slice(&(27u16).to_be_bytes());
        let sum = hawser_testing::internet_checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum);
        ip.extend(port.to_be_bytes());
        ip.extend([what, 1, 2, 3, 4]);
        self.end.inbound.lock().push_back(ip);
        self.run(now_ms);
    }

    fn run(&mut self, now_ms: u64) {
        let now = Instant::from_nanos(now_ms * 1_000_000);
        while self
            .stack
            .poll(now, &mut self.end)
            .expect("a cable does not fail")
        {}
    }

    /// Returns the records of the last event of this name.
    fn of_last(&self, event: &str) -> Option<String> {
        let number = self.number(event);
        let seen = self.seen.lock();
        let mut found = seen
            .iter()
            .rev()
            .filter(|(number_seen, _)| *number_seen == number);
        found.next().map(|(_, records)| records.clone())
    }

    /// Counts the events of this name.
    fn count(&self, event: &str) -> usize {
        let number = self.number(event);
        self.seen
            .lock()
            .iter()
            .filter(|(seen, _)| *seen == number)
            .count()
    }

    fn number(&self, event: &str) -> u16 {
        let events = &self.loaded.module().events;
        events
            .iter()
            .position(|known| known.name == event)
            .expect("known") as u16
    }

    /// Returns a number of the GLOBAL context after the last chain.
    fn global(&self, field: &str) -> u32 {
        let module = self.loaded.module();
        let body = module.structure(module.contexts[3].body);
        let field = body
            .fields
            .iter()
            .find(|known| known.name == field)
            .expect("known");
        let at = field.offset as usize;
        let globals = self.globals.lock();
        u32::from_ne_bytes(globals[3][at..at + 4].try_into().expect("four"))
    }
}

#[test]
fn every_record_names_its_context_or_the_checker_refuses_it() {
    for (kind, (_, before, column)) in CHAINS.iter().enumerate() {
        let expected = |row: &(&str, &str)| row.1.as_bytes()[kind] as char;
        let (refused, issued): (Vec<_>, Vec<_>) = TABLE.iter().partition(|row| expected(row) == '!');
        for (instruction, _) in refused {
            let found = open(Engine::Interp, "refused", &program(kind, &[instruction]));
            let error = found
                .err()
                .unwrap_or_else(|| panic!("{instruction} passes in {column}"));
            assert!(error.contains("E0714"), "{instruction} in {column}: {error}");
        }
        let instructions: Vec<&str> = issued.iter().map(|row| row.0).collect();
        let names: String = issued.iter().map(expected).collect();
        // A context that the chain creates has its own record.
        let names = match column {
            'f' | 'n' => format!("f{names}"),
            _ => names,
        };
        for engine in [Engine::Interp, Engine::Native] {
            let mut bench = Bench::new(engine, &column.to_string(), &program(kind, &instructions));
            before.iter().for_each(|what| bench.packet(1, 7, *what));
            let what = if *column == 'k' || *column == 's' { 5 } else { 3 };
            bench.packet(2, 7, what);
            assert_eq!(
                bench.of_last("packet"),
                Some(names.clone()),
                "{column} {engine:?}\n{instructions:#?}"
            );
        }
    }
}

#[test]
fn a_global_timer_fires_once_in_a_chain_of_its_own() {
    for engine in [Engine::Interp, Engine::Native] {
        for (kind, before) in [(0, 1), (4, 0)] {
            let text = program(kind, &["timer_start(X.beat, 5ms)"]);
            // Both from the chain of a connection and from its own chain.
            let text = text.replace("conn x) {", "conn c, all_t x) {");
            let mut bench = Bench::new(engine, &format!("timer{kind}"), &text);
            if before > 0 {
                bench.packet(1, 7, before);
            }
            bench.packet(2, 7, if kind == 0 { 5 } else { 3 });
            bench.run(6);
            assert_eq!((bench.count("shared"), bench.count("own")), (0, 0), "{engine:?}");
            bench.run(8);
            assert_eq!((bench.count("shared"), bench.count("own")), (1, 0), "{engine:?}");
            bench.run(100);
            assert_eq!(bench.global("fired"), 1, "{engine:?}");
            assert_eq!(
                (bench.stack.counters().dangling, bench.stack.counters().asserts),
                (0, 0)
            );
        }
    }
}

#[test]
fn a_stopped_global_timer_does_not_fire() {
    for engine in [Engine::Interp, Engine::Native] {
        let text = program(
            4,
            &[
                "timer_start(X.beat, 5ms)",
                "timer_stop(X.beat)",
                "timer_start(X.slow, 9ms)",
            ],
        );
        let mut bench = Bench::new(engine, "stopped", &text);
        bench.packet(2, 7, 3);
        bench.run(10);
        assert_eq!(bench.count("shared"), 0, "{engine:?}");
        bench.run(11);
        assert_eq!(bench.count("shared"), 1, "{engine:?}");
    }
}

#[test]
fn a_further_id_leads_to_the_connection_that_the_chain_made() {
    for engine in [Engine::Interp, Engine::Native] {
        let text = program(2, &["add_id(alias)"])
            .replace("run}", "run, found}")
            .replace(
                "void run(",
                "void found(packet ev, conn c) { if (ev.what == 4) emit notify(CLOSED); }\nvoid run(",
            );
        let mut bench = Bench::new(engine, "alias", &text);
        bench.packet(1, 7, 2);
        bench.packet(2, 7, 3);
        assert_eq!(bench.of_last("packet"), Some("ff".to_owned()), "{engine:?}");
        bench.packet(3, 7, 4);
        assert_eq!(
            bench.of_last("packet"),
            Some("k".to_owned()),
            "the connection's processor ran: {engine:?}"
        );
    }
}

#[test]
fn an_event_for_a_global_context_reaches_no_other_context() {
    for engine in [Engine::Interp, Engine::Native] {
        let text = program(0, &["raise(poke{by: 3}, X.self)"]).replace("conn x) {", "conn c, all_t x) {");
        let mut bench = Bench::new(engine, "poke", &text);
        bench.packet(1, 7, 1);
        bench.packet(2, 7, 5);
        assert_eq!((bench.count("poke"), bench.global("poked")), (1, 3), "{engine:?}");
        let text = text.replace("{poked, poked_listener, poked_all}", "{poked}");
        let mut bench = Bench::new(engine, "poke_keyed", &text);
        bench.packet(1, 7, 1);
        bench.packet(2, 7, 5);
        assert_eq!(
            bench.stack.counters().no_context,
            1,
            "the connection's processor did not run: {engine:?}"
        );
    }
}
