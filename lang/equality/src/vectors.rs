//! Test vectors for a stand-alone harness. The interpreter's inputs and outputs are recorded call by call.
//! The C then runs against them in a process of its own, under sanitizers.
//!
//! A file consists of 64-bit words in native order and is read by `runtime/harness.c`. A blob is its length
//! in bytes, followed by its bytes, padded to a whole word. The params come first, as a blob. Then follow the
//! calls, each a kind and the data that [`Recorder`]'s methods write. Kind 0 ends the file.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use hawser_interp::Interpreter;
use hawser_ir::EventId;
use hawser_ir::abi::{Built, ChainOutcome, Csum, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header};

use crate::comparison::compare;
use crate::compile::{self, Printed};
use crate::coverage::Coverage;
use crate::side::Side;

const REACT: u64 = 1;
const PARSE: u64 = 2;
const BUILD: u64 = 3;
const COALESCE: u64 = 4;

/// The C program that runs vectors.
const HARNESS: &str = include_str!("../runtime/harness.c");

/// Recorded calls.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    /// The contents of the file.
    pub bytes: Vec<u8>,
    /// The byte ranges in it that the C must reproduce.
    pub expected: Vec<Range<usize>>,
    /// The number of calls.
    pub calls: usize,
}

impl Vectors {
    fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_ne_bytes());
    }

    fn blob(&mut self, bytes: &[u8]) -> Range<usize> {
        self.word(bytes.len() as u64);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(start + bytes.len().next_multiple_of(8), 0);
        start..start + bytes.len()
    }

    /// Appends a blob that the C must reproduce.
    fn gives(&mut self, bytes: &[u8]) {
        let at = self.blob(bytes);
        if !at.is_empty() {
            self.expected.push(at);
        }
    }

    fn call(&mut self, kind: u64) {
        self.calls += 1;
        self.word(kind);
    }
}

/// The interpreter, with a record of all its calls.
pub struct Recorder<'a> {
    inner: &'a Interpreter,
    vectors: RefCell<Vectors>,
}

impl Side for Recorder<'_> {
    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        let vectors = &mut *self.vectors.borrow_mut();
        vectors.call(REACT);
        let number = usize::from(event_header(event).event);
        let room = self
            .inner
            .module()
            .chains
            .get(number)
            .map_or(0, |chain| chain.bounds.record_bytes);
        vectors.word(memory.keyed.as_ref().map_or(0, |(id, _)| u64::from(id.0) + 1));
        vectors.word(u64::from(memory.fresh.is_some()));
        vectors.word(u64::from(room));
        vectors.word(out.wanted());
        vectors.word(memory.globals.len() as u64);
        for_regions(event, memory, &mut |bytes| {
            vectors.blob(bytes);
        });
        let before = out.bytes().len();
        let outcome = self.inner.react(event, memory, out);
        vectors.word(match outcome {
            ChainOutcome::Done => 0,
            ChainOutcome::Stop => 1,
            ChainOutcome::Refused(code) => 2 | u64::from(code) << 32,
            ChainOutcome::Assert(index) => 3 | u64::from(index) << 32,
        });
        for_regions(event, memory, &mut |bytes| vectors.gives(bytes));
        vectors.gives(&out.bytes()[before..]);
        outcome
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        let vectors = &mut *self.vectors.borrow_mut();
        vectors.call(PARSE);
        let module = self.inner.module();
        let max_events = module.parsers[parser].max_events;
        let largest = (0..module.events.len())
            .map(|i| module.event_size(EventId(i as u32)))
            .max();
        vectors.word(parser as u64);
        vectors.word(u64::from(max_events));
        vectors.word(u64::from(max_events) * largest.unwrap_or(0) as u64);
        input_views(vectors, &input);
        let before = out.len();
        let result = self.inner.parse(parser, input, out);
        vectors.word(match result {
            Ok(()) => 0,
            Err(ParseError::Truncated) => 1,
            Err(ParseError::Checksum) => 2,
            Err(ParseError::Length) => 3,
            Err(ParseError::Frame) => 4,
            Err(ParseError::Events) => 5,
        });
        let events: Vec<u8> = (before..out.len()).flat_map(|i| out.get(i).to_vec()).collect();
        vectors.gives(&events);
        result
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let vectors = &mut *self.vectors.borrow_mut();
        vectors.call(BUILD);
        vectors.blob(bytemuck::bytes_of(packet));
        vectors.blob(image);
        let numbers = [segment.index, segment.count, segment.len, header.len() as u32];
        numbers
            .into_iter()
            .for_each(|number| vectors.word(u64::from(number)));
        let built = self.inner.build(packet, image, segment, header);
        vectors.word(u64::from(built.csum.is_some()));
        vectors.word(built.csum.map_or(0, |(_, at)| u64::from(at)));
        vectors.gives(image);
        vectors.gives(&header[..built.len]);
        built
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        let vectors = &mut *self.vectors.borrow_mut();
        vectors.call(COALESCE);
        vectors.word(u64::from(blueprint));
        vectors.blob(earlier);
        vectors.blob(later);
        let replaces = self.inner.coalesce(blueprint, earlier, later);
        vectors.word(u64::from(replaces));
        replaces
    }
}

/// Visits event, contexts and scratchpad, in the harness's order.
fn for_regions(event: &[u8], memory: &Regions<'_>, each: &mut dyn FnMut(&[u8])) {
    each(event);
    each(memory.keyed.as_ref().map_or(&[], |(_, bytes)| bytes));
    each(memory.fresh.as_deref().unwrap_or(&[]));
    memory.globals.iter().for_each(|bytes| each(bytes));
    each(memory.scratch);
}

/// Appends the input of a parser. Views that its source does not have are empty.
fn input_views(vectors: &mut Vectors, input: &Input<'_>) {
    let (packet, icmp, op) = match input {
        Input::Packet(packet) => (Some(packet), None, None),
        Input::Icmp(packet, icmp) => (Some(packet), Some(*icmp), None),
        Input::App(_, op) => (None, None, Some(*op)),
        Input::Start => (None, None, None),
    };
    let net = packet.map_or(hawser_ir::buf::NET_ZERO, |packet| *packet.net);
    vectors.blob(bytemuck::bytes_of(&net));
    vectors.blob(packet.map_or(&[], |packet| packet.head));
    vectors.blob(packet.map_or(&[], |packet| packet.tail));
    vectors.word(packet.map_or(0, |packet| packet.merged as u64));
    vectors.word(packet.map_or(0, |packet| packet.addr));
    vectors.word(packet.map_or(0, |packet| {
        u64::from(packet.csum == Csum::Unverified) | u64::from(packet.crc.is_some()) << 1
    }));
    vectors.word(packet.map_or(0, |packet| u64::from(packet.crc.unwrap_or(0))));
    vectors.blob(bytemuck::bytes_of(icmp.unwrap_or(&bytemuck::Zeroable::zeroed())));
    vectors.blob(bytemuck::bytes_of(op.unwrap_or(&bytemuck::Zeroable::zeroed())));
}

/// Records `courses` courses of random events of a program.
///
/// # Errors
/// Never, for a deterministic interpreter: it is compared with itself meanwhile.
pub fn record(printed: &Printed, courses: u64) -> Result<Vectors, String> {
    let recorder = Recorder { inner: &printed.interpreter, vectors: RefCell::default() };
    recorder
        .vectors
        .borrow_mut()
        .blob(bytemuck::cast_slice(&printed.params));
    for seed in 0..courses {
        compare(printed, &recorder, seed, &mut Coverage::default(), &mut |_| {})
            .map_err(|(step, text)| format!("step {step}: {text}"))?;
    }
    let mut vectors = recorder.vectors.into_inner();
    vectors.word(0);
    Ok(vectors)
}

/// Compiles a program's C with the harness, under the address and undefined-behaviour sanitizers, and runs
/// the vectors through it.
///
/// # Errors
/// Returns the output of the compiler, the harness or a sanitizer.
pub fn replay(folder: &Path, printed: &Printed, vectors: &Vectors) -> Result<(), String> {
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes)
            .map_err(|error| format!("{}: {error}", path.display()))
            .map(|()| path)
    };
    write("program.c", printed.c.as_bytes())?;
    let harness = write("harness.c", HARNESS.as_bytes())?;
    let recorded = write("vectors", &vectors.bytes)?;
    let executable = folder.join("harness");
    if !executable.exists() {
        let mut command = compile::compiler();
        command.args(["-std=gnu11", "-w", "-g", "-O0", "-fsanitize=address,undefined"]);
        command.args(["-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]);
        command.arg(format!("-DPROGRAM={}", printed.symbol));
        command.arg("-o").arg(&executable).arg(harness);
        compile::run(command)?;
    }
    let mut command = std::process::Command::new(&executable);
    // Leak detection needs facilities that containers forbid; the harness frees all that it allocates.
    command.env("ASAN_OPTIONS", "detect_leaks=0").arg(recorded);
    compile::run(command)
}
