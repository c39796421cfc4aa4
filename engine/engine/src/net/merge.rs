//! Merging of received packets into one, as some devices do it: the reverse of cutting a super-segment.
//!
//! Devices merge only packets of protocol 6, if each continues the one before and their headers are otherwise
//! alike; Linux's generic receive offload does the same in software. The constants below describe devices, as
//! do those for cutting. A merged packet is an event with `segs` and `seg_size`, whether a device or the
//! engine merged it.
//!
//! Invariants: only packets whose bytes are known to be intact are merged. A packet that is merged with
//! others has no flag that demands immediate action. A packet shorter than those before ends the merge.

use hawser_ir::Blueprint;
use hawser_ir::abi::{Csum, Net};

use super::checksum::Sum;
use super::{ipv4, ipv6};
use crate::wire::RxFrame;

/// The protocol whose packets are merged.
const PROTOCOL: u8 = 6;
/// The size of the shortest header of its packets, in bytes.
const HEADER: usize = 20;
/// The offset of the header's length, which is in 32-bit words in the upper half of the byte.
const LENGTH: usize = 12;
/// The offset of the header's flags.
const FLAGS: usize = 13;
/// The flags of a packet that acknowledges and demands no action.
const PLAIN: u8 = 0x10;
/// The largest packet that a network header can state, in bytes.
const MAX_BYTES: u32 = 65_535;

/// A received packet, perhaps the first of several merged ones, whose headers stand for all.
#[derive(Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) net: &'a mut Net,
    /// The link and network headers, in front of the transport header.
    pub(crate) front: &'a [u8],
    /// The packet from its transport header on, in one piece.
    pub(crate) head: &'a [u8],
    /// The state of the checksum; it becomes complete once it has been verified.
    pub(crate) csum: &'a mut Csum,
}

/// Returns true if packets with this header can be merged. A trailer or the end of a CRC would be in the
/// middle of the merged payload.
pub(crate) fn can_be_merged(header: &Blueprint) -> bool {
    header.trailer.is_empty() && header.crc().is_none()
}

impl Segment<'_> {
    /// Merges the packet of a frame if it continues this one, and returns its payload, which stays where it
    /// is.
    #[inline]
    pub(crate) fn append<'a>(&mut self, next: &RxFrame<'a>) -> Option<&'a [u8]> {
        let header = header_len(self.head)?;
        let head = same_path(self, next)?;
        let payload = follows(self, head, header)?;
        if !self.is_intact() || !is_intact(self.net, head, next.csum) {
            return None;
        }
        self.net.seg_size = (self.head.len() - header) as u16;
        self.net.segs += 1;
        self.net.tot_len += payload.len() as u32;
        Some(payload)
    }

    /// Returns true if the checksum is right. A packet with a wrong one is left for the program to refuse and
    /// count.
    #[inline]
    fn is_intact(&mut self) -> bool {
        let is_intact = is_intact(self.net, self.head, *self.csum);
        if is_intact {
            *self.csum = Csum::Complete;
        }
        is_intact
    }
}

/// Returns true if a packet's checksum is right or has been verified before.
#[inline]
fn is_intact(net: &Net, head: &[u8], csum: Csum) -> bool {
    let pseudo = || Sum::of_pseudo(&net.src_ip, &net.dst_ip, PROTOCOL, head.len() as u32);
    csum == Csum::Complete || pseudo().with(head).is_valid()
}

/// Returns a frame from its transport header on, if all headers in front match those of the first packet.
/// Only fields that differ from packet to packet may differ: IPv4's length, identification and checksum,
/// IPv6's length. Such a frame is accepted as the first one was, and no other field needs to be read.
#[inline]
fn same_path<'a>(first: &Segment<'_>, next: &RxFrame<'a>) -> Option<&'a [u8]> {
    let network = usize::from(first.net.hdr_len);
    let (link, net) = first
        .front
        .split_at_checked(first.front.len().checked_sub(network)?)?;
    let (front, head) = next.head.split_at_checked(first.front.len())?;
    let (next_link, next_net) = front.split_at(link.len());
    // A super-segment that a device has merged is not merged again.
    if first.net.protocol != PROTOCOL || next_link != link || next.seg_size != 0 {
        return None;
    }
    let stated = match (first.net.version, network) {
        (4, ipv4::HEADER) => ipv4::goes_on(net.first_chunk()?, next_net.first_chunk()?)?,
        (6, ipv6::HEADER) => ipv6::goes_on(net.first_chunk()?, next_net.first_chunk()?)?,
        _ => return None, // options or extension headers
    };
    head.get(..stated) // `None` if it is in two pieces
}

/// Returns the payload of `next` if it continues `first`, whose header has `header` bytes.
#[inline]
fn follows<'a>(first: &Segment<'_>, next: &'a [u8], header: usize) -> Option<&'a [u8]> {
    let net = &*first.net;
    let size = first.head.len() - header;
    let payload = next.get(header..)?;
    let before = size * usize::from(net.segs);
    // False behind a device's super-segment, a trimmed packet, and a packet shorter than those before it.
    let is_whole = net.tot_len as usize == usize::from(net.hdr_len) + header + before;
    let fits =
        is_whole && (1..=size).contains(&payload.len()) && net.tot_len + payload.len() as u32 <= MAX_BYTES;
    let (sequence, rest) = parts(first.head.first_chunk()?);
    let (next_sequence, next_rest) = parts(next.first_chunk()?);
    let goes_on = first.head[FLAGS] == PLAIN
        && rest == next_rest
        && sequence.wrapping_add(before as u32) == next_sequence
        && first.head[HEADER..header] == next[HEADER..header];
    (fits && goes_on).then_some(payload)
}

/// Returns the size of a packet's header in bytes, if the stated size is valid and the header is complete.
#[inline]
fn header_len(head: &[u8]) -> Option<usize> {
    let stated = usize::from(head.get(LENGTH)? >> 4) * 4;
    (HEADER..=head.len()).contains(&stated).then_some(stated)
}

/// Returns a header's sequence number, and the fields that are alike in merged packets: ports,
/// acknowledgement number, length, flags, window and urgent pointer. The checksum is in neither.
#[inline]
fn parts(header: &[u8; HEADER]) -> (u32, [u32; 4]) {
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    (word(4), [word(0), word(8), word(12), word(16) & 0xffff])
}

#[cfg(test)]
mod tests {
    use hawser_ir::{Fill, StructId, Ty, WireField};
    use hawser_testing::internet_checksum;

    use super::*;

    const LINK: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];
    /// The offsets of the network header and the transport header in a frame over IPv4.
    const NET: usize = LINK.len();
    const HEAD: usize = NET + ipv4::HEADER;

    /// Returns a frame of `len` bytes of payload at `seq`, with its checksums.
    fn frame(seq: u32, len: usize) -> Vec<u8> {
        let mut net = vec![
            0x45, 2, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        let mut head = vec![0, 80, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0x80, 0x10, 1, 0, 0, 0, 0, 0];
        head[4..8].copy_from_slice(&seq.to_be_bytes());
        head.extend(OPTIONS);
        head.extend((0..len as u32).map(|at| seq.wrapping_add(at) as u8));
        net[2..4].copy_from_slice(&(20 + head.len() as u16).to_be_bytes());
        net[4..6].copy_from_slice(&(seq as u16).to_be_bytes()); // the identification
        let mut frame = [&LINK[..], &net, &head].concat();
        seal(&mut frame);
        frame
    }

    /// Fills in the checksums of a frame over IPv4.
    fn seal(frame: &mut [u8]) {
        frame[NET + 10..NET + 12].fill(0);
        let sum = internet_checksum(&[&frame[NET..HEAD]]);
        frame[NET + 10..NET + 12].copy_from_slice(&sum);
        frame[HEAD + 16..HEAD + 18].fill(0);
        let (pseudo, head) = (&frame[NET + 12..HEAD], &frame[HEAD..]);
        let sum = internet_checksum(&[pseudo, &[0, 6], &(head.len() as u16).to_be_bytes(), head]);
        frame[HEAD + 16..HEAD + 18].copy_from_slice(&sum);
    }

    /// Returns the same frame over IPv6.
    fn over_ipv6(frame: &[u8]) -> Vec<u8> {
        let mut net = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
        net[4..6].copy_from_slice(&(frame.len() as u16 - HEAD as u16).to_be_bytes());
        net.extend([0xfd; 15].into_iter().chain([1]));
        net.extend([0xfd; 15].into_iter().chain([2]));
        [&LINK[..12], &[0x86, 0xdd], &net, &frame[HEAD..]].concat()
    }

    fn received(frame: &[u8], csum: Csum) -> RxFrame<'_> {
        RxFrame {
            head: frame,
            tail: &[],
            csum,
            seg_size: 0,
            at: hawser_time::Instant::ORIGIN,
        }
    }

    /// Merges frames behind a first one, and returns the number merged, the network header and the payload.
    fn merge(frames: &[Vec<u8>], csum: Csum) -> (usize, Net, Vec<u8>) {
        let frames: Vec<_> = frames.iter().map(|frame| received(frame, csum)).collect();
        merge_received(&frames)
    }

    fn merge_received(frames: &[RxFrame<'_>]) -> (usize, Net, Vec<u8>) {
        let (first, rest) = frames.split_first().expect("a first one");
        let network = &first.head[NET..];
        let mut net = match first.head[12] {
            8 => ipv4::read(network).expect("a header").net,
            _ => ipv6::read(network).expect("a header"),
        };
        let mut csum = first.csum;
        let (front, head) = first.head.split_at(NET + usize::from(net.hdr_len));
        let mut first = Segment { net: &mut net, front, head, csum: &mut csum };
        let taken: Vec<_> = rest.iter().map_while(|next| first.append(next)).collect();
        (taken.len(), net, taken.concat())
    }

    /// Returns true if two frames, one of which was changed, are merged.
    fn merges(pair: &[Vec<u8>; 2]) -> bool {
        merge(pair, Csum::Complete).0 == 1
    }

    fn pair() -> [Vec<u8>; 2] {
        [frame(5, 100), frame(105, 100)]
    }

    #[test]
    fn packets_that_go_on_are_merged_up_to_the_first_shorter_one() {
        let start = u32::MAX - 1500; // the sequence number wraps
        for csum in [Csum::Complete, Csum::Unverified] {
            let at = |index: u32| start.wrapping_add(index * 1000);
            let frames = [
                frame(at(0), 1000),
                frame(at(1), 1000),
                frame(at(2), 70),
                frame(at(2) + 70, 70),
            ];
            let payload = [&frames[1][HEAD + 32..], &frames[2][HEAD + 32..]].concat();
            let (count, net, taken) = merge(&frames, csum);
            assert_eq!((count, taken), (2, payload));
            assert_eq!((net.segs, net.seg_size, net.tot_len), (3, 1000, 20 + 32 + 2070));
        }
    }

    #[test]
    fn link_padding_is_not_merged() {
        let mut frames = [frame(5, 4), frame(9, 2)];
        frames[1].extend([0xee; 9]);
        let (count, net, taken) = merge(&frames, Csum::Unverified);
        assert_eq!((count, taken), (1, vec![9, 10]));
        assert_eq!(net.tot_len, 20 + 32 + 6);
        assert!(merges(&pair()));
        let mut cut = pair();
        cut[1].pop();
        assert!(!merges(&cut), "a packet that is shorter than it states");
    }

    #[test]
    fn packets_with_different_transport_headers_are_not_merged() {
        let checksum = 16..18;
        for at in (0..32).filter(|at| !checksum.contains(at)) {
            let mut frames = pair();
            frames[1][HEAD + at] ^= 0x11;
            assert!(!merges(&frames), "byte {at}");
        }
        for flags in [0x11, 0x12, 0x14, 0x18, 0x30, 0x50, 0x90, 0x00] {
            let mut frames = pair();
            frames.iter_mut().for_each(|frame| frame[HEAD + 13] = flags);
            assert!(!merges(&frames), "flags {flags:#x}");
        }
    }

    /// Length, identification and checksum are exempt, because they differ in all packets.
    #[test]
    fn packets_with_different_network_headers_are_not_merged() {
        for at in (0..HEAD).filter(|at| !(NET + 4..NET + 6).contains(at)) {
            let mut frames = pair();
            frames[1][at] ^= 0x11;
            assert!(!merges(&frames), "byte {at}");
            seal(&mut frames[1]);
            let is_shorter = at == NET + 3;
            let is_checksum = (NET + 10..NET + 12).contains(&at);
            assert_eq!(
                merges(&frames),
                is_shorter || is_checksum,
                "byte {at}, with checksums"
            );
        }
        let mut frames = pair();
        frames[1][NET + 4] ^= 0x11;
        assert!(!merges(&frames), "a header that is not intact");
        seal(&mut frames[1]);
        assert!(merges(&frames), "another identification");
    }

    #[test]
    fn packets_with_different_ipv6_headers_are_not_merged() {
        let head = NET + ipv6::HEADER;
        let pair = || pair().map(|frame| over_ipv6(&frame));
        assert!(merges(&pair()));
        for at in 0..head {
            let mut frames = pair();
            frames[1][at] ^= 0x11;
            assert!(!merges(&frames), "byte {at}");
        }
        let mut frames = pair();
        for frame in &mut frames {
            frame.splice(head..head, [6, 0, 1, 4, 0, 0, 0, 0]); // a destination option
            frame[NET + 6] = 60;
            frame[NET + 5] += 8;
        }
        assert!(!merges(&frames), "an extension header");
    }

    #[test]
    fn broken_or_too_large_packets_are_not_merged() {
        for which in 0..2 {
            let mut frames = pair();
            frames[which][HEAD + 131] ^= 1;
            assert_eq!(merge(&frames, Csum::Unverified).0, 0, "packet {which}");
        }
        let mut frames = pair();
        frames.iter_mut().for_each(|frame| frame[NET + 9] = 17);
        frames.iter_mut().for_each(|frame| seal(frame));
        assert!(!merges(&frames), "another protocol");
        assert!(!merges(&[frame(5, 0), frame(5, 100)]), "behind no payload");
        let frames: Vec<_> = (0..50).map(|index| frame(5 + index * 1400, 1400)).collect();
        let (count, net, _) = merge(&frames, Csum::Complete);
        assert_eq!((count, net.tot_len), (45, 20 + 32 + 46 * 1400));
    }

    #[test]
    fn packets_with_a_trailer_or_a_crc_are_not_merged() {
        let field = |fill| WireField::Bits {
            name: "field".to_owned(),
            offset: 0,
            ty: Ty::uint(32),
            bits: 32,
            little: false,
            fill,
        };
        let crc = Fill::Crc32 { masked: Vec::new(), invariant: false };
        let header = |header, trailer| Blueprint {
            name: "header".to_owned(),
            body: StructId(0),
            header,
            data_at: None,
            trailer,
            fixed_len: 4,
            max_len: 8,
        };
        assert!(can_be_merged(&header(vec![field(None)], vec![])));
        assert!(!can_be_merged(&header(vec![field(Some(crc))], vec![])));
        assert!(!can_be_merged(&header(vec![field(None)], vec![field(None)])));
    }

    #[test]
    fn packets_merged_by_a_device_or_split_are_not_merged() {
        let pair = pair();
        let [first, next] = pair.each_ref().map(|frame| received(frame, Csum::Complete));
        assert_eq!(merge_received(&[first, next]).0, 1);
        let merged = RxFrame { seg_size: 50, ..next };
        assert_eq!(merge_received(&[first, merged]).0, 0);
        let (head, tail) = next.head.split_at(HEAD + 32);
        let in_two = RxFrame { head, tail, ..next };
        assert_eq!(merge_received(&[first, in_two]).0, 0);
    }

    #[test]
    fn headers_of_any_bytes_are_read_without_panic() {
        for len in 0..HEAD + 40 {
            for words in 0..16 {
                let mut frames = [frame(5, 8), frame(13, 8)];
                for frame in &mut frames {
                    frame[HEAD + 12] = words << 4;
                }
                frames[1][NET + 3] = len as u8;
                seal(&mut frames[1]);
                frames[1].truncate(len);
                let [first, next] = frames.each_ref().map(|frame| &frame[..]);
                for first in [first, &first[..len.max(HEAD)]] {
                    let pair = [first, next].map(|frame| received(frame, Csum::Complete));
                    assert_eq!(merge_received(&pair).0, 0, "{len}, {words}");
                }
            }
        }
    }
}
