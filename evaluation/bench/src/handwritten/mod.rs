//! The hand-written TCP in C (`evaluation/handwritten/`), behind [`Program`].
//!
//! It takes the place of generated code, behind the same calls with the same checks. The difference is
//! therefore in the code alone, and shows the cost of programmability.
//!
//! * [`tables`]: the tables that the engine needs; a generated program's tables come from its source
//! * [`ffi`]: the C side's functions

mod ffi;
mod tables;

use hawser_emit_c::abi::{Events, Memory, RawPacket, Records, address, outcome, parse_error};
use hawser_engine::program::Program;
use hawser_ir::Module;
use hawser_ir::abi::{Built, ChainOutcome, EventHeader, Op, Packet, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, NET_ZERO, RecordBuf, Regions, event_header};
use hawser_load::RunError;
use hawser_load::programs::Error;

use tables::{LARGEST_EVENT, RECORD_BYTES, sizes};

/// The program, with the values of its params.
#[derive(Debug)]
pub(crate) struct Handwritten {
    module: Module,
    params: Vec<u64>,
}

impl Handwritten {
    /// Makes the program with params as users write them: `RCV_BUF=262144`.
    ///
    /// # Errors
    /// A setting is malformed, or names no param.
    pub(crate) fn new(settings: &[String]) -> Result<Handwritten, Error> {
        let module = tables::module();
        let set = hawser_load::parse_params(&module.params, &module.enums, settings)?;
        let params = module.params_with(&set).map_err(RunError::from)?;
        Ok(Handwritten { module, params })
    }

    /// Returns the size of an event by its number, in bytes.
    fn event_bytes(&self, number: u16) -> Option<usize> {
        let event = self.module.events.get(usize::from(number))?;
        Some(self.module.structure(event.body).size as usize)
    }
}

/// Runs `events` acknowledgements, or data segments, through the chains on a small engine: by direct calls,
/// or by records. The result depends on all of them, and is the same either way.
pub(crate) fn cost(direct: bool, data: bool, events: u64) -> u64 {
    let params = tables::defaults();
    let run = if direct {
        ffi::abi_cost_direct
    } else {
        ffi::abi_cost_records
    };
    // SAFETY: there are as many params as the C side has; it keeps no address.
    unsafe { run(params.as_ptr(), u32::from(data), events) }
}

/// Returns whether memory is at least as large as a structure, and is aligned for one.
fn holds(bytes: &[u8], size: u32) -> bool {
    bytes.len() >= size as usize && bytes.as_ptr().align_offset(8) == 0
}

impl Program for Handwritten {
    fn module(&self) -> &Module {
        &self.module
    }

    fn engine(&self) -> &'static str {
        "handwritten"
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        let no_net = NET_ZERO;
        let no_op: Op = bytemuck::Zeroable::zeroed();
        let nothing = Packet {
            net: &no_net,
            head: &[],
            tail: &[],
            merged: 0,
            addr: 0,
            csum: hawser_ir::abi::Csum::Complete,
            crc: None,
        };
        let (packet, op) = match &input {
            Input::Packet(packet) => (packet, &no_op),
            Input::App(_, op) => (&nothing, *op),
            Input::Icmp(..) | Input::Start => return Err(ParseError::Frame),
        };
        let packet = RawPacket::from_packet(packet);
        let room = out.room(LARGEST_EVENT);
        let span = room.as_mut_ptr_range();
        let mut events = Events { at: span.start.cast(), end: span.end.cast(), count: 0, capacity: 1 };
        // SAFETY: the params are those of `tables::module`; packet and request are borrowed for the call and
        // are as long as stated; `events` has room for the largest event, and each parser emits at most one.
        let error = unsafe {
            ffi::handwritten_parse(
                self.params.as_ptr(),
                parser as u32,
                &packet,
                std::ptr::null(),
                op,
                &mut events,
            )
        };
        if let Some(error) = parse_error(error) {
            return Err(error);
        }
        let written = (events.at as usize).wrapping_sub(span.start as usize);
        out.commit(written, |number| self.event_bytes(number))
            .map_err(|_| ParseError::Events)
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        if event.len() < size_of::<EventHeader>() {
            return ChainOutcome::Done;
        }
        let size = self.event_bytes(event_header(event).event).unwrap_or(usize::MAX);
        let context = |type_: u32| sizes()[type_ as usize];
        let keyed = memory
            .keyed
            .as_ref()
            .is_none_or(|(id, bytes)| holds(bytes, context(id.0)));
        let creates = tables::creates(event_header(event).event);
        let fresh = memory
            .fresh
            .as_ref()
            .zip(creates)
            .is_none_or(|(bytes, id)| holds(bytes, context(id.0)));
        if !(event.len() >= size && event.as_ptr().align_offset(8) == 0 && keyed && fresh) {
            return ChainOutcome::Done;
        }
        let keyed_type = memory.keyed.as_ref().map_or(0, |(id, _)| id.0 + 1);
        let fresh = memory.fresh.as_deref_mut().filter(|_| creates.is_some());
        let regions = Memory {
            keyed: address(memory.keyed.as_mut().map(|(_, bytes)| &mut **bytes)),
            fresh: address(fresh),
            globals: std::ptr::null(),
            scratch: memory.scratch.as_mut_ptr(),
            keyed_type,
            pad: 0,
        };
        let wanted = out.wanted();
        let span = out.room(RECORD_BYTES).as_mut_ptr_range();
        let mut records = Records { at: span.start.cast(), end: span.end.cast(), wanted };
        // SAFETY: event and contexts are aligned and as large as the C structures, as was just checked; they
        // do not overlap, because they are borrowed exclusively; `records` has room for the worst case of any
        // chain.
        let ended = unsafe {
            ffi::handwritten_react(self.params.as_ptr(), event.as_mut_ptr(), &regions, &mut records)
        };
        let written = (records.at as usize).wrapping_sub(span.start as usize);
        let taken = out.commit(written);
        debug_assert!(taken.is_ok(), "the program wrote an invalid sequence of records");
        outcome(ended).unwrap_or(ChainOutcome::Stop)
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        if packet.blueprint != 0 || !holds(image, sizes()[tables::IMAGE]) {
            return Built { len: 0, trailer: 0, csum: None };
        }
        let room = u32::try_from(header.len()).unwrap_or(u32::MAX);
        let Segment { index, count, len } = segment;
        // SAFETY: the image is aligned and as large as the C structure; the header has the stated room, which
        // the code checks.
        let built = unsafe {
            let (params, image, header) = (self.params.as_ptr(), image.as_mut_ptr(), header.as_mut_ptr());
            ffi::handwritten_build(params, packet, image, index, count, len, header, room)
        };
        built.within(header.len())
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        let size = sizes()[tables::IMAGE];
        if !holds(earlier, size) || !holds(later, size) {
            return false;
        }
        // SAFETY: both images are aligned and as large as the C structure, and are only read.
        let replaces = unsafe {
            let (params, earlier, later) = (self.params.as_ptr(), earlier.as_ptr(), later.as_ptr());
            ffi::handwritten_coalesce(params, u32::from(blueprint), earlier, later)
        };
        replaces != 0
    }
}

#[cfg(test)]
mod tests {
    use super::cost;

    #[test]
    fn records_have_the_effect_of_direct_calls() {
        for data in [false, true] {
            assert_eq!(cost(false, data, 1001), cost(true, data, 1001));
            assert_ne!(cost(false, data, 1001), cost(false, data, 1002));
        }
    }
}
