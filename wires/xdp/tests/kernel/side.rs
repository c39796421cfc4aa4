//! A program's chains in the kernel, as one side of a comparison. Chains that the verifier accepts run by
//! BPF_PROG_TEST_RUN; the interpreter does all the rest.
#![allow(unsafe_code)] // Memory that is shared with programs in the kernel.

use std::cell::Cell;
use std::ffi::CStr;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_documents::temporary::Folder;
use hawser_emit_c::Machine;
use hawser_equality::native::take_records;
use hawser_equality::side::Side;
use hawser_interp::Interpreter;
use hawser_ir::Module;
use hawser_ir::abi::{Built, ChainOutcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header};
use hawser_testing::TestResult;
use libbpf_rs::{AsRawLibbpf, MapCore, Object, ObjectBuilder, OpenObject, ProgramInput};
use libbpf_sys::{bpf_map__initial_value, bpf_program__set_log_buf};

/// A program's chains in the kernel; the interpreter does all the rest.
pub(crate) struct Kernel<'a> {
    module: &'a Module,
    interpreter: &'a Interpreter,
    /// The chains by event, or the reasons for their rejection.
    chains: Vec<Result<Chain, Refusal>>,
    /// The offset of the first free byte of an arena.
    free: usize,
    /// The ranges of the run and of the variables.
    variables: [Range<usize>; 2],
    /// The number of events that ran in the kernel, and of those that did not.
    pub(crate) ran: Cell<u64>,
    pub(crate) missed: Cell<u64>,
}

/// A chain that the verifier accepted. It has an arena of its own, so that a rejected chain does not affect
/// any other.
struct Chain {
    object: Object,
    /// The first byte of the arena.
    arena: NonNull<u8>,
}

/// The verifier rejected a chain.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) event: String,
    /// The last lines of the verifier's log.
    pub(crate) reason: String,
}

impl Refusal {
    /// Returns true if the chain exceeds the verifier's limits, and contains no forbidden operation.
    pub(crate) fn is_for_size(&self) -> bool {
        [
            "BPF program is too large",
            "combined stack size",
            "is too complex",
        ]
        .iter()
        .any(|words| self.reason.contains(words))
    }
}

/// The address range for arenas, which is otherwise unused. Each arena has an address whose lower half is 0.
const ARENAS: u64 = 1 << 44;
const APART: u64 = 1 << 32;
/// The maximum number of arenas at once.
const COUNT: u64 = 4096;
/// The place and form of a call's description: `hw_call` of `runtime/entries.h`, without its contexts of all
/// flows.
const CALL: usize = 4096;
const OUTCOME: usize = 0;
const RECORDS: usize = 8;
const WORDS: usize = 10;
/// The initial content of memory that a chain has to set before it reads it.
const GARBAGE: u8 = 0xa5;
/// Verifier logs without the states of the program (BPF_LOG_STATS).
const STATISTICS: u32 = 4;
/// The size of a log, in bytes. The verifier also writes states that it later removes, and fails if there is
/// no room for them.
const LOG: usize = 1 << 24;

impl<'a> Kernel<'a> {
    /// Compiles a program and loads each of its chains.
    pub(crate) fn load(module: &'a Module, interpreter: &'a Interpreter) -> TestResult<Kernel<'a>> {
        let c = hawser_equality::compile::c_of(module, Machine::Ebpf).c;
        let folder = Folder::new()?;
        let (source, object) = (folder.join("chains.c"), folder.join("chains.o"));
        std::fs::write(&source, &c)?;
        compile(&source, &object)?;
        let object = std::fs::read(&object)?;
        let chains = (0..module.chains.len()).map(|number| {
            Ok(Chain::load(&object, number)?
                .map_err(|reason| Refusal { event: module.events[number].name.clone(), reason }))
        });
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
            chains: chains.collect::<TestResult<Vec<_>>>()?,
            free: number("HW_FREE_AT")?,
            variables: [
                number("HW_RUN_AT")?..number("HW_NOTHING_AT")?,
                number("HW_FRAME_AT")?..number("HW_FREE_AT")?,
            ],
            ran: Cell::new(0),
            missed: Cell::new(0),
        })
    }

    /// Returns the nonempty chains that the verifier rejected, and the number of all nonempty chains.
    pub(crate) fn refused(&self) -> (Vec<&Refusal>, usize) {
        let chains = self.chains.iter().zip(&self.module.chains);
        let running = chains.filter(|(_, chain)| !chain.processors.is_empty());
        let all = running.clone().count();
        (
            running.filter_map(|(loaded, _)| loaded.as_ref().err()).collect(),
            all,
        )
    }
}

/// Runs clang with at most 6 GB of memory.
fn compile(source: &Path, object: &Path) -> TestResult {
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 6000000; exec \"$@\"", "clang"])
        .arg(clang);
    command.args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-ffreestanding"]);
    command.args(["-nostdlibinc", "-fno-builtin", "-w", "-c", "-o"]);
    command.arg(object).arg(source);
    Ok(hawser_equality::compile::run(command)?)
}

impl Chain {
    /// Loads the chain of the event with this number, or returns the reason why the verifier rejects it.
    fn load(object: &[u8], number: usize) -> TestResult<Result<Chain, String>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut open = ObjectBuilder::default().open_memory(object)?;
        for mut map in open.maps_mut().filter(|map| map.name() == "hw_arena") {
            map.set_map_extra(ARENAS + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT * APART)?;
        }
        let mut log = vec![0; LOG];
        choose(&mut open, &format!("hw_chain_{number}"), &mut log)?;
        let object = match open.load() {
            Ok(object) => object,
            Err(error) => {
                let log = CStr::from_bytes_until_nul(&log)?.to_string_lossy();
                let mut words = log.lines().rev();
                let reason = words.find(|line| !STATISTIC.iter().any(|start| line.starts_with(start)));
                return Ok(Err(reason.map_or(error.to_string(), str::to_owned)));
            }
        };
        let map = object.maps().find(|map| map.name() == "hw_arena");
        let map = map.ok_or("it has no arena")?;
        // SAFETY: the map is loaded. The result is the address of libbpf's mapping, which is the only one.
        let arena = unsafe { bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &mut 0) };
        let arena = NonNull::new(arena.cast()).ok_or("the arena is not mapped")?;
        Ok(Ok(Chain { object, arena }))
    }

    /// Runs the chain on the contents of its arena.
    fn run(&self) {
        let mut programs = self.object.progs_mut();
        let program = programs
            .find(|program| program.autoload())
            .expect("one was loaded");
        let input = ProgramInput { data_in: Some(&[0; 64]), ..ProgramInput::default() };
        program.test_run(input).expect("the kernel runs it");
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: the arena is mapped as long as the object exists, and is larger than the memory of a call.
        // No program runs while it is written.
        unsafe {
            self.arena
                .add(at)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        };
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        // SAFETY: the same as for `write`.
        unsafe {
            NonNull::from(&mut *bytes)
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

/// The beginnings of the last lines in a verifier's log.
const STATISTIC: [&str; 3] = ["processed ", "verification time ", "stack depth "];

/// Selects one program of an object to be loaded, with the verifier's log in `log`, which must live until the
/// load is done.
fn choose(object: &mut OpenObject, name: &str, log: &mut [u8]) -> TestResult {
    for mut program in object.progs_mut() {
        program.set_autoload(program.name() == name);
        program.set_log_level(STATISTICS);
        let raw = program.as_libbpf_object().as_ptr();
        // SAFETY: the program exists, and the caller keeps the log until it is loaded.
        let result = unsafe { bpf_program__set_log_buf(raw, log.as_mut_ptr().cast(), log.len() as _) };
        if result != 0 {
            return Err(format!("no log for {name}: {result}").into());
        }
    }
    Ok(())
}

impl Side for Kernel<'_> {
    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        let number = usize::from(event_header(event).event);
        let Some(Ok(chain)) = self.chains.get(number) else {
            self.missed.set(self.missed.get() + 1);
            return self.interpreter.react(event, memory, out);
        };
        self.ran.set(self.ran.get() + 1);
        let mut free = self.free;
        let mut put = |bytes: &[u8]| {
            let at = free;
            chain.write(at, bytes);
            free += bytes.len().next_multiple_of(8);
            at as u64
        };
        let params = self.interpreter.params().iter().flat_map(|p| p.to_ne_bytes());
        let params = put(&params.collect::<Vec<u8>>());
        let room = self.module.chains[number].bounds.record_bytes as usize;
        let (keyed_type, keyed) = match &memory.keyed {
            Some((id, bytes)) => (u64::from(id.0) + 1, put(bytes)),
            None => (0, 0),
        };
        let fresh = memory.fresh.as_ref().map_or(0, |bytes| put(bytes));
        let globals: Vec<u64> = memory.globals.iter().map(|bytes| put(bytes)).collect();
        let scratch = put(memory.scratch);
        let (event_at, records) = (put(event), put(&vec![GARBAGE; room]));
        let end = records + room as u64;
        let wanted = out.wanted();
        let call: [u64; WORDS] = [
            0, params, scratch, event_at, keyed, fresh, keyed_type, wanted, records, end,
        ];
        for range in &self.variables {
            chain.write(range.start, &vec![GARBAGE; range.len()]);
        }
        let words = call.iter().chain(&globals).flat_map(|word| word.to_ne_bytes());
        chain.write(CALL, &words.collect::<Vec<u8>>());

        chain.run();

        chain.read(event_at as usize, event);
        if let Some((_, bytes)) = &mut memory.keyed {
            chain.read(keyed as usize, bytes);
        }
        if let Some(bytes) = &mut memory.fresh {
            chain.read(fresh as usize, bytes);
        }
        for (at, bytes) in globals.iter().zip(memory.globals.iter_mut()) {
            chain.read(*at as usize, bytes);
        }
        chain.read(scratch as usize, memory.scratch);
        let mut written = vec![0; (chain.word(CALL + RECORDS * 8) - records) as usize];
        chain.read(records as usize, &mut written);
        take_records(&written, out);
        hawser_emit_c::abi::outcome(chain.word(CALL + OUTCOME * 8))
            .unwrap_or_else(|other| ChainOutcome::Assert(u32::MAX - other))
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
