//! Generated C as a side of the comparison: compiled, loaded, and called through its table.
//!
//! The output of the C is checked. Records must be a sequence of whole records within the bounds that the
//! checker gave. No byte may change behind any buffer that is handed out.

#![allow(unsafe_code)] // Calls into loaded code.

use std::path::Path;
use std::ptr;

use hawser_emit_c::abi::{ABI, Entry, Events, Memory, RawPacket, RawProgram, Records, outcome, parse_error};
use hawser_ir::abi::{
    Built, ChainOutcome, Csum, EventHeader, Icmp, Net, ON_GLOBAL, Op, Packet, PacketRec, ParseError,
    RecordHeader, RecordKind, Segment,
};
use hawser_ir::buf::{EventBuf, Input, NET_ZERO, RecordBuf, Regions, event_header};
use hawser_ir::{EventId, Module};

use crate::side::Side;

/// True if the emitter prints parsers and headers.
pub const PACKETS: bool = true;
/// The value that fills the guard behind every buffer.
const GUARD: u64 = 0xdead_beef_0bad_cafe;

/// Programs in one shared object.
pub struct Library(libloading::Library);

impl Library {
    /// Loads a shared object that this crate has compiled from the emitter's text.
    ///
    /// # Errors
    /// Returns the loader's message.
    pub fn open(path: &Path) -> Result<Library, String> {
        // SAFETY: the object has no initialisers: it holds generated functions and constants alone.
        unsafe { libloading::Library::new(path) }
            .map(Library)
            .map_err(|error| error.to_string())
    }

    /// Returns the program behind a symbol, with the values of its params.
    ///
    /// # Errors
    /// If the symbol is absent, or if the program has another version of the interface.
    pub fn program<'a>(
        &'a self,
        symbol: &str,
        module: &'a Module,
        params: Vec<u64>,
    ) -> Result<Native<'a>, String> {
        // SAFETY: the emitter declares this symbol with this type.
        let table = unsafe { self.0.get::<Entry>(symbol.as_bytes()) }.map_err(|error| error.to_string())?;
        // SAFETY: the function takes no arguments and returns the address of a constant table, which lives as
        // long as the library.
        let table = unsafe { &*table() };
        if table.abi != ABI {
            return Err(format!("{symbol} has interface {}, not {ABI}", table.abi));
        }
        Ok(Native { module, params, table })
    }
}

/// A program in machine code.
pub struct Native<'a> {
    module: &'a Module,
    params: Vec<u64>,
    table: &'a RawProgram,
}

/// Aligned memory with a guard behind it.
struct Guarded {
    words: Vec<u64>,
    len: usize,
}

impl Guarded {
    fn new(bytes: &[u8]) -> Guarded {
        let mut guarded = Guarded::room(bytes.len());
        guarded.bytes_mut().copy_from_slice(bytes);
        guarded
    }

    fn room(len: usize) -> Guarded {
        let mut words = vec![0; len.div_ceil(8)];
        words.extend([GUARD; 4]);
        Guarded { words, len }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }

    fn start(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    /// Copies the bytes back, if the guard is intact.
    fn back(&mut self, to: &mut [u8]) {
        let behind = self.words.len() - 4;
        assert!(
            self.words[behind..].iter().all(|word| *word == GUARD),
            "written beyond the end"
        );
        to.copy_from_slice(self.bytes_mut());
    }
}

impl Side for Native<'_> {
    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        if event.len() < size_of::<EventHeader>() {
            return ChainOutcome::Done;
        }
        let Some(chain) = self.module.chains.get(usize::from(event_header(event).event)) else {
            return ChainOutcome::Done;
        };
        let mut event_copy = Guarded::new(event);
        let mut keyed = memory.keyed.as_ref().map(|(_, bytes)| Guarded::new(bytes));
        let mut fresh = memory.fresh.as_ref().map(|bytes| Guarded::new(bytes));
        let mut globals: Vec<Guarded> = memory.globals.iter().map(|bytes| Guarded::new(bytes)).collect();
        let mut scratch = Guarded::new(memory.scratch);
        let mut records = Guarded::room(chain.bounds.record_bytes as usize);
        let starts: Vec<*mut u8> = globals
            .iter_mut()
            .map(|g| if g.len == 0 { ptr::null_mut() } else { g.start() })
            .collect();
        let start = |region: &mut Option<Guarded>| region.as_mut().map_or(ptr::null_mut(), Guarded::start);
        let raw = Memory {
            keyed: start(&mut keyed),
            fresh: start(&mut fresh),
            globals: starts.as_ptr(),
            scratch: scratch.start(),
            keyed_type: memory.keyed.as_ref().map_or(0, |(id, _)| id.0 + 1),
            pad: 0,
        };
        let first = records.start();
        let mut raw_records =
            Records { at: first, end: first.wrapping_add(records.len), wanted: out.wanted() };
        // SAFETY: all regions have the size that the module states and are aligned to 8 bytes; the records'
        // room ends at `end`.
        let ended =
            unsafe { (self.table.react)(self.params.as_ptr(), event_copy.start(), &raw, &mut raw_records) };
        event_copy.back(event);
        if let (Some(copy), Some((_, bytes))) = (&mut keyed, &mut memory.keyed) {
            copy.back(bytes);
        }
        if let (Some(copy), Some(bytes)) = (&mut fresh, &mut memory.fresh) {
            copy.back(bytes);
        }
        globals
            .iter_mut()
            .zip(memory.globals.iter_mut())
            .for_each(|(copy, bytes)| copy.back(bytes));
        scratch.back(memory.scratch);
        let written = raw_records.at as usize - first as usize;
        let mut bytes = vec![0; records.len];
        records.back(&mut bytes);
        take_records(&bytes[..written.min(bytes.len())], out);
        // An invalid result of a chain shows as a difference.
        outcome(ended).unwrap_or_else(|other| ChainOutcome::Assert(u32::MAX - other))
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        static NO_NET: Net = NET_ZERO;
        let nothing = Packet {
            net: &NO_NET,
            head: &[],
            tail: &[],
            merged: 0,
            addr: 0,
            csum: Csum::Complete,
            crc: None,
        };
        let (no_icmp, no_op): (Icmp, Op) = (bytemuck::Zeroable::zeroed(), bytemuck::Zeroable::zeroed());
        let (packet, icmp, op) = match &input {
            Input::Packet(packet) => (packet, &no_icmp, &no_op),
            Input::Icmp(packet, icmp) => (packet, *icmp, &no_op),
            Input::App(_, op) => (&nothing, &no_icmp, *op),
            Input::Start => (&nothing, &no_icmp, &no_op),
        };
        let raw = RawPacket::from_packet(packet);
        let max_events = self.module.parsers[parser].max_events;
        let largest = (0..self.module.events.len())
            .map(|i| self.module.event_size(EventId(i as u32)))
            .max();
        let mut room = Guarded::room(largest.unwrap_or(0) * max_events as usize);
        let first = room.start();
        let mut events = Events {
            at: first,
            end: first.wrapping_add(room.len),
            count: 0,
            capacity: max_events,
        };
        // SAFETY: the parser's index is in range; the packet and the views are valid and borrowed for the
        // call; `events` spans the room.
        let error =
            unsafe { (self.table.parse)(self.params.as_ptr(), parser as u32, &raw, icmp, op, &mut events) };
        let written = events.at as usize - first as usize;
        let mut bytes = vec![0; room.len];
        room.back(&mut bytes);
        if let Some(error) = parse_error(error) {
            return Err(error);
        }
        take_events(self.module, &bytes[..written.min(bytes.len())], out);
        Ok(())
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let (mut copy, mut out) = (Guarded::new(image), Guarded::new(header));
        // SAFETY: the image is as large as the blueprint's structure and aligned; the header has the
        // stated length.
        let built = unsafe {
            (self.table.build)(
                self.params.as_ptr(),
                packet,
                copy.start(),
                segment.index,
                segment.count,
                segment.len,
                out.start(),
                header.len() as u32,
            )
        };
        copy.back(image);
        out.back(header);
        built.within(header.len())
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        let (mut a, mut b) = (Guarded::new(earlier), Guarded::new(later));
        // SAFETY: both images are as large as the blueprint's structure and aligned.
        let replaces = unsafe {
            (self.table.coalesce)(self.params.as_ptr(), u32::from(blueprint), a.start(), b.start())
        };
        replaces != 0
    }
}

/// Splits the bytes into whole records. Invalid bytes end the sequence and show as a difference.
pub fn take_records(mut bytes: &[u8], out: &mut RecordBuf) {
    while bytes.len() >= size_of::<RecordHeader>() {
        let header: RecordHeader = bytemuck::pod_read_unaligned(&bytes[..size_of::<RecordHeader>()]);
        let len = header.len as usize;
        let (Some(kind), true) = (RecordKind::from_u8(header.kind), len >= 8 && len <= bytes.len()) else {
            return;
        };
        let tail = &bytes[size_of::<RecordHeader>()..len];
        // Only a record about a GLOBAL context names one. Any other record that does shows as a difference.
        match (header.on, header.global) {
            (ON_GLOBAL, global) => out.push_global(kind, global, &header, tail),
            (on, 0) => out.push(kind, on, &header, tail),
            _ => {}
        }
        bytes = &bytes[len..];
    }
}

fn take_events(module: &Module, mut bytes: &[u8], out: &mut EventBuf) {
    while bytes.len() >= size_of::<EventHeader>() {
        let event = event_header(bytes).event;
        if usize::from(event) >= module.events.len() {
            return;
        }
        let len = module.event_size(EventId(u32::from(event)));
        if len > bytes.len() {
            return;
        }
        out.push(EventId(u32::from(event)), &bytes[..len]);
        bytes = &bytes[len..];
    }
}
