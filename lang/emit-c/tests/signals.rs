//! Signals without subscribers: no record, no other difference, and almost no cost.

use crate::common;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use common::World;
use hawser_driver::{MemoryLoader, compile_with};
use hawser_emit_c::{Marks, Options, emit};
use hawser_interp::Interpreter;
use hawser_ir::abi::{EventHeader, RecordKind, SignalRec};
use hawser_ir::buf::{RecordBuf, Regions};
use hawser_ir::{ContextId, EventId, Module};
use hawser_testing::{Need, has};

const HEAD: &str = "
event ask : APP_EVENT { uint64 n; }
context conn { uint64 a, b, c, d, e, f, g, h, n, calls; }
dispatch d { ask -> {act}; }
deploy { register_ep_chains(d); register_ctx_spec(conn, FLOW); }
";

fn module(text: &str) -> Module {
    let loader = MemoryLoader::new([("signals.mtp", format!("{HEAD}{text}"))]);
    let compilation = compile_with(&loader, Path::new("signals.mtp"));
    compilation
        .module
        .clone()
        .unwrap_or_else(|| panic!("{}", compilation.render(false)))
}

/// Returns an event with `n` = 3 and a context; all else is zero.
fn world(module: &Module) -> World {
    let mut event = vec![0; module.event_size(EventId(0)) / 8];
    event[size_of::<EventHeader>() / 8] = 3;
    let keyed = vec![0; module.context_size(ContextId(0)) / 8];
    World {
        event,
        keyed: Some((0, keyed)),
        fresh: None,
        globals: vec![Vec::new()],
        scratch: Vec::new(),
    }
}

/// Runs the chain on the interpreter and as C. Returns the issued signals and the context.
fn signalled(module: &Module, compiled: &common::Compiled, wanted: u64) -> (Vec<u32>, Vec<u64>) {
    let (mut left, mut right) = (world(module), world(module));
    let mut records = RecordBuf::default();
    records.want(wanted);
    let keyed = left
        .keyed
        .as_mut()
        .map(|(_, words)| (ContextId(0), bytemuck::cast_slice_mut(words)));
    let mut regions = Regions { keyed, fresh: None, globals: &mut [Vec::new()], scratch: &mut [] };
    let interpreter = Interpreter::new(module.clone().into(), Vec::new()).expect("it runs");
    let event = bytemuck::cast_slice_mut(&mut left.event);
    interpreter.react(event, &mut regions, &mut records);
    let room = module.chains[0].bounds.record_bytes as usize;
    let (_, bytes) = compiled.react_wanting(&[], &mut right, room, wanted);
    assert_eq!((&left, records.bytes()), (&right, &bytes[..]), "mask {wanted:#x}");
    let signals = records.iter().filter(|record| record.kind == RecordKind::Signal);
    let numbers = signals.map(|record| record.fixed::<SignalRec>().signal).collect();
    (numbers, left.keyed.expect("it is there").1)
}

/// Operands with effects are evaluated whether or not there is a subscriber. The same holds for an
/// instruction that is kept for later.
#[test]
fn a_signal_mask_has_no_other_effect() {
    let module = module(
        "signal plain { uint64 n; }
         signal costly { uint64 n; }
         uint64 count(conn c) { c.calls += 1; return c.calls; }
         void act(ask ev, conn c) {
             c.n += ev.n;
             emit signal(plain{n: c.n});
             emit signal(costly{n: count(c)});
             instr_t later = signal(plain{n: c.n + 1});
             emit later;
         }",
    );
    let compiled = common::compile(&module, "signals_mask", &["-O2"]);
    let cases: [(u64, &[u32]); 4] = [(0, &[]), (1, &[0, 0]), (2, &[1]), (3, &[0, 1, 0])];
    let (_, context) = signalled(&module, &compiled, 0);
    assert_eq!(&context[context.len() - 2..], [3, 1]);
    for (wanted, expected) in cases {
        assert_eq!(
            signalled(&module, &compiled, wanted),
            (expected.to_vec(), context.clone())
        );
    }
}

/// Signals 0 to 62 have a bit each; the others share the last bit.
#[test]
fn signals_beyond_the_mask_share_the_last_bit() {
    let (mut text, mut body) = (String::new(), String::new());
    for i in 0..70 {
        let _ = writeln!(text, "signal s{i} {{ uint64 n; }}");
        let _ = writeln!(body, "emit signal(s{i}{{n: ev.n}});");
    }
    let module = module(&format!("{text} void act(ask ev, conn c) {{ {body} c.n = 1; }}"));
    let compiled = common::compile(&module, "signals_many", &["-O2"]);
    for i in [0, 31, 32, 62] {
        assert_eq!(signalled(&module, &compiled, 1 << i).0, [i]);
    }
    assert_eq!(
        signalled(&module, &compiled, 1 << 63).0,
        (63..70).collect::<Vec<_>>()
    );
}

/// Calls the chain so often that the cost of one call is the difference of two counts.
const DRIVER: &str = "
static uint64_t event[64], keyed[64], out[512];
int main(void) {
    const hawser_program *program = hawser_program_signals();
    for (int i = 0; i < ROUNDS; i++) {
        hw_memory memory = {.keyed = (uint8_t *)keyed, .keyed_type = 1};
        hw_records records = {.at = (uint8_t *)out, .end = (uint8_t *)(out + 512), .wanted = 0};
        program->react(0, (uint8_t *)event, &memory, &records);
    }
    return 0;
}";
const ROUNDS: u64 = 10_000;

/// Returns the number of instructions in [`ROUNDS`] runs of a chain, or `None` without valgrind.
fn instructions(text: &str, name: &str) -> Option<u64> {
    let emitted = emit(
        &module(text),
        &Options { marks: Marks::Nothing, loadable: false, ..Options::default() },
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    let c = format!("{}\n#define ROUNDS {ROUNDS}\n{DRIVER}", emitted.c);
    std::fs::write(&source, c).expect("the folder can be written");
    let mut compiler = Command::new("cc");
    let out = compiler
        .args(["-std=gnu11", "-O2", "-o"])
        .args([&program, &source])
        .output();
    let out = out.expect("a C compiler is installed");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(&program);
    if !has(name, &[Need::Valgrind]) {
        return None;
    }
    let out = valgrind.output().expect("valgrind starts");
    let words = String::from_utf8_lossy(&out.stderr);
    let count = words
        .lines()
        .find_map(|line| line.split_once("refs:"))
        .map(|(_, count)| count.trim());
    Some(
        count
            .and_then(|count| count.replace(',', "").parse().ok())
            .expect("callgrind counts"),
    )
}

/// A signal without a subscriber costs at most three instructions, regardless of its contents. A chain whose
/// program has signals costs four more for the mask itself.
#[test]
fn a_signal_without_subscribers_costs_at_most_3_instructions() {
    let text = |reported: &str, emits: bool| {
        let mut body = String::new();
        for field in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let _ = writeln!(body, "c.{field} = (c.{field} + ev.n) / (c.n + 1);");
            if emits {
                let _ = writeln!(
                    body,
                    "emit signal(reported{{x: c.{field}, y: c.calls / 3, z: ev.n * 7}});"
                );
            }
        }
        format!("{reported} void act(ask ev, conn c) {{ {body} }}")
    };
    let reported = "signal reported { uint64 x, y, z; }";
    let Some(without) = instructions(&text("", false), "signals_none") else {
        return;
    };
    let (Some(declared), Some(eight)) = (
        instructions(&text(reported, false), "signals_declared"),
        instructions(&text(reported, true), "signals_eight"),
    ) else {
        return;
    };
    let each =
        |more: u64, less: u64, signals: u64| more.saturating_sub(less) as f64 / (ROUNDS * signals) as f64;
    let (mask, signal) = (each(declared, without, 1), each(eight, declared, 8));
    println!("the mask: {mask:.2} instructions of a chain; a signal without subscribers: {signal:.2}");
    assert!(mask <= 4.0, "{mask}");
    assert!(signal <= 3.0, "{signal}");
}
