//! Super-segments: one large packet that the device cuts, instead of many small ones.
//!
//! The compiler proves which instructions may leave as super-segments ([`hawser_ir::Cut`]): a device then
//! cuts each piece of an instruction into exactly the packets that the program would have built. So one
//! header is built for a piece, and the headers in between never are. If the device does not cut,
//! [`SuperSegment::cut`] does.
//!
//! [`SuperSegment::differs`] checks the proof: it compares the headers of the cut with the program's own,
//! packet by packet ([`crate::Stack::check_super_segments`]). The offsets are those of RFC 9293, 3.1. Devices
//! behave as Linux's SKB_GSO_TCPV4 and SKB_GSO_TCPV6 require.

use std::ops::Range;

use hawser_ir::abi::{Built, Segment};

use crate::state::{PendingInstruction, SharedHeader};

const SEQUENCE: Range<usize> = 4..8;
const FLAGS: usize = 13;
const CHECKSUM: Range<usize> = 16..18;
/// The checksum's range and position, as in [`Built::csum`]: the sum begins with the header.
pub(crate) const CSUM: (u16, u16) = (0, CHECKSUM.start as u16);
/// CWR, which is set on the first packet only.
const FIRST_ONLY: u8 = 0x80;
/// PSH and FIN, which are set on the last packet only.
const LAST_ONLY: u8 = 0x08 | 0x01;

/// Packets of an instruction that leave together: a single one, or a super-segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeparturePiece {
    /// The index of the first packet.
    first: u32,
    /// The number of packets.
    pub(crate) packets: u32,
    /// The number of payload bytes in all packets.
    pub(crate) len: u32,
    /// True if the packets are the rest of the instruction.
    is_rest: bool,
}

impl From<DeparturePiece> for SharedHeader {
    fn from(piece: DeparturePiece) -> SharedHeader {
        SharedHeader { first: piece.first, end: piece.first + piece.packets, len: piece.len }
    }
}

impl DeparturePiece {
    /// Returns the next `packets` packets of an instruction, or as many as are left.
    pub(crate) fn next(pending: &PendingInstruction, packets: u32) -> DeparturePiece {
        let first = pending.sent.packets;
        let left = pending.packets - first;
        let packets = packets.clamp(1, left);
        let is_rest = packets == left;
        let len = match pending.seg_size {
            0 => pending.len,
            size if is_rest => pending.len - first * size,
            size => packets * size,
        };
        DeparturePiece { first, packets, len, is_rest }
    }

    /// Returns the piece as a packet of the instruction: the first, the last, the only one, or one in
    /// between.
    pub(crate) fn segment(&self, pending: &PendingInstruction) -> Segment {
        let count = if self.is_rest {
            self.first + 1
        } else {
            pending.packets
        };
        Segment { index: self.first, count, len: self.len }
    }
}

/// Returns true if all these bits of a header are zero.
pub(crate) fn is_clear(header: &[u8], bits: &[u32]) -> bool {
    bits.iter().all(|bit| {
        let byte = header.get(*bit as usize / 8).copied().unwrap_or(0);
        byte >> (7 - bit % 8) & 1 == 0
    })
}

/// Returns true if a header has all the fields that change when a super-segment is cut.
pub(crate) fn can_be_cut(built: &Built) -> bool {
    built.csum == Some(CSUM) && built.len >= CHECKSUM.end && built.trailer == 0
}

/// A super-segment as a device sees it: its header, and the payload bytes in total and per packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuperSegment<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) len: u32,
    pub(crate) size: u32,
}

impl SuperSegment<'_> {
    /// Returns true if the header of the device's packet number `index` differs from the program's, which is
    /// `own`.
    pub(crate) fn differs(&self, index: u32, own: &[u8], built: &Built) -> bool {
        if own.len() != self.header.len() || !can_be_cut(built) {
            return true;
        }
        let mut header = self.header.to_vec();
        self.cut(index, &mut header);
        header != own
    }

    /// Turns a copy of the whole header, for which [`can_be_cut`] holds, into the header of the device's
    /// packet number `index`. Returns the number of payload bytes of the packet.
    #[inline]
    pub(crate) fn cut(&self, index: u32, header: &mut [u8]) -> u32 {
        let start = index * self.size;
        let len = self.size.min(self.len - start);
        if index > 0 {
            header[FLAGS] &= !FIRST_ONLY;
        }
        if start + len < self.len {
            header[FLAGS] &= !LAST_ONLY;
        }
        // The field holds the sum of the pseudo-header, whose length covers the payload.
        let sum = folded(u32::from(self.sum()) + (0xffff - folded(self.len - len)));
        header[SEQUENCE].copy_from_slice(&number(self.header).wrapping_add(start).to_be_bytes());
        header[CHECKSUM].copy_from_slice(&(sum as u16).to_be_bytes());
        len
    }

    fn sum(&self) -> u16 {
        u16::from_be_bytes([self.header[CHECKSUM.start], self.header[CHECKSUM.start + 1]])
    }
}

fn folded(sum: u32) -> u32 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

fn number(header: &[u8]) -> u32 {
    let [_, _, _, _, a, b, c, d, ..] = *header else {
        return 0;
    };
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: Built = Built { len: 20, trailer: 0, csum: Some((0, 16)) };

    /// Returns a header as a TCP would build it; the checksum field has the pseudo-header's sum.
    fn header(seq: u32, flags: u8, len: u32) -> Vec<u8> {
        let mut header = vec![0, 80, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0];
        header[4..8].copy_from_slice(&seq.to_be_bytes());
        header[16..18].copy_from_slice(&pseudo(len));
        header
    }

    /// RFC 1071 over the sum of some addresses, the protocol and the length.
    fn pseudo(len: u32) -> [u8; 2] {
        let sum = 0xff00 + 6 + 20 + len;
        (((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
    }

    #[test]
    fn the_device_s_packets_are_recognised() {
        let (start, len) = (u32::MAX - 1000, 9 * 1448 + 77); // the sequence number wraps
        let whole = header(start, 0x98, len);
        let joined = SuperSegment { header: &whole, len, size: 1448 };
        for index in 0..10 {
            let flags = [0x90, 0x10, 0x18][usize::from(index > 0) + usize::from(index == 9)];
            let this = if index == 9 { 77 } else { 1448 };
            let own = header(start.wrapping_add(index * 1448), flags, this);
            assert!(!joined.differs(index, &own, &BUILT), "packet {index}");
            let mut cut = whole.clone();
            assert_eq!(
                (joined.cut(index, &mut cut), cut),
                (this, own.clone()),
                "packet {index}"
            );
            for at in 0..20 {
                let mut other = own.clone();
                other[at] ^= 0x41;
                assert!(joined.differs(index, &other, &BUILT), "packet {index}, byte {at}");
            }
            assert!(joined.differs(index, &own, &Built { csum: None, ..BUILT }));
            assert!(
                joined.differs(index, &[own, vec![0; 4]].concat(), &BUILT),
                "options"
            );
        }
    }

    #[test]
    fn pieces_divide_an_instruction_into_segments() {
        let mut pending = PendingInstruction::blank();
        pending.set_payload(2500, 1000);
        let segment = |index, count, len| Segment { index, count, len };
        let all = DeparturePiece::next(&pending, 100);
        assert_eq!(
            (all.packets, all.segment(&pending)),
            (3, segment(0, 1, 2500)),
            "as if it were one packet"
        );
        let begin = DeparturePiece::next(&pending, 2);
        assert_eq!((begin.packets, begin.segment(&pending)), (2, segment(0, 3, 2000)));
        pending.sent.packets = 1;
        assert_eq!(
            DeparturePiece::next(&pending, 1).segment(&pending),
            segment(1, 3, 1000)
        );
        assert_eq!(
            DeparturePiece::next(&pending, 2).segment(&pending),
            segment(1, 2, 1500),
            "the last one"
        );
        pending.sent.packets = 2;
        assert_eq!(
            DeparturePiece::next(&pending, 1).segment(&pending),
            segment(2, 3, 500)
        );
        pending.set_payload(2500, 0);
        assert_eq!(
            DeparturePiece::next(&pending, 1).segment(&pending),
            segment(0, 1, 2500)
        );
    }

    #[test]
    fn bits_are_numbered_from_the_most_significant() {
        let mut header = [0; 20];
        header[13] = 0b0111_0110;
        assert!(is_clear(&header, &[104, 108, 111]));
        assert!(!is_clear(&header, &[104, 105]));
        assert!(is_clear(&[], &[104]));
    }
}
