//! Cuts super-segments into the packets that they stand for, as a device would.
//!
//! The packets differ in exactly the fields that segmentation offload changes: lengths and the IPv4
//! identification. For IP protocol 6, these are also the sequence number and the flags that belong to the
//! first or the last packet alone.

use hawser_engine::wire::{Csum, PayRef};

use crate::checksum;
use crate::frame::{Frame, Headers};

/// The protocol whose super-segments carry one sequence number, and the offsets of its header fields.
const SEQUENCED: u8 = 6;
const SEQUENCE_AT: usize = 4;
const HEADER_WORDS_AT: usize = 12;
const FLAGS_AT: usize = 13;
/// The flag that only the first packet carries: CWR (RFC 3168, 6.1.2).
const FIRST_ONLY: u8 = 0x80;
/// The flags that only the last packet carries: PSH and FIN.
const LAST_ONLY: u8 = 0x08 | 0x01;

/// The protocol whose super-segments are datagrams of one size, and the offset of its length field.
const DATAGRAMS: u8 = 17;
const DATAGRAM_LEN_AT: usize = 4;

/// Returns the packets of a frame, in order. A frame that is one packet, or that no device can cut, is
/// returned unchanged.
#[must_use]
pub fn cut(mut frame: Frame) -> Vec<Frame> {
    let Some((headers, header_len)) = shape(&frame) else {
        return vec![frame];
    };
    let payload_len = frame.len() - header_len;
    let size = usize::from(frame.seg_size);
    if size == 0 || payload_len <= size {
        frame.seg_size = 0;
        return vec![frame];
    }
    let payload = take_payload(&mut frame, header_len);
    let count = payload_len.div_ceil(size);
    let packet = |i: usize| {
        let from = i * size;
        let to = payload_len.min(from + size);
        let mut packet = Frame { payload: vec![payload.slice(from, to)], ..frame.clone() };
        packet.seg_size = 0;
        packet.partial = None;
        packet.csum = Csum::Complete;
        fix_network(&mut packet, &headers, i);
        fix_transport(&mut packet, &headers, from, i == 0, i + 1 == count);
        packet
    };
    (0..count).map(packet).collect()
}

/// Returns the places of the headers and their total length if the frame can be cut.
fn shape(frame: &Frame) -> Option<(Headers, usize)> {
    let headers = frame.headers().filter(|h| !h.is_fragment)?;
    let len = match headers.protocol {
        SEQUENCED => usize::from(frame.head.get(headers.transport + HEADER_WORDS_AT)? >> 4) * 4,
        DATAGRAMS => 8,
        _ => return None,
    };
    let end = headers.transport + len;
    let whole = len > FLAGS_AT || headers.protocol == DATAGRAMS;
    (whole && end <= frame.head.len()).then_some((headers, end))
}

/// Leaves only the headers in `head` and returns the bytes behind them as one piece.
fn take_payload(frame: &mut Frame, header_len: usize) -> PayRef {
    if frame.head.len() == header_len {
        frame.join();
        return frame.payload.pop().unwrap_or_default();
    }
    frame.flatten();
    PayRef::from(frame.head.split_off(header_len))
}

fn fix_network(packet: &mut Frame, headers: &Headers, index: usize) {
    let len = packet.len() - headers.network;
    let header = &mut packet.head[headers.network..headers.transport];
    if headers.is_v4 {
        header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(index as u16);
        header[4..6].copy_from_slice(&id.to_be_bytes());
        checksum::fill_ipv4(header);
    } else {
        header[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
    }
}

fn fix_transport(packet: &mut Frame, headers: &Headers, offset: usize, first: bool, last: bool) {
    let len = packet.len() - headers.transport;
    let header = &mut packet.head[headers.transport..];
    if headers.protocol == DATAGRAMS {
        header[DATAGRAM_LEN_AT..][..2].copy_from_slice(&(len as u16).to_be_bytes());
        return;
    }
    let field = &mut header[SEQUENCE_AT..SEQUENCE_AT + 4];
    let sequence = u32::from_be_bytes([field[0], field[1], field[2], field[3]]).wrapping_add(offset as u32);
    field.copy_from_slice(&sequence.to_be_bytes());
    if !first {
        header[FLAGS_AT] &= !FIRST_ONLY;
    }
    if !last {
        header[FLAGS_AT] &= !LAST_ONLY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::samples::super_segment;
    use hawser_testing::internet_checksum;

    #[test]
    fn packets_differ_as_a_device_makes_them_differ() {
        let packets = cut(super_segment(&[7; 25], 10));
        let field = |i: usize, at: usize| u16::from_be_bytes([packets[i].head[at], packets[i].head[at + 1]]);
        assert_eq!(packets.len(), 3);
        assert_eq!([0, 1, 2].map(|i| field(i, 2)), [50, 50, 45], "total length");
        assert_eq!([0, 1, 2].map(|i| field(i, 4)), [u16::MAX, 0, 1], "identification");
        let sequence = |i: usize| u32::from_be_bytes(packets[i].head[24..28].try_into().expect("four bytes"));
        assert_eq!([0, 1, 2].map(sequence), [u32::MAX - 9, 0, 10]);
        assert_eq!(
            [0, 1, 2].map(|i: usize| packets[i].head[33]),
            [0xf6, 0x76, 0x7f],
            "flags"
        );
        for packet in packets {
            assert_eq!(internet_checksum(&[&packet.head[..20]]), [0, 0]);
            let mut done = packet;
            done.complete();
            let headers = done.headers().expect("headers");
            let sum = checksum::pseudo_header(&done.head, &headers, done.len() - 20);
            let pseudo = sum.folded();
            let sum = internet_checksum(&[&pseudo, &done.head[20..], done.payload[0].bytes()]);
            assert_eq!(sum, [0, 0]);
        }
    }

    #[test]
    fn the_payload_may_lie_behind_the_headers() {
        let mut frame = super_segment(&[1, 2, 3, 4, 5], 2);
        frame.flatten();
        let pieces: Vec<Vec<u8>> = cut(frame).iter().map(|p| p.payload[0].bytes().to_vec()).collect();
        assert_eq!(pieces, [vec![1, 2], vec![3, 4], vec![5]]);
    }

    #[test]
    fn a_packet_that_cannot_be_segmented_stays_whole() {
        assert_eq!(cut(super_segment(&[7; 10], 10)).len(), 1);
        let mut unknown = super_segment(&[7; 25], 10);
        unknown.head[9] = 253;
        assert_eq!(cut(unknown).len(), 1);
        let mut short = super_segment(&[7; 25], 10);
        short.head[32] = 0xf0;
        assert_eq!(cut(short).len(), 1, "a header longer than what is there");
        let mut tiny = super_segment(&[7; 25], 10);
        tiny.head[32] = 0x10;
        assert_eq!(cut(tiny).len(), 1, "a header of four bytes");
    }
}
