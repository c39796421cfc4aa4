//! Compares the C with the interpreter: outcome, records and all memory, byte for byte. It runs every chain
//! of every program in `lang/tests` and of the built-in ones, on memory with arbitrary contents.

use crate::common;

use std::sync::Arc;

use common::{Compiled, World};
use fastrand::Rng;
use hawser_interp::Interpreter;
use hawser_ir::buf::{RecordBuf, Regions};
use hawser_ir::{ContextId, EventId, Granularity, Module};

/// The number of worlds for each chain and each kind of keyed context.
const ROUNDS: u64 = 60;

/// Trapping checks for undefined behaviour, without optimisation.
const CHECKED: &[&str] = &[
    "-O0",
    "-fsanitize=undefined",
    "-fsanitize-undefined-trap-on-error",
];

/// Random memory from a seed.
struct Random(Rng);

impl Random {
    fn roll(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }

    /// Returns memory of one kind: zeros, small numbers, numbers near the ends of their ranges, or any
    /// numbers.
    fn words(&mut self, bytes: usize) -> Vec<u64> {
        let manner = self.below(5);
        let word = |random: &mut Random| match manner {
            0 => 0,
            1 => random.below(4),
            2 => random.below(3) | random.below(3) << 32,
            3 => [
                0,
                1,
                u64::MAX,
                1 << 63,
                0x7fff_ffff_8000_0000,
                0x0001_00ff_7f80_0001,
            ][random.below(6) as usize],
            _ => random.roll(),
        };
        (0..bytes.div_ceil(8))
            .map(|_| {
                if self.below(8) == 0 {
                    self.below(3)
                } else {
                    word(self)
                }
            })
            .collect()
    }
}

/// Returns a world for a chain. All global contexts exist, as in the engine.
fn world(module: &Module, event: EventId, keyed: Option<ContextId>, random: &mut Random) -> World {
    let mut bytes = random.words(module.event_size(event));
    // The event's number and its number of ids are in the header's third word.
    bytes[2] = (bytes[2] & 0xffff_ffff) | u64::from(event.0) << 32 | random.below(4) << 48;
    let creates = module.chains[event.0 as usize]
        .creates
        .filter(|_| random.below(4) != 0);
    let fresh = creates.map(|context| {
        let mut slot = vec![0; module.context_size(context).div_ceil(8)];
        (0..5).for_each(|i| slot[i] = random.roll());
        slot
    });
    let global = |context: (usize, &hawser_ir::Context), random: &mut Random| match context.1.granularity {
        Granularity::Global => random.words(module.context_size(ContextId(context.0 as u32))),
        Granularity::Flow | Granularity::Shard => Vec::new(),
    };
    World {
        event: bytes,
        keyed: keyed.map(|id| (id.0, random.words(module.context_size(id)))),
        fresh,
        globals: module
            .contexts
            .iter()
            .enumerate()
            .map(|c| global(c, random))
            .collect(),
        scratch: random.words(module.scratch.map_or(0, |id| module.structure(id).size as usize)),
    }
}

/// Runs a chain by interpretation.
fn interpret(program: &Interpreter, world: &mut World) -> (hawser_ir::abi::ChainOutcome, Vec<u8>) {
    let mut globals: Vec<Vec<u8>> = world
        .globals
        .iter()
        .map(|g| bytemuck::cast_slice(g).to_vec())
        .collect();
    let mut records = RecordBuf::default();
    let mut regions = Regions {
        keyed: world
            .keyed
            .as_mut()
            .map(|(id, bytes)| (ContextId(*id), bytemuck::cast_slice_mut(bytes))),
        fresh: world.fresh.as_mut().map(|bytes| bytemuck::cast_slice_mut(bytes)),
        globals: &mut globals,
        scratch: bytemuck::cast_slice_mut(&mut world.scratch),
    };
    let outcome = program.react(
        bytemuck::cast_slice_mut(&mut world.event),
        &mut regions,
        &mut records,
    );
    for (to, from) in world.globals.iter_mut().zip(&globals) {
        bytemuck::cast_slice_mut::<u64, u8>(to).copy_from_slice(from);
    }
    (outcome, records.bytes().to_vec())
}

fn compare(name: &str, program: &Interpreter, compiled: &Compiled) {
    let module: &Module = program.module();
    let mut random = Random(Rng::with_seed(0x4a77_05e8));
    let kinds = module.contexts.iter().enumerate();
    let keyed = kinds
        .filter(|(_, c)| c.granularity != Granularity::Global)
        .map(|(i, _)| Some(ContextId(i as u32)));
    let cases: Vec<Option<ContextId>> = std::iter::once(None).chain(keyed).collect();
    for (index, event) in module.events.iter().enumerate() {
        let id = EventId(index as u32);
        let room = module.chains[index].bounds.record_bytes as usize;
        for keyed in &cases {
            for round in 0..ROUNDS {
                let before = world(module, id, *keyed, &mut random);
                let (mut theirs, mut ours) = (before.clone(), before.clone());
                let expected = interpret(program, &mut theirs);
                let found = compiled.react(program.params(), &mut ours, room);
                let at = format!("{name}: {} on {keyed:?}, round {round}", event.name);
                assert_eq!(found.0, expected.0, "{at}: outcome of {before:x?}");
                assert_eq!(found.1, expected.1, "{at}: records of {before:x?}");
                assert_eq!(ours, theirs, "{at}: memory of {before:x?}");
            }
        }
    }
}

#[test]
fn chains_in_c_match_the_interpreter() {
    for path in common::programs() {
        let module = Arc::new(common::module(&path));
        let params = module.params.iter().map(|p| p.default).collect();
        let Ok(program) = Interpreter::new(Arc::clone(&module), params) else {
            continue;
        };
        let folder = path
            .parent()
            .and_then(|p| p.file_name())
            .unwrap_or_default()
            .to_string_lossy();
        let name = format!(
            "{folder}_{}",
            path.file_stem().unwrap_or_default().to_string_lossy()
        );
        let compiled = common::compile(&module, &name, CHECKED);
        compare(&name, &program, &compiled);
    }
}
