//! Runs a module behind the engine's interface as machine code: generated C, linked in or loaded.
//!
//! The code receives addresses and trusts their sizes. [`sizes`] therefore checks all memory before it is
//! passed. The code writes events and records straight into the engine's buffers, which have room for the
//! worst case. Once the buffers have grown, no event allocates memory.

mod sizes;

use std::fs::File;
use std::mem::MaybeUninit;
use std::sync::Arc;

use bytemuck::Zeroable;
use hawser_emit_c::abi::{
    ABI, Entry, Events, Memory, RawPacket, RawProgram, Records, address, outcome, parse_error,
};
use hawser_engine::program::Program;
use hawser_interp::Interpreter;
use hawser_ir::Module;
use hawser_ir::abi::{
    Built, ChainOutcome, Csum, EventHeader, Icmp, Net, Op, Packet, PacketRec, ParseError, Segment,
};
use hawser_ir::buf::{EventBuf, Input, NET_ZERO, RecordBuf, Regions, event_header};

use sizes::Sizes;

use crate::bounds::BufferSnapshot;
use crate::error::RunError;
use crate::limits::MAX_CONTEXTS;
use crate::unsupported::unsupported;

// `BUILTIN_CODE` maps the names of built-in programs to the entries of their code. The build script writes
// it.
include!(concat!(env!("OUT_DIR"), "/native.rs"));

/// Machine code of one program, made from its C by the emitter of this build of Hawser.
#[derive(Clone)]
pub(crate) struct Code {
    table: Table,
    /// Keeps loaded code mapped; `None` for code that is linked in.
    library: Option<Arc<Mapped>>,
}

/// A library in memory, and its file. The system's loader identifies the library by the name of the
/// descriptor. It would return this library for any later open of that name, so the descriptor stays open
/// until the library is unloaded. (Fields are dropped in their order.)
pub(crate) struct Mapped {
    pub(crate) library: libloading::Library,
    pub(crate) _file: File,
}

/// A program's table, which all threads may read.
#[derive(Clone, Copy)]
struct Table(&'static RawProgram);

// SAFETY: a table is a constant of its library. Neither the table nor the memory that it points to is ever
// written.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Code {
    /// Returns the code of a program that comes with Hawser.
    pub(crate) fn builtin(name: &str) -> Option<Code> {
        let (_, entry) = BUILTIN_CODE.iter().find(|(known, _)| *known == name)?;
        // SAFETY: the build script has linked the entry, which returns the address of a constant.
        let program: &'static RawProgram = unsafe { entry().as_ref() }?;
        debug_assert_eq!(
            (program.abi, program.size as usize),
            (ABI, size_of::<RawProgram>())
        );
        Some(Code { table: Table(program), library: None })
    }

    /// Wraps code that lies in a library.
    ///
    /// # Safety
    /// `program` must lie in `library`. The emitter of this build of Hawser must have made it of the module
    /// with which the code is used.
    pub(crate) unsafe fn loaded(program: &'static RawProgram, library: Arc<Mapped>) -> Code {
        Code { table: Table(program), library: Some(library) }
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code")
            .field("loaded", &self.library.is_some())
            .finish_non_exhaustive()
    }
}

/// A transport program as machine code, with the values of its params.
#[derive(Debug)]
pub struct Native {
    module: Arc<Module>,
    params: Vec<u64>,
    sizes: Sizes,
    code: Code,
}

impl Native {
    /// Combines code with its module and the values of all params.
    ///
    /// # Errors
    /// Fails on a construct that does not run yet, or on more context types than machine code supports.
    pub(crate) fn new(module: Arc<Module>, values: Vec<u64>, code: Code) -> Result<Native, RunError> {
        if let Some(unsupported) = unsupported(&module) {
            return Err(unsupported.into());
        }
        // The interpreter checks that every construct runs, and reduces params to their types.
        let params = Interpreter::new(module.clone(), values)?.params().to_vec();
        Ok(Native { sizes: Sizes::from_module(&module)?, module, params, code })
    }
}

impl Program for Native {
    fn module(&self) -> &Module {
        &self.module
    }

    fn engine(&self) -> &'static str {
        crate::Engine::Native.name()
    }

    fn params(&self) -> &[u64] {
        &self.params
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        let gives = self.sizes.parser(parser).ok_or(ParseError::Frame)?;
        let views = Views::from_input(&input);
        let room = out.room(gives.bytes);
        let span = room.as_mut_ptr_range();
        let mut events = Events {
            at: span.start.cast(),
            end: span.end.cast(),
            count: 0,
            capacity: gives.events,
        };
        // SAFETY: there is one value for each param of the module. The parser's index is below the number of
        // parsers. Packet and views are borrowed for the call and have the stated lengths. `events` spans
        // `room`, and the code checks its end before it writes.
        let error = unsafe {
            (self.code.table.0.parse)(
                self.params.as_ptr(),
                parser as u32,
                &views.packet,
                views.icmp,
                views.op,
                &mut events,
            )
        };
        if let Some(error) = parse_error(error) {
            return Err(error);
        }
        let written = (events.at as usize).wrapping_sub(span.start as usize);
        let taken = out.commit(written, |number| self.sizes.event_bytes(number));
        debug_assert!(
            taken.is_ok(),
            "generated code wrote an invalid sequence of events"
        );
        taken.map_err(|_| ParseError::Events)
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        if event.len() < size_of::<EventHeader>() {
            return ChainOutcome::Done;
        }
        let Some(chain) = self.sizes.chain(event_header(event).event, event, memory) else {
            return ChainOutcome::Done;
        };
        let keyed_type = memory.keyed.as_ref().map_or(0, |(id, _)| id.0 + 1);
        let mut globals = [const { MaybeUninit::<*mut u8>::uninit() }; MAX_CONTEXTS];
        if chain.globals(keyed_type, memory.globals, &mut globals).is_none() {
            return ChainOutcome::Done;
        }
        let creates = chain.creates();
        let regions = Memory {
            keyed: address(memory.keyed.as_mut().map(|(_, bytes)| &mut **bytes)),
            fresh: address(memory.fresh.as_deref_mut().filter(|_| creates)),
            globals: globals.as_ptr().cast(),
            scratch: memory.scratch.as_mut_ptr(),
            keyed_type,
            pad: 0,
        };
        let before = cfg!(debug_assertions).then(|| BufferSnapshot::new(out));
        let wanted = out.wanted();
        let span = out.room(chain.records).as_mut_ptr_range();
        let mut records = Records { at: span.start.cast(), end: span.end.cast(), wanted };
        // SAFETY: event, contexts and scratchpad are aligned and as large as the program's own structures,
        // which `Sizes::chain` and `Event::globals` have checked. They do not overlap, since they are
        // borrowed exclusively. The code reads entries of `globals` only for `GLOBAL` types whose invariants
        // it checks, or that it passes to a processor. `globals` has an entry for each of these types with
        // this keyed context. `records` spans the room for the chain's worst case. The code checks its end
        // before it begins.
        let ended = unsafe {
            (self.code.table.0.react)(self.params.as_ptr(), event.as_mut_ptr(), &regions, &mut records)
        };
        let written = (records.at as usize).wrapping_sub(span.start as usize);
        let taken = out.commit(written);
        debug_assert!(
            taken.is_ok(),
            "generated code wrote an invalid sequence of records"
        );
        debug_assert!(
            before.is_none_or(|before| before.is_within(&self.module, event_header(event).event, out)),
            "a chain exceeded its bounds"
        );
        outcome(ended).unwrap_or_else(|kind| {
            debug_assert!(kind != NO_ROOM, "a chain needs more than its bounds");
            ChainOutcome::Stop
        })
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        if !self.sizes.image(packet.blueprint, image) {
            return Built { len: 0, trailer: 0, csum: None };
        }
        let room = u32::try_from(header.len()).unwrap_or(u32::MAX);
        // SAFETY: the image is aligned and as large as the blueprint's structure. The header has the stated
        // room, and the code checks it before it writes.
        let built = unsafe {
            (self.code.table.0.build)(
                self.params.as_ptr(),
                packet,
                image.as_mut_ptr(),
                segment.index,
                segment.count,
                segment.len,
                header.as_mut_ptr(),
                room,
            )
        };
        built.within(header.len())
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        if !self.sizes.image(blueprint, earlier) || !self.sizes.image(blueprint, later) {
            return false;
        }
        // SAFETY: both images are aligned and as large as the blueprint's structure. A coalescing rule does
        // not write.
        let replaces = unsafe {
            (self.code.table.0.coalesce)(
                self.params.as_ptr(),
                u32::from(blueprint),
                earlier.as_ptr(),
                later.as_ptr(),
            )
        };
        replaces != 0
    }
}

/// `HW_NO_ROOM`.
const NO_ROOM: u32 = 5;

/// The data that a parser may read. Views that the input does not provide are empty, never absent.
struct Views<'a> {
    packet: RawPacket,
    icmp: &'a Icmp,
    op: &'a Op,
}

impl<'a> Views<'a> {
    fn from_input(input: &Input<'a>) -> Views<'a> {
        static NO_NET: Net = NET_ZERO;
        const NOTHING: Packet<'static> = Packet {
            net: &NO_NET,
            head: &[],
            tail: &[],
            merged: 0,
            addr: 0,
            csum: Csum::Complete,
            crc: None,
        };
        let (packet, icmp, op) = match input {
            Input::Packet(packet) => (packet, None, None),
            Input::Icmp(packet, icmp) => (packet, Some(*icmp), None),
            Input::App(_, op) => (&NOTHING, None, Some(*op)),
            Input::Start => (&NOTHING, None, None),
        };
        Views {
            packet: RawPacket::from_packet(packet),
            icmp: icmp.unwrap_or(no_icmp()),
            op: op.unwrap_or(no_op()),
        }
    }
}

fn no_icmp() -> &'static Icmp {
    static NOTHING: Icmp = Icmp { kind: 0, mtu: 0, icmp_type: 0, icmp_code: 0, pad: [0; 6] };
    &NOTHING
}

fn no_op() -> &'static Op {
    static NOTHING: std::sync::LazyLock<Op> = std::sync::LazyLock::new(Op::zeroed);
    &NOTHING
}
