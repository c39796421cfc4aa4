//! Received packets that are taken in as one, as devices merge them that can: the reverse of a super-segment's cut.
//!
//! A device merges the packets of protocol 6 alone of which each goes on where the one before ends, with all else in
//! their headers alike, as Linux's generic receive offload does in software. These constants are the devices', as those
//! are by which they cut. What is merged is an event with `segs` and `seg_size`, whoever did it.
//!
//! Invariants: nothing is merged whose bytes are not known to be intact; a packet that is merged with others has
//! no flag that asks for anything at once, and ends what is merged if it is shorter than those before.

use hawser_ir::abi::{Csum, Net};

use super::checksum::Sum;

/// The protocol whose packets are merged.
const PROTOCOL: u8 = 6;
/// The shortest header of its packets.
const HEADER: usize = 20;
/// Where the header has its length, in words of 32 bits in the upper half of a byte.
const LENGTH: usize = 12;
/// Where it has its flags.
const FLAGS: usize = 13;
/// The flags of a packet that acknowledges, and asks for nothing.
const PLAIN: u8 = 0x10;
/// The largest packet that a network header can state.
const MAX_BYTES: u32 = 65_535;

/// Memory for the payload of packets behind the first of those that are merged.
#[derive(Debug)]
pub(crate) struct Merger<'a> {
    room: &'a mut [u8],
    used: usize,
}

/// A received packet that lies in one piece, from its transport header on; perhaps the first of several that were
/// merged, whose network header stands for all.
#[derive(Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) net: &'a mut Net,
    pub(crate) head: &'a [u8],
    /// Becomes complete when it is looked at.
    pub(crate) csum: &'a mut Csum,
}

impl<'a> Merger<'a> {
    /// Merges into this memory; without any, nothing is merged.
    pub(crate) fn new(room: &'a mut [u8]) -> Merger<'a> {
        Merger { room, used: 0 }
    }

    /// Bytes that are free.
    pub(crate) fn room(&self) -> usize {
        self.room.len() - self.used
    }

    /// Takes the payload of a packet that goes on where another ends, and gives its length. Nothing, if it does not.
    #[inline]
    pub(crate) fn append(&mut self, first: &mut Segment<'_>, next: &mut Segment<'_>) -> Option<usize> {
        if self.room.is_empty() {
            return None;
        }
        let header = header_len(first.head)?;
        let len = follows(first, next, header)?;
        let end = self.used + len;
        let room = self.room.get_mut(self.used..end)?;
        if !first.is_intact() || !next.is_intact() {
            return None;
        }
        room.copy_from_slice(&next.head[header..]);
        self.used = end;
        first.net.seg_size = (first.head.len() - header) as u16;
        first.net.segs += 1;
        first.net.tot_len += len as u32;
        Some(len)
    }

    /// All that was taken, in order.
    pub(crate) fn taken(self) -> &'a [u8] {
        &self.room[..self.used]
    }
}

impl Segment<'_> {
    /// Whether its checksum is right. A wrong one stays for the program to refuse and to count.
    #[inline]
    fn is_intact(&mut self) -> bool {
        if *self.csum == Csum::Unverified {
            let (src, dst) = (&self.net.src_ip, &self.net.dst_ip);
            let pseudo = Sum::default().with_pseudo(src, dst, PROTOCOL, self.head.len() as u32);
            if pseudo.with(self.head).is_valid() {
                *self.csum = Csum::Complete;
            }
        }
        *self.csum == Csum::Complete
    }
}

/// How many bytes of payload `next` has, if it goes on where `first` ends, whose header has so many bytes.
#[inline]
fn follows(first: &Segment<'_>, next: &Segment<'_>, header: usize) -> Option<usize> {
    let (net, next_net) = (&*first.net, &*next.net);
    let size = first.head.len() - header;
    let len = next.head.len().checked_sub(header)?;
    let before = size * usize::from(net.segs);
    // A device's super-segment, a packet that was cut and one behind a shorter one are not as long as this.
    let is_whole = |net: &Net, len: usize| net.tot_len as usize == usize::from(net.hdr_len) + header + len;
    let fits = (1..=size).contains(&len)
        && is_whole(net, before)
        && is_whole(next_net, len)
        && net.tot_len + len as u32 <= MAX_BYTES;
    let same_path = net.protocol == PROTOCOL
        && next_net.segs == 1
        && Net {
            tot_len: net.tot_len,
            segs: net.segs,
            seg_size: net.seg_size,
            ..*next_net
        } == *net;
    let (sequence, rest) = parts(first.head.first_chunk()?);
    let (next_sequence, next_rest) = parts(next.head.first_chunk()?);
    let goes_on = first.head[FLAGS] == PLAIN
        && rest == next_rest
        && sequence.wrapping_add(before as u32) == next_sequence
        && first.head[HEADER..header] == next.head[HEADER..header];
    (fits && same_path && goes_on).then_some(len)
}

/// Bytes of a packet's header, if it has as many as it states, and states enough.
#[inline]
fn header_len(head: &[u8]) -> Option<usize> {
    let stated = usize::from(head.get(LENGTH)? >> 4) * 4;
    (HEADER..=head.len()).contains(&stated).then_some(stated)
}

/// A header's sequence number, and what is alike in packets that are merged: ports, what is acknowledged, length, flags
/// and window, the urgent pointer. Neither has the checksum.
#[inline]
fn parts(header: &[u8; HEADER]) -> (u32, [u8; 14]) {
    let [
        p0,
        p1,
        p2,
        p3,
        s0,
        s1,
        s2,
        s3,
        a0,
        a1,
        a2,
        a3,
        l,
        f,
        w0,
        w1,
        _,
        _,
        u0,
        u1,
    ] = *header;
    (
        u32::from_be_bytes([s0, s1, s2, s3]),
        [p0, p1, p2, p3, a0, a1, a2, a3, l, f, w0, w1, u0, u1],
    )
}

#[cfg(test)]
mod tests {
    use hawser_ir::buf::NET_ZERO;
    use hawser_testing::internet_checksum;

    use super::*;

    const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];

    /// A packet of `len` bytes of payload at `seq`, with its checksum, and its network header.
    fn packet(seq: u32, len: usize) -> (Net, Vec<u8>) {
        let mut head = vec![0, 80, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0x80, 0x10, 1, 0, 0, 0, 0, 0];
        head[4..8].copy_from_slice(&seq.to_be_bytes());
        head.extend(OPTIONS);
        head.extend((0..len as u32).map(|at| seq.wrapping_add(at) as u8));
        let mut net = Net {
            tot_len: 20 + head.len() as u32,
            hdr_len: 20,
            segs: 1,
            protocol: 6,
            ttl: 64,
            version: 4,
            ..NET_ZERO
        };
        net.src_ip[10..12].copy_from_slice(&[0xff; 2]);
        net.dst_ip[10..12].copy_from_slice(&[0xff; 2]);
        let sum = internet_checksum(&[&[0; 8], &[0, 6], &(head.len() as u16).to_be_bytes(), &head]);
        head[16..18].copy_from_slice(&sum);
        (net, head)
    }

    /// Merges packets behind a first one into `room` bytes: how many were, the network header, the payload taken.
    fn merge(packets: &mut [(Net, Vec<u8>)], csum: Csum, room: usize) -> (usize, Net, Vec<u8>) {
        let mut room = vec![0; room];
        let mut merger = Merger::new(&mut room);
        let ((net, head), rest) = packets.split_first_mut().expect("a first one");
        let mut standing = csum;
        let mut first = Segment {
            net,
            head,
            csum: &mut standing,
        };
        let mut count = 0;
        for (net, head) in rest {
            let mut standing = csum;
            let mut next = Segment {
                net,
                head,
                csum: &mut standing,
            };
            if merger.append(&mut first, &mut next).is_none() {
                break;
            }
            count += 1;
        }
        (count, *first.net, merger.taken().to_vec())
    }

    #[test]
    fn packets_that_go_on_are_merged_up_to_the_first_shorter_one() {
        let start = u32::MAX - 1500; // the number wraps
        for csum in [Csum::Complete, Csum::Unverified] {
            let at = |index: u32| start.wrapping_add(index * 1000);
            let mut packets = [
                packet(at(0), 1000),
                packet(at(1), 1000),
                packet(at(2), 70),
                packet(at(2) + 70, 70),
            ];
            let payload = [&packets[1].1[32..], &packets[2].1[32..]].concat();
            let (count, net, taken) = merge(&mut packets, csum, 1 << 16);
            assert_eq!((count, taken), (2, payload));
            assert_eq!((net.segs, net.seg_size, net.tot_len), (3, 1000, 20 + 32 + 2070));
        }
    }

    #[test]
    fn whatever_differs_in_a_header_keeps_packets_apart() {
        let pair = || [packet(5, 100), packet(105, 100)];
        assert_eq!(merge(&mut pair(), Csum::Complete, 1000).0, 1);
        let checksum = 16..18;
        for at in (0..32).filter(|at| !checksum.contains(at)) {
            let mut packets = pair();
            packets[1].1[at] ^= 0x11;
            assert_eq!(merge(&mut packets, Csum::Complete, 1000).0, 0, "byte {at}");
        }
        let changes: [fn(&mut Net); 9] = [
            |net| net.src_ip[15] = 1,
            |net| net.dst_ip[15] = 1,
            |net| net.ttl -= 1,
            |net| net.ecn = 3,
            |net| net.dscp = 1,
            |net| net.flow_label = 1,
            |net| net.segs = 2,
            |net| net.tot_len += 1,
            |net| net.hdr_len += 4,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut packets = pair();
            change(&mut packets[1].0);
            assert_eq!(merge(&mut packets, Csum::Complete, 1000).0, 0, "change {number}");
        }
        for flags in [0x11, 0x12, 0x14, 0x18, 0x30, 0x50, 0x90, 0x00] {
            let mut packets = pair();
            packets.iter_mut().for_each(|(_, head)| head[13] = flags);
            assert_eq!(merge(&mut packets, Csum::Complete, 1000).0, 0, "flags {flags:#x}");
        }
    }

    #[test]
    fn nothing_is_merged_that_is_broken_or_has_no_room() {
        let pair = || [packet(5, 100), packet(105, 100)];
        for which in 0..2 {
            let mut packets = pair();
            packets[which].1[131] ^= 1;
            assert_eq!(merge(&mut packets, Csum::Unverified, 1000).0, 0, "packet {which}");
        }
        assert_eq!(merge(&mut pair(), Csum::Complete, 99).0, 0);
        assert_eq!(merge(&mut pair(), Csum::Complete, 0).0, 0);
        let mut packets = pair();
        packets.iter_mut().for_each(|(net, _)| net.protocol = 17);
        assert_eq!(merge(&mut packets, Csum::Complete, 1000).0, 0);
        let mut packets = [packet(5, 0), packet(5, 100)];
        assert_eq!(
            merge(&mut packets, Csum::Complete, 1000).0,
            0,
            "behind no payload"
        );
        let mut packets: Vec<_> = (0..50).map(|index| packet(5 + index * 1400, 1400)).collect();
        let (count, net, _) = merge(&mut packets, Csum::Complete, 1 << 17);
        assert_eq!((count, net.tot_len), (45, 20 + 32 + 46 * 1400));
    }

    #[test]
    fn headers_of_any_bytes_are_read_without_panic() {
        for len in 0..40 {
            for words in 0..16 {
                let mut packets = [packet(5, 8), packet(13, 8)];
                for (_, head) in &mut packets {
                    head[12] = words << 4;
                    head.truncate(len);
                }
                assert_eq!(merge(&mut packets, Csum::Complete, 1000).0, 0);
            }
        }
    }
}
