//! A frame in transit: owned headers, payload by reference.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hawser_engine::net::Sum;
use hawser_engine::wire::{Csum, Medium, PayRef, RxFrame, TxFrame};

use crate::checksum;

/// The number of transport header bytes that a packet's summary shows.
const SHOWN: usize = 12;

/// A frame between two wires.
///
/// All headers are in `head`; the payload stays where the sender put it until some byte has to change.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The first bytes; all headers are here.
    pub head: Vec<u8>,
    /// The remaining bytes, in pieces.
    pub payload: Vec<PayRef>,
    /// A checksum that the sender left to be completed: the offset at which summing starts, and the offset of
    /// the field. While it is set, the receiver need not verify the checksum, because the bytes never left
    /// memory.
    pub partial: Option<(u16, u16)>,
    /// The state of the checksum if `partial` is not set.
    pub csum: Csum,
    /// For a super-segment, the number of payload bytes in each packet but the last; 0 for a single packet.
    pub seg_size: u16,
    /// The link-layer priority.
    pub prio: u8,
    /// The length of the link-layer header at the front of `head`, in bytes.
    pub link_header: u8,
    /// The instruction that caused the frame: see [`TxFrame::cause`].
    pub cause: u32,
    /// Its number among the frames that the nodes of a world have sent, and in a capture. Numbers count from
    /// 1; 0 means that the frame has not been sent.
    pub number: u64,
    /// True if a switch has returned it to its sender.
    pub returned: bool,
    /// The port on which it reached a switch that counts arriving frames ([`crate::link::pause`]); 0 if it
    /// reached none.
    pub ingress: u16,
}

impl Default for Frame {
    /// Returns an empty frame.
    fn default() -> Frame {
        Frame {
            head: Vec::new(),
            payload: Vec::new(),
            partial: None,
            csum: Csum::Complete,
            seg_size: 0,
            prio: 0,
            link_header: 0,
            cause: 0,
            number: 0,
            returned: false,
            ingress: 0,
        }
    }
}

impl Frame {
    /// Returns the frame as the sender's stack produced it. The receiver verifies a checksum that the stack
    /// completed itself.
    #[must_use]
    pub fn sent(frame: &TxFrame, medium: Medium) -> Frame {
        Frame {
            head: frame.head.clone(),
            payload: frame.payload.clone(),
            partial: frame.csum,
            csum: Csum::Unverified,
            seg_size: frame.gso_size,
            prio: frame.prio,
            link_header: link_header(medium),
            cause: frame.cause,
            number: 0,
            returned: false,
            ingress: 0,
        }
    }

    /// Returns a copy of a frame that a wire received.
    #[must_use]
    pub fn received(frame: &RxFrame<'_>, medium: Medium) -> Frame {
        let tail = (!frame.tail.is_empty()).then(|| PayRef::from(frame.tail.to_vec()));
        Frame {
            head: frame.head.to_vec(),
            payload: tail.into_iter().collect(),
            partial: None,
            csum: frame.csum,
            seg_size: frame.seg_size,
            prio: 0,
            link_header: link_header(medium),
            cause: 0,
            number: 0,
            returned: false,
            ingress: 0,
        }
    }

    /// Converts the frame for transmission on a real wire.
    #[must_use]
    pub fn into_tx(mut self) -> TxFrame {
        if self.partial.is_none() {
            self.complete();
        }
        TxFrame {
            head: self.head,
            payload: self.payload,
            csum: self.partial,
            gso_size: self.seg_size,
            prio: self.prio,
            cause: self.cause,
        }
    }

    /// Returns the length in bytes, including the link-layer header.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.iter().map(PayRef::len).sum::<usize>()
    }

    /// Returns true for a frame without bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how the receiver is to treat the checksum.
    #[must_use]
    pub fn standing(&self) -> Csum {
        if self.partial.is_some() {
            Csum::Complete
        } else {
            self.csum
        }
    }

    /// Returns the destination address of its IP packet, if it carries one.
    #[must_use]
    pub fn destination(&self) -> Option<IpAddr> {
        let headers = self.headers()?;
        let packet = &self.head[headers.network..];
        if headers.is_v4 {
            let bytes: [u8; 4] = packet[16..20].try_into().ok()?;
            Some(Ipv4Addr::from(bytes).into())
        } else {
            let bytes: [u8; 16] = packet[24..40].try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
    }

    /// Returns its precedence, 0 to 7: the top three bits of IPv4's TOS octet or IPv6's traffic class. These
    /// are the class selectors of DSCP (RFC 2474, 4.2.2). It is 0 if the frame carries no IP packet.
    #[must_use]
    pub fn precedence(&self) -> u8 {
        let Some(headers) = self.headers() else {
            return 0;
        };
        let packet = &self.head[headers.network..];
        if headers.is_v4 {
            packet[1] >> 5
        } else {
            (packet[0] & 0xf) >> 1
        }
    }

    /// Feeds a hash with the fields that packets of one flow have in common. These are the addresses, the
    /// protocol, the flow label of IPv6 (RFC 6438), and the ports of protocols that begin with them.
    pub fn flow(&self, hasher: &mut impl Hasher) {
        let Some(headers) = self.headers() else {
            return;
        };
        let packet = &self.head[headers.network..];
        if headers.is_v4 {
            hasher.write(&packet[12..20]);
        } else {
            hasher.write(&packet[8..40]);
            hasher.write(&[packet[1] & 0xf, packet[2], packet[3]]);
        }
        hasher.write(&[headers.protocol]);
        let ports = self.head.get(headers.transport..headers.transport + 4);
        if let Some(ports) = ports.filter(|_| !headers.is_fragment && has_ports(headers.protocol)) {
            hasher.write(ports);
        }
    }

    /// Returns true if the IP header gives a length beyond the bytes present, which means that a node has cut
    /// the packet.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        let Some(headers) = self.headers() else {
            return false;
        };
        let packet = &self.head[headers.network..];
        let number = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        let stated = if headers.is_v4 { number(2) } else { 40 + number(4) };
        stated > self.len() - headers.network
    }

    /// Cuts the packet to this many bytes. Its headers stay unchanged, so that they still give the original
    /// length.
    pub fn cut(&mut self, bytes: usize) {
        let bytes = bytes + usize::from(self.link_header);
        let mut left = bytes.saturating_sub(self.head.len());
        self.head.truncate(bytes);
        self.payload.retain_mut(|piece| {
            if piece.len() > left {
                *piece = piece.slice(0, left);
            }
            left -= piece.len();
            !piece.is_empty()
        });
    }

    /// Exchanges the addresses of its packet, so that it returns to its sender. The exchange does not change
    /// any checksum.
    pub fn turn_back(&mut self) {
        let Some(headers) = self.headers() else {
            return;
        };
        let packet = &mut self.head[headers.network..];
        let (from, to) = if headers.is_v4 { (12, 16) } else { (8, 24) };
        let (front, back) = packet.split_at_mut(to);
        front[from..].swap_with_slice(&mut back[..to - from]);
        self.returned = true;
    }

    /// Joins the payload, so that it has at most one piece.
    pub fn join(&mut self) {
        if self.payload.len() > 1 {
            let bytes = self
                .payload
                .iter()
                .flat_map(|p| p.bytes())
                .copied()
                .collect::<Vec<u8>>();
            self.payload = vec![PayRef::from(bytes)];
        }
    }

    /// Moves all bytes into `head`, so that any of them can be changed.
    pub fn flatten(&mut self) {
        for part in std::mem::take(&mut self.payload) {
            self.head.extend_from_slice(part.bytes());
        }
    }

    /// Makes all checksums correct, as they would be on a real wire. It completes a partial checksum, and,
    /// for an unverified frame from memory, the checksum of a known protocol.
    pub fn complete(&mut self) {
        match self.partial.take() {
            Some((start, field)) => self.complete_partial(usize::from(start), usize::from(field)),
            None if self.csum == Csum::Complete => self.complete_known(),
            None => {}
        }
        self.csum = Csum::Unverified;
    }

    /// Sums from `start` on and adds the sum of the pseudo-header, which the field already holds.
    fn complete_partial(&mut self, start: usize, field: usize) {
        if start > self.head.len() || field + 2 > self.head.len() {
            return;
        }
        let sum = self.with_payload(Sum::default().with(&self.head[start..]));
        let protocol = self.headers().map_or(0, |h| h.protocol);
        checksum::write_field(&mut self.head[field..field + 2], sum, protocol);
    }

    /// Computes the checksum for protocols whose field devices know.
    fn complete_known(&mut self) {
        let Some(headers) = self.headers() else { return };
        let Some(offset) = checksum::field_offset(headers.protocol) else {
            return;
        };
        let field = headers.transport + offset;
        if field + 2 > self.head.len() || headers.is_fragment {
            return;
        }
        self.head[field..field + 2].fill(0);
        let transport_len = self.len() - headers.transport;
        let sum = checksum::pseudo_header(&self.head, &headers, transport_len);
        let sum = self.with_payload(sum.with(&self.head[headers.transport..]));
        checksum::write_field(&mut self.head[field..field + 2], sum, headers.protocol);
    }

    fn with_payload(&self, sum: Sum) -> Sum {
        self.payload
            .iter()
            .fold(sum, |sum, piece| sum.with(piece.bytes()))
    }

    /// Finds its headers. Returns `None` if it is not an IP packet or if a header is incomplete.
    #[must_use]
    pub fn headers(&self) -> Option<Headers> {
        Headers::find(&self.head, usize::from(self.link_header))
    }

    /// Summarizes the packet by its addresses and first bytes: `10.0.0.1 -> 10.0.0.2, protocol 253, 60 bytes:
    /// c0001b59…`.
    #[must_use]
    pub fn summary(&self) -> String {
        let Some(headers) = self.headers() else {
            return format!("{} bytes, no IP packet", self.len());
        };
        let address = |from: usize, len: usize| {
            let bytes = self
                .head
                .get(headers.network + from..headers.network + from + len)
                .unwrap_or_default();
            match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
                (Ok(v4), _) => IpAddr::from(v4).to_string(),
                (_, Ok(v6)) => IpAddr::from(v6).to_string(),
                _ => "?".to_owned(),
            }
        };
        let (from, to) = match headers.is_v4 {
            true => (address(12, 4), address(16, 4)),
            false => (address(8, 16), address(24, 16)),
        };
        let start = self
            .head
            .get(headers.transport..)
            .unwrap_or_default()
            .iter()
            .take(SHOWN);
        let start: String = start.map(|byte| format!("{byte:02x}")).collect();
        format!(
            "{from} -> {to}, protocol {}, {} bytes: {start}",
            headers.protocol,
            self.len()
        )
    }
}

/// Returns true for IP protocols that network devices know to begin with two 2-byte ports.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

fn link_header(medium: Medium) -> u8 {
    match medium {
        Medium::Ip | Medium::Socket => 0,
        Medium::Ethernet(_) => 14,
    }
}

/// The offsets of an IP packet's headers, from the start of the frame. Extension headers of IPv6 are not
/// followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The offset of the IP header.
    pub network: usize,
    /// The offset of the transport header.
    pub transport: usize,
    /// True for IPv4, false for IPv6.
    pub is_v4: bool,
    /// The IP protocol number, or IPv6's next header.
    pub protocol: u8,
    /// True for a fragment of IPv4.
    pub is_fragment: bool,
}

impl Headers {
    /// Finds the headers behind `link` bytes of link-layer header.
    #[must_use]
    pub fn find(frame: &[u8], link: usize) -> Option<Headers> {
        if link == 14 && !matches!(frame.get(12..14)?, [0x08, 0x00] | [0x86, 0xdd]) {
            return None;
        }
        let packet = frame.get(link..)?;
        let first = *packet.first()?;
        let (len, is_v4, protocol, is_fragment) = match first >> 4 {
            4 if packet.len() >= 20 => {
                let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
                (usize::from(first & 15) * 4, true, packet[9], fragment)
            }
            6 if packet.len() >= 40 => (40, false, packet[6], false),
            _ => return None,
        };
        let whole = len >= 20 && packet.len() >= len;
        whole.then_some(Headers { network: link, transport: link + len, is_v4, protocol, is_fragment })
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Packets for tests.

    use super::*;

    /// Returns an IPv4 packet with this protocol and payload. Its 8-byte transport header has a partial
    /// checksum at offset 6.
    pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Frame {
        let total = 28 + payload.len();
        let mut head = vec![0u8; 28];
        head[0] = 0x45;
        head[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        head[8] = 64;
        head[9] = protocol;
        head[12..16].copy_from_slice(&[10, 0, 0, 1]);
        head[16..20].copy_from_slice(&[10, 0, 0, 2]);
        checksum::fill_ipv4(&mut head[..20]);
        head[24..26].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        let headers = Headers::find(&head, 0).expect("a whole header");
        let pseudo = checksum::pseudo_header(&head, &headers, 8 + payload.len()).folded();
        head[26..28].copy_from_slice(&pseudo);
        let payload = if payload.is_empty() {
            vec![]
        } else {
            vec![PayRef::from(payload.to_vec())]
        };
        Frame {
            head,
            payload,
            partial: Some((20, 26)),
            csum: Csum::Unverified,
            seg_size: 0,
            prio: 0,
            link_header: 0,
            cause: 0,
            number: 0,
            returned: false,
            ingress: 0,
        }
    }

    /// Returns a super-segment of protocol 6 over IPv4, with a sequence number near the wrap and all flags
    /// set.
    pub(crate) fn super_segment(payload: &[u8], size: u16) -> Frame {
        let mut head = vec![0u8; 40];
        head[0] = 0x45;
        head[4..6].copy_from_slice(&u16::MAX.to_be_bytes());
        head[9] = 6;
        head[24..28].copy_from_slice(&(u32::MAX - 9).to_be_bytes());
        head[32] = 0x50;
        head[33] = 0xff;
        Frame {
            head,
            payload: vec![PayRef::from(payload.to_vec())],
            partial: Some((20, 36)),
            csum: Csum::Unverified,
            seg_size: size,
            prio: 0,
            link_header: 0,
            cause: 0,
            number: 0,
            returned: false,
            ingress: 0,
        }
    }

    /// Returns a frame of `len` bytes of no known protocol.
    pub(crate) fn plain(len: usize) -> Frame {
        Frame {
            head: vec![0; len],
            payload: vec![],
            partial: None,
            csum: Csum::Complete,
            seg_size: 0,
            prio: 0,
            link_header: 0,
            cause: 0,
            number: 0,
            returned: false,
            ingress: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a packet: if it is correct, its sum with the pseudo-header is all ones (RFC 1071, section 1).
    fn verifies(frame: &Frame) -> bool {
        let headers = frame.headers().unwrap();
        let sum = checksum::pseudo_header(&frame.head, &headers, frame.len() - headers.transport);
        frame
            .with_payload(sum.with(&frame.head[headers.transport..]))
            .is_valid()
    }

    #[test]
    fn completing_a_frame_fills_its_checksum() {
        for payload in [&b""[..], b"x", b"some payload"] {
            let mut frame = samples::ipv4(17, payload);
            assert!(!verifies(&frame));
            assert_eq!(frame.standing(), Csum::Complete);
            frame.complete();
            assert!(verifies(&frame));
            assert_eq!(frame.standing(), Csum::Unverified);
        }
    }

    #[test]
    fn completing_a_trusted_packet_computes_its_checksum() {
        let mut frame = samples::ipv4(17, b"trusted");
        frame.partial = None;
        frame.csum = Csum::Complete;
        frame.complete();
        assert!(verifies(&frame));
    }

    #[test]
    fn joining_and_flattening_keep_the_bytes() {
        let mut frame = samples::ipv4(253, b"one ");
        frame.payload.push(PayRef::from(b"two".to_vec()));
        let mut joined = frame.clone();
        joined.join();
        assert_eq!(joined.payload.len(), 1);
        assert_eq!(joined.payload[0].bytes(), b"one two");
        frame.flatten();
        assert_eq!(&frame.head[28..], b"one two");
        assert_eq!(frame.len(), joined.len());
    }

    #[test]
    fn broken_headers_are_not_found() {
        assert_eq!(Headers::find(&[], 0), None);
        assert_eq!(Headers::find(&[0x45; 19], 0), None);
        assert_eq!(Headers::find(&[0x4f; 40], 0), None, "60 bytes of header in 40");
        assert_eq!(Headers::find(&[0x41; 40], 0), None, "a header of 4 bytes");
        assert_eq!(Headers::find(&[0x60; 39], 0), None);
        assert_eq!(
            Headers::find(&[0x45; 40], 14),
            None,
            "no IP in this Ethernet frame"
        );
    }
}
