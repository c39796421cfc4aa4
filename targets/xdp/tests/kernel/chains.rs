//! Chains of transport programs as eBPF: the kernel's verifier takes them, and they do what the interpreter does, byte for
//! byte, on random events and contexts.
#![allow(unsafe_code)] // Memory that is shared with programs in the kernel.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;

use hawser_emit_c::{Machine, Options};
use hawser_equality::native::take_records;
use hawser_equality::side::Side;
use hawser_equality::trial::{EVENTS, Trial};
use hawser_interp::Interpreter;
use hawser_ir::Module;
use hawser_ir::abi::{Built, Outcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header};
use hawser_temporary::Folder;
use hawser_testing::TestResult;
use libbpf_rs::{AsRawLibbpf, MapCore, Object, ObjectBuilder, ProgramInput};
use libbpf_sys::bpf_map__initial_value;

/// Courses of events for each program.
const SEEDS: u64 = 20;

pub(crate) fn chains_in_the_kernel_do_what_the_interpreter_does() -> TestResult {
    for path in [
        "examples/stop-and-wait.mtp",
        "transports/selective-repeat/selective-repeat.mtp",
        "transports/ndp/ndp.mtp",
    ] {
        let (module, interpreter) = program(path)?;
        let kernel = Kernel::load(&module, &interpreter)?;
        for seed in 1..=SEEDS {
            let mut trial = Trial::new(&module, &interpreter, &kernel, seed);
            for event in 0..EVENTS {
                trial
                    .event(&mut |_, _, _, _| ())
                    .map_err(|text| format!("{path}, seed {seed}, event {event}: {text}"))?;
            }
        }
    }
    Ok(())
}

fn program(path: &str) -> Result<(Arc<Module>, Interpreter), Box<dyn Error + Send + Sync>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compiled = hawser_driver::compile(&root.join(path));
    let module = compiled.module.as_ref().filter(|_| !compiled.failed());
    let module = Arc::new(module.ok_or_else(|| compiled.render(false))?.clone());
    let params = module.params.iter().map(|param| param.default).collect();
    let interpreter = Interpreter::new(module.clone(), params)?;
    Ok((module, interpreter))
}

/// A program's chains in the kernel; all else is the interpreter's.
struct Kernel<'a> {
    module: &'a Module,
    interpreter: &'a Interpreter,
    object: Object,
    /// The first byte of the arena.
    arena: NonNull<u8>,
    /// The first byte that is ours to use.
    free: usize,
    /// Bytes of variables.
    frame: usize,
}

/// Where an arena is mapped: nothing else is there.
const ARENA: u64 = 1 << 44;
/// Where a call is described, and how: `hw_call` of `runtime/entries.h`, without its contexts of all flows.
const CALL: usize = 4096;
const OUTCOME: usize = 0;
const RECORDS: usize = 9;
const WORDS: usize = 11;

impl<'a> Kernel<'a> {
    fn load(
        module: &'a Module,
        interpreter: &'a Interpreter,
    ) -> Result<Kernel<'a>, Box<dyn Error + Send + Sync>> {
        let options = Options {
            machine: Machine::Ebpf,
            ..Options::default()
        };
        let c = hawser_emit_c::emit(module, &options).c;
        let folder = Folder::new()?;
        let (source, object) = (folder.join("chains.c"), folder.join("chains.o"));
        std::fs::write(&source, &c)?;
        let mut clang = Command::new(std::env::var_os("CLANG").unwrap_or_else(|| "clang".into()));
        clang.args([
            "-g",
            "-O2",
            "-target",
            "bpf",
            "-mcpu=v3",
            "-ffreestanding",
            "-nostdlibinc",
        ]);
        clang
            .args(["-fno-builtin", "-w", "-c", "-o"])
            .arg(&object)
            .arg(&source);
        let output = clang.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let mut object = ObjectBuilder::default().open_file(&object)?;
        for mut map in object.maps_mut().filter(|map| map.name() == "hw_arena") {
            map.set_map_extra(ARENA)?;
        }
        let object = object.load()?;
        let map = object
            .maps()
            .find(|map| map.name() == "hw_arena")
            .ok_or("it has no arena")?;
        // SAFETY: the map is loaded; what is asked for is where libbpf has mapped it, which is all that may map it.
        let arena = unsafe { bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &mut 0) };
        let arena = NonNull::new(arena.cast()).ok_or("the arena is not mapped")?;
        let number = |name: &str| {
            let line = c
                .lines()
                .find_map(|line| line.strip_prefix(&format!("#define {name} ")));
            line.and_then(|number| number.parse::<usize>().ok())
                .ok_or(format!("there is no {name}"))
        };
        Ok(Kernel {
            module,
            interpreter,
            object,
            arena,
            free: number("HW_FREE_AT")?,
            frame: number("HW_FRAME_BYTES")?,
        })
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the arena is mapped as long as the object is there, is larger than what a call takes, and no program
        // runs while it is written.
        unsafe {
            self.arena
                .add(at)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        };
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: as for `write`.
        unsafe {
            NonNull::from(bytes.as_mut())
                .cast::<u8>()
                .copy_from_nonoverlapping(self.arena.add(at), bytes.len())
        };
    }

    fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes);
        u64::from_ne_bytes(bytes)
    }
}

impl Side for Kernel<'_> {
    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> Outcome {
        let number = usize::from(event_header(event).event);
        let Some(chain) = self.module.chains.get(number) else {
            return Outcome::Done;
        };
        let mut free = self.free;
        let mut put = |bytes: &[u8]| {
            let at = free;
            self.write(at, bytes);
            free += bytes.len().next_multiple_of(8);
            at as u64
        };
        let params: Vec<u8> = self
            .interpreter
            .params()
            .iter()
            .flat_map(|p| p.to_ne_bytes())
            .collect();
        let room = chain.bounds.record_bytes as usize;
        let (keyed_type, keyed) = match &memory.keyed {
            Some((id, bytes)) => (u64::from(id.0) + 1, put(bytes)),
            None => (0, 0),
        };
        let fresh = memory.fresh.as_ref().map_or(0, |bytes| put(bytes));
        let globals: Vec<u64> = memory.globals.iter().map(|bytes| put(bytes)).collect();
        let (params, frame, scratch) = (put(&params), put(&vec![0; self.frame]), put(memory.scratch));
        let (event_at, records) = (put(event), put(&vec![0; room]));
        let wanted = out.wanted();
        let call: [u64; WORDS] = [
            0,
            params,
            frame,
            scratch,
            event_at,
            keyed,
            fresh,
            keyed_type,
            wanted,
            records,
            records + room as u64,
        ];
        let words = call.iter().chain(&globals).flat_map(|word| word.to_ne_bytes());
        self.write(CALL, &words.collect::<Vec<u8>>());

        let name = format!("hw_chain_{number}");
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|program| program.name() == name.as_str())
            .expect("each chain has a program");
        let input = ProgramInput {
            data_in: Some(&[0; 64]),
            ..ProgramInput::default()
        };
        program.test_run(input).expect("the kernel runs it");

        self.read(event_at as usize, event);
        if let Some((_, bytes)) = &mut memory.keyed {
            self.read(keyed as usize, bytes);
        }
        if let Some(bytes) = &mut memory.fresh {
            self.read(fresh as usize, bytes);
        }
        for (at, bytes) in globals.iter().zip(memory.globals.iter_mut()) {
            self.read(*at as usize, bytes);
        }
        self.read(scratch as usize, memory.scratch);
        let mut written = vec![0; (self.word(CALL + RECORDS * 8) - records) as usize];
        self.read(records as usize, &mut written);
        take_records(&written, out);
        hawser_emit_c::abi::outcome(self.word(CALL + OUTCOME * 8))
            .unwrap_or_else(|other| Outcome::Assert(u32::MAX - other))
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        self.interpreter.parse(parser, input, out)
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        self.interpreter.build(packet, image, segment, header)
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        self.interpreter.coalesce(blueprint, earlier, later)
    }
}
