//! The header before each frame to and from the kernel: `struct virtio_net_hdr` (virtio 1.2, 5.1.6), ten
//! bytes in the machine's byte order.

use hawser_engine::wire::{Csum, TxFrame};

/// The size of the header without the count of merged buffers, in bytes.
pub(crate) const HEADER: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// A flag in addition to the kinds above.
const GSO_ECN: u8 = 0x80;
/// The offset of the checksum in the header of protocol 6, whose flags are in byte 13.
const SEQUENCED_SUM_AT: u16 = 16;
/// CWR among those flags.
const CWR: u8 = 0x80;

/// Reads the header of a received frame: the state of the checksum, and the payload bytes in each packet of a
/// super-segment.
///
/// An incomplete checksum never left this machine, so that it is trusted.
pub(crate) fn read(header: &[u8; HEADER]) -> (Csum, u16) {
    let csum = match header[0] & (NEEDS_CSUM | DATA_VALID) {
        0 => Csum::Unverified,
        _ => Csum::Complete,
    };
    let is_single = header[1] & !GSO_ECN == GSO_NONE;
    let seg_size = if is_single {
        0
    } else {
        u16::from_ne_bytes([header[4], header[5]])
    };
    (csum, seg_size)
}

/// Returns the header for a frame to be sent, whose network header starts at `network`. Returns `None` if no
/// device can fulfil the frame's requests.
pub(crate) fn write(frame: &TxFrame, network: usize) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    if let Some((start, field)) = frame.csum {
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&field.checked_sub(start)?.to_ne_bytes());
    }
    let payload: usize = frame.payload.iter().map(|p| p.len()).sum();
    if frame.gso_size == 0 || payload <= usize::from(frame.gso_size) {
        return Some(header);
    }
    header[1] = gso_kind(frame.head.get(network..)?)? | ecn_flag(frame);
    header[2..4].copy_from_slice(&u16::try_from(frame.head.len()).ok()?.to_ne_bytes());
    header[4..6].copy_from_slice(&frame.gso_size.to_ne_bytes());
    // Devices segment only packets for which they compute checksums.
    frame.csum.map(|_| header)
}

/// Returns the flag that makes the device keep CWR only in the first packet (RFC 3168, 6.1.2), if CWR is set.
fn ecn_flag(frame: &TxFrame) -> u8 {
    let is_sequenced = |(start, field): &(u16, u16)| field - start == SEQUENCED_SUM_AT;
    let flags = frame
        .csum
        .filter(is_sequenced)
        .and_then(|(start, _)| frame.head.get(usize::from(start) + 13));
    if flags.is_some_and(|flags| flags & CWR != 0) {
        GSO_ECN
    } else {
        0
    }
}

/// Returns the kernel's type of super-segments for the protocols that it can segment, 6 and 17.
fn gso_kind(packet: &[u8]) -> Option<u8> {
    match (packet.first()? >> 4, packet.get(9)?, packet.get(6)?) {
        (4, 6, _) => Some(GSO_TCPV4),
        (6, _, 6) => Some(GSO_TCPV6),
        (4, 17, _) | (6, _, 17) => Some(GSO_UDP_L4),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_engine::wire::PayRef;

    fn frame(ip: &[u8], payload: usize) -> TxFrame {
        let mut head = vec![0; 54];
        head[14..14 + ip.len()].copy_from_slice(ip);
        let payload = vec![PayRef::from(vec![0; payload])];
        TxFrame { head, payload, csum: Some((34, 50)), gso_size: 1448, prio: 0, cause: 0 }
    }

    /// The layout is that of `struct virtio_net_hdr` in <linux/virtio_net.h>: flags, gso_type, hdr_len,
    /// gso_size, csum_start, csum_offset.
    #[test]
    fn super_segments_are_described() {
        let v4 = frame(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6], 4000);
        let mut expected = vec![1, 1];
        [54u16, 1448, 34, 16]
            .iter()
            .for_each(|n| expected.extend(n.to_ne_bytes()));
        assert_eq!(write(&v4, 14).unwrap().to_vec(), expected);
        let udp6 = frame(&[0x60, 0, 0, 0, 0, 0, 17, 64, 0, 0], 4000);
        assert_eq!(write(&udp6, 14).unwrap()[1], 5);
        assert_eq!(
            write(&frame(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 132], 4000), 14),
            None
        );
        let mut reduced = frame(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6], 4000);
        reduced.head[34 + 13] = 0x90;
        assert_eq!(
            write(&reduced, 14).unwrap()[1],
            0x81,
            "CWR stays on the first packet"
        );
        // A frame of at most one packet is not a super-segment.
        assert_eq!(write(&frame(&[0x45], 1448), 14).unwrap()[1], 0);
    }

    #[test]
    fn offload_headers_yield_checksum_state_and_segment_size() {
        let header = |flags, kind, size: u16| {
            let [a, b] = size.to_ne_bytes();
            [flags, kind, 0, 0, a, b, 0, 0, 0, 0]
        };
        assert_eq!(read(&header(0, 0, 77)), (Csum::Unverified, 0));
        assert_eq!(read(&header(1, 1, 1448)), (Csum::Complete, 1448));
        assert_eq!(read(&header(2, 0x84, 1428)), (Csum::Complete, 1428));
    }
}
