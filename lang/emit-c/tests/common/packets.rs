//! Parsers, headers and coalescing rules of compiled programs.

use hawser_ir::abi::{Built, Csum, Icmp, Net, Op, Packet, PacketRec, ParseError, Segment};
use hawser_ir::buf::{Input, NET_ZERO};

use super::Compiled;

/// `hw_packet`.
#[repr(C)]
pub(crate) struct RawPacket {
    net: *const Net,
    head: *const u8,
    head_len: u64,
    tail: *const u8,
    tail_len: u64,
    addr: u64,
    verify: u32,
    pad: u32,
}

/// `hw_events`.
#[repr(C)]
pub(crate) struct RawEvents {
    at: *mut u8,
    end: *mut u8,
    count: u32,
    most: u32,
}

/// `hw_built`.
#[repr(C)]
pub(crate) struct RawBuilt {
    len: u32,
    csum_at: u16,
    has_csum: u16,
}

type Parse =
    unsafe extern "C" fn(*const u64, u32, *const RawPacket, *const Icmp, *const Op, *mut RawEvents) -> u32;
type Build =
    unsafe extern "C" fn(*const u64, *const PacketRec, *mut u8, u32, u32, u32, *mut u8, u32) -> RawBuilt;
type Coalesce = unsafe extern "C" fn(*const u64, u32, *const u8, *const u8) -> u32;

/// The rest of `hawser_program`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    parse: Parse,
    build: Build,
    coalesce: Coalesce,
}

impl Compiled {
    /// Runs a parser; gives its events, back to back, and how many there are.
    pub(crate) fn parse(
        &self,
        params: &[u64],
        parser: usize,
        input: &Input<'_>,
        most: u32,
        room: usize,
    ) -> Result<(Vec<u8>, u32), ParseError> {
        let no_packet = Packet { net: &NET_ZERO, head: &[], tail: &[], addr: 0, csum: Csum::Complete };
        let (no_icmp, no_op): (Icmp, Op) = (bytemuck::Zeroable::zeroed(), bytemuck::Zeroable::zeroed());
        let (packet, icmp, op) = match input {
            Input::Packet(packet) => (packet, &no_icmp, &no_op),
            Input::Icmp(packet, icmp) => (packet, *icmp, &no_op),
            Input::App(_, op) => (&no_packet, &no_icmp, *op),
            Input::Start => (&no_packet, &no_icmp, &no_op),
        };
        let packet = RawPacket {
            net: packet.net,
            head: packet.head.as_ptr(),
            head_len: packet.head.len() as u64,
            tail: packet.tail.as_ptr(),
            tail_len: packet.tail.len() as u64,
            addr: packet.addr,
            verify: u32::from(packet.csum == Csum::Unverified),
            pad: 0,
        };
        let mut out = vec![0xaaaa_aaaa_aaaa_aaaa_u64; room.div_ceil(8)];
        let span = out.as_mut_ptr_range();
        let mut events = RawEvents { at: span.start.cast(), end: span.end.cast(), count: 0, most };
        // SAFETY: everything that is pointed to is alive during the call and as large as it says.
        let error =
            unsafe { (self.packets.parse)(params.as_ptr(), parser as u32, &packet, icmp, op, &mut events) };
        let len = events.at as usize - span.start as usize;
        let bytes: &[u8] = bytemuck::cast_slice(&out);
        match error {
            0 => Ok((bytes[..len].to_vec(), events.count)),
            1 => Err(ParseError::Truncated),
            2 => Err(ParseError::Checksum),
            3 => Err(ParseError::Length),
            4 => Err(ParseError::Frame),
            5 => Err(ParseError::Events),
            number => panic!("parse error {number}"),
        }
    }

    /// Builds a header; the image changes.
    pub(crate) fn build(
        &self,
        params: &[u64],
        packet: &PacketRec,
        image: &mut [u64],
        segment: Segment,
        header: &mut [u8],
    ) -> Built {
        let Segment { index, count, len } = segment;
        // SAFETY: the image is as large as the module says, the header has the room that is told.
        let built = unsafe {
            (self.packets.build)(
                params.as_ptr(),
                packet,
                image.as_mut_ptr().cast(),
                index,
                count,
                len,
                header.as_mut_ptr(),
                header.len() as u32,
            )
        };
        Built { len: built.len as usize, csum: (built.has_csum != 0).then_some((0, built.csum_at)) }
    }

    /// Whether the later image replaces the earlier.
    pub(crate) fn coalesce(&self, params: &[u64], blueprint: u16, earlier: &[u64], later: &[u64]) -> bool {
        let (earlier, later) = (earlier.as_ptr().cast(), later.as_ptr().cast());
        // SAFETY: both images are as large as the module says.
        unsafe { (self.packets.coalesce)(params.as_ptr(), blueprint.into(), earlier, later) != 0 }
    }
}
