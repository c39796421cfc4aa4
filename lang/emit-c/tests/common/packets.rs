//! Parsers, headers and coalescing rules of compiled programs.

use hawser_emit_c::abi::{Events, RawPacket, parse_error};
use hawser_ir::abi::{Built, Csum, Icmp, Op, Packet, PacketRec, ParseError, Segment};
use hawser_ir::buf::{Input, NET_ZERO};

use super::Compiled;

impl Compiled {
    /// Runs a parser, and returns its events, back to back, with their number.
    pub(crate) fn parse(
        &self,
        params: &[u64],
        parser: usize,
        input: &Input<'_>,
        max_events: u32,
        room: usize,
    ) -> Result<(Vec<u8>, u32), ParseError> {
        let no_packet = Packet {
            net: &NET_ZERO,
            head: &[],
            tail: &[],
            merged: 0,
            addr: 0,
            csum: Csum::Complete,
            crc: None,
        };
        let (no_icmp, no_op): (Icmp, Op) = (bytemuck::Zeroable::zeroed(), bytemuck::Zeroable::zeroed());
        let (packet, icmp, op) = match input {
            Input::Packet(packet) => (packet, &no_icmp, &no_op),
            Input::Icmp(packet, icmp) => (packet, *icmp, &no_op),
            Input::App(_, op) => (&no_packet, &no_icmp, *op),
            Input::Start => (&no_packet, &no_icmp, &no_op),
        };
        let packet = RawPacket::from_packet(packet);
        let mut out = vec![0xaaaa_aaaa_aaaa_aaaa_u64; room.div_ceil(8)];
        let span = out.as_mut_ptr_range();
        let mut events = Events {
            at: span.start.cast(),
            end: span.end.cast(),
            count: 0,
            capacity: max_events,
        };
        // SAFETY: everything that is pointed to is alive during the call and as large as it says.
        let error = unsafe { (self.parse)(params.as_ptr(), parser as u32, &packet, icmp, op, &mut events) };
        let len = events.at as usize - span.start as usize;
        let bytes: &[u8] = bytemuck::cast_slice(&out);
        parse_error(error).map_or(Ok((bytes[..len].to_vec(), events.count)), Err)
    }

    /// Builds a header and changes the image.
    pub(crate) fn build(
        &self,
        params: &[u64],
        packet: &PacketRec,
        image: &mut [u64],
        segment: Segment,
        header: &mut [u8],
    ) -> Built {
        let Segment { index, count, len } = segment;
        // SAFETY: the image is as large as the module says, the header has the room that is stated.
        let built = unsafe {
            (self.build)(
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
        built.within(usize::MAX)
    }

    /// Returns whether the later image replaces the earlier one.
    pub(crate) fn coalesce(&self, params: &[u64], blueprint: u16, earlier: &[u64], later: &[u64]) -> bool {
        let (earlier, later) = (earlier.as_ptr().cast(), later.as_ptr().cast());
        // SAFETY: both images are as large as the module says.
        unsafe { (self.coalesce)(params.as_ptr(), blueprint.into(), earlier, later) != 0 }
    }
}
