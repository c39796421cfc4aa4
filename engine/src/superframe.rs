//! Super-segments: packets of one instruction that leave as one frame, which the device cuts.
//!
//! Only what is proven leaves so: each packet's header is built by the program and compared with
//! what a segmenting device will make of the first one's. Where they differ in anything else, the
//! super-segment ends there. So the packets on the link are the program's, whatever its rules say.
//!
//! What devices know how to cut is TCP (Linux: SKB_GSO_TCPV4, SKB_GSO_TCPV6; the offsets are those
//! of RFC 9293, 3.1). A device, from packet to packet, adds the payload to the sequence number,
//! keeps PSH and FIN for the last one and completes each checksum; the rest stays as it is.
//! CWR it would keep for the first one only, which not all can: it is never part of one.

use std::ops::Range;

use hawser_ir::abi::Built;

/// The IP protocol number that devices cut.
const TCP: u8 = 6;
const SEQUENCE: Range<usize> = 4..8;
const FLAGS: usize = 13;
const CHECKSUM: Range<usize> = 16..18;
const SHORTEST: usize = 20;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// What may stand on the last packet only.
const LAST_ONLY: u8 = FIN | PSH;

/// A super-segment in the making. Its header is the first packet's.
#[derive(Debug)]
pub(crate) struct Superframe {
    /// Payload bytes of each packet but the last.
    seg_size: u32,
    /// Payload bytes so far.
    len: u32,
    /// Payload bytes at most.
    most: u32,
    /// A packet that can only be the last one is in.
    ended: bool,
}

impl Superframe {
    /// Begins with a packet that carries `len` bytes, if others can follow it. `most` is the limit
    /// on the frame's bytes from the transport header on.
    pub(crate) fn begin(
        protocol: u8,
        header: &[u8],
        built: &Built,
        len: u32,
        most: u32,
    ) -> Option<Superframe> {
        let fits = header.len() >= SHORTEST && built.csum == Some((0, CHECKSUM.start as u16));
        let flags = *header.get(FLAGS)?;
        let begins = protocol == TCP && fits && len > 0 && flags & (LAST_ONLY | CWR) == 0;
        let most = most.saturating_sub(header.len() as u32);
        // Linux counts the pieces in 16 bits, and so does a virtio header.
        let size = len <= u32::from(u16::MAX);
        (begins && size).then_some(Superframe { seg_size: len, len, most, ended: false })
    }

    /// Takes the next packet in, with `len` bytes of payload, if the device makes exactly this
    /// header of the super-segment's; otherwise changes nothing and returns false.
    pub(crate) fn absorb(&mut self, first: &mut [u8], next: &[u8], built: &Built, len: u32) -> bool {
        let room = !self.ended && len > 0 && len <= self.seg_size && self.len + len <= self.most;
        if !room || built.csum != Some((0, CHECKSUM.start as u16)) || first.len() != next.len() {
            return false;
        }
        let same = |range: Range<usize>| first[range.clone()] == next[range];
        let alike = same(0..SEQUENCE.start)
            && same(SEQUENCE.end..FLAGS)
            && first[FLAGS] == next[FLAGS] & !LAST_ONLY
            && same(FLAGS + 1..CHECKSUM.start)
            && same(CHECKSUM.end..first.len());
        if !alike || number(next) != number(first).wrapping_add(self.len) {
            return false;
        }
        self.ended = len < self.seg_size || next[FLAGS] & LAST_ONLY != 0;
        self.len += len;
        first[FLAGS] = next[FLAGS];
        // The field holds the sum of the pseudo-header, whose length covers the whole payload.
        let sum = u32::from(u16::from_be_bytes([first[CHECKSUM.start], first[CHECKSUM.start + 1]])) + len;
        let sum = (sum & 0xffff) + (sum >> 16);
        first[CHECKSUM].copy_from_slice(&(sum as u16).to_be_bytes());
        true
    }

    /// Payload bytes in all.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// What the device is told: payload bytes per packet, 0 when it is only one.
    pub(crate) fn gso_size(&self) -> u16 {
        if self.len > self.seg_size { self.seg_size as u16 } else { 0 }
    }
}

fn number(header: &[u8]) -> u32 {
    header[SEQUENCE].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: Built = Built { len: 20, csum: Some((0, 16)) };

    /// A header as a TCP would build it; the checksum field has the pseudo-header's sum.
    fn header(seq: u32, flags: u8, len: u32) -> Vec<u8> {
        let mut header = vec![0, 80, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0];
        header[4..8].copy_from_slice(&seq.to_be_bytes());
        header[16..18].copy_from_slice(&pseudo(len));
        header
    }

    /// RFC 1071 over some addresses' sum, the protocol and the length.
    fn pseudo(len: u32) -> [u8; 2] {
        let sum = 0xff00 + 6 + 20 + len;
        (((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
    }

    /// What a device makes of a super-segment, as Linux's tcp_gso_segment does it.
    fn cut(first: &[u8], len: u32, size: u32) -> Vec<(Vec<u8>, u32)> {
        let starts = (0..len).step_by(size as usize);
        let packet = |start: u32| {
            let this = size.min(len - start);
            let last = start + this == len;
            let mut header = first.to_vec();
            header[4..8].copy_from_slice(&(number(first).wrapping_add(start)).to_be_bytes());
            header[13] &= if last { 0xff } else { !0x09 };
            header[16..18].copy_from_slice(&pseudo(this));
            (header, this)
        };
        starts.map(packet).collect()
    }

    /// Joins as many packets as can be.
    fn join(packets: &[(Vec<u8>, u32)]) -> Option<(Vec<u8>, Superframe, usize)> {
        let (mut first, len) = packets[0].clone();
        let mut frame = Superframe::begin(6, &first, &BUILT, len, 65_000)?;
        let joined =
            packets[1..].iter().take_while(|(next, len)| frame.absorb(&mut first, next, &BUILT, *len));
        let count = 1 + joined.count();
        Some((first, frame, count))
    }

    #[test]
    fn the_device_gives_back_what_was_joined() {
        let start = u32::MAX - 1000; // wraps
        let packets: Vec<(Vec<u8>, u32)> = (0..10)
            .map(|i| {
                let len = if i == 9 { 77 } else { 1448 };
                (header(start.wrapping_add(i * 1448), if i == 9 { 0x18 } else { 0x10 }, len), len)
            })
            .collect();
        let (first, frame, count) = join(&packets).expect("they can be joined");
        assert_eq!((count, frame.gso_size(), frame.len()), (10, 1448, 9 * 1448 + 77));
        assert_eq!(first[16..18], pseudo(frame.len()), "the sum covers the whole");
        assert!(cut(&first, frame.len(), 1448) == packets);
    }

    #[test]
    fn whatever_a_device_would_change_ends_it() {
        let whole = |i: u32| (header(i * 100, 0x10, 100), 100);
        let with = |change: fn(&mut Vec<u8>)| {
            let mut third = whole(2);
            change(&mut third.0);
            join(&[whole(0), whole(1), third, whole(3)]).map(|(_, _, count)| count)
        };
        assert_eq!(with(|_| {}), Some(4));
        assert_eq!(with(|h| h[7] += 1), Some(2), "a gap");
        assert_eq!(with(|h| h[11] += 1), Some(2), "another acknowledgement");
        assert_eq!(with(|h| h[15] += 1), Some(2), "another window");
        assert_eq!(with(|h| h[19] += 1), Some(2), "another urgent pointer");
        assert_eq!(with(|h| h[13] |= 0x40), Some(2), "ECE");
        assert_eq!(with(|h| h[13] |= 0x80), Some(2), "CWR");
        assert_eq!(with(|h| h[13] |= 0x08), Some(3), "PSH: the last one");
        assert_eq!(with(|h| h.extend([1, 1, 1, 0])), Some(2), "options");
        let short = (header(100, 0x10, 50), 50);
        assert_eq!(join(&[whole(0), short, (header(150, 0x10, 50), 50)]).map(|j| j.2), Some(2));
        for flags in [0x11, 0x18, 0x90] {
            assert!(join(&[(header(0, flags, 100), 100), whole(1)]).is_none());
        }
        assert!(Superframe::begin(17, &header(0, 0x10, 100), &BUILT, 100, 65_000).is_none(), "not TCP");
        let complete = Built { len: 20, csum: None };
        assert!(Superframe::begin(6, &header(0, 0x10, 100), &complete, 100, 65_000).is_none());
    }
}
