//! Finds the parts of a packet that filters and translators read.
//!
//! Invariant: every offset that it returns lies inside the frame.

/// Numbers of IP protocols (IANA).
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP_V6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

/// The bytes of an IPv4 header without options.
pub(crate) const IPV4_HEADER: usize = 20;

/// The largest number of IPv6 extension headers that are followed.
const EXTENSIONS: usize = 8;

/// An IP packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The offset of the IP header.
    pub(crate) network: usize,
    /// The offset of the transport header, which a later fragment lacks.
    pub(crate) transport: Option<usize>,
    /// The offset of the packet's end. Bytes after it are padding of the link.
    pub(crate) end: usize,
    /// True for IPv4, false for IPv6.
    pub(crate) is_v4: bool,
    /// The IP protocol after the extension headers of IPv6.
    pub(crate) protocol: u8,
    /// True for any fragment, including the first.
    pub(crate) is_fragment: bool,
}

impl Packet {
    /// Finds the packet after the Ethernet header. Returns `None` if it is not IP, or is truncated.
    pub(crate) fn find(frame: &[u8]) -> Option<Packet> {
        match frame.get(12..14)? {
            [0x08, 0x00] => find_v4(frame, 14),
            [0x86, 0xdd] => find_v6(frame, 14),
            _ => None,
        }
    }

    /// Returns source and destination port of protocols that have them at the start of their header.
    pub(crate) fn ports(&self, frame: &[u8]) -> Option<(u16, u16)> {
        let at = self
            .transport
            .filter(|_| matches!(self.protocol, TCP | UDP | SCTP))?;
        let bytes: &[u8; 4] = frame.get(at..self.end)?.first_chunk()?;
        Some((
            u16::from_be_bytes([bytes[0], bytes[1]]),
            u16::from_be_bytes([bytes[2], bytes[3]]),
        ))
    }
}

/// Finds an IPv4 packet that starts at an offset.
pub(crate) fn find_v4(frame: &[u8], network: usize) -> Option<Packet> {
    let bytes = frame.get(network..)?;
    let header: &[u8; IPV4_HEADER] = bytes.first_chunk()?;
    let header_len = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < 20 || total < header_len || bytes.len() < total {
        return None;
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let is_first = fragment & 0x1fff == 0;
    Some(Packet {
        network,
        transport: is_first.then_some(network + header_len),
        end: network + total,
        is_v4: true,
        protocol: header[9],
        is_fragment: fragment != 0,
    })
}

fn find_v6(frame: &[u8], network: usize) -> Option<Packet> {
    let bytes = frame.get(network..)?;
    let header: &[u8; 40] = bytes.first_chunk()?;
    let total = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || bytes.len() < total {
        return None;
    }
    let (mut protocol, mut at, mut is_fragment, mut is_first) = (header[6], 40, false, true);
    for _ in 0..EXTENSIONS {
        // Hop-by-hop, routing and destination options; the fragment header (RFC 8200, section 4).
        if !matches!(protocol, 0 | 43 | 44 | 60) {
            break;
        }
        let extension: &[u8; 8] = bytes.get(at..total)?.first_chunk()?;
        let len = if protocol == 44 {
            is_fragment = true;
            is_first = u16::from_be_bytes([extension[2], extension[3]]) >> 3 == 0;
            8
        } else {
            8 + 8 * usize::from(extension[1])
        };
        protocol = extension[0];
        at += len;
        if at > total {
            return None;
        }
        if !is_first {
            break;
        }
    }
    let transport = is_first.then_some(network + at);
    Some(Packet {
        network,
        transport,
        end: network + total,
        is_v4: false,
        protocol,
        is_fragment,
    })
}
