//! The network headers that represent a datagram's metadata, in both directions.
//!
//! The engine reads and writes IP packets, which a socket does not provide. This file builds headers for
//! received datagrams, and ICMP errors from the error queue. It parses the headers of outgoing packets.

use hawser_engine::net::{Sum, is_ipv4};

use super::control::{DatagramEnd, Outgoing};

/// The size of the longest headers before a datagram, IPv6's and UDP's, in bytes.
pub(super) const ROOM: usize = 40 + UDP;
/// The size of UDP's header, in bytes.
const UDP: usize = 8;
const V4: usize = 20;
const V6: usize = 40;
/// The protocol numbers of UDP, ICMP and ICMPv6.
const PROTOCOL: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
/// The maximum length that a header can state.
const MAX_LENGTH: usize = 65_535;
/// The hop limit of packets that have passed no router.
const TTL: u8 = 64;
/// The number of bytes of the packet that an error quotes, without its headers.
pub(super) const QUOTE: usize = 512;

/// Both ends of a packet, and the other fields of its network header.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketAddresses {
    pub(super) from: DatagramEnd,
    pub(super) to: DatagramEnd,
    pub(super) tos: u8,
    pub(super) ttl: u8,
}

/// Writes the headers of a datagram of `len` bytes at the end of `room`, and returns their length.
pub(super) fn write(room: &mut [u8; ROOM], flow: &PacketAddresses, len: usize) -> usize {
    let is_v4 = is_ipv4(&flow.to.ip);
    let header = header_len(is_v4);
    let start = ROOM - UDP - header;
    write_ip(&mut room[start..ROOM - UDP], is_v4, flow, (PROTOCOL, UDP + len));
    room[ROOM - UDP..].copy_from_slice(&udp(flow, UDP + len));
    header + UDP
}

fn header_len(is_v4: bool) -> usize {
    if is_v4 { V4 } else { V6 }
}

/// Writes a network header of a family. It states the protocol and the length of its payload.
fn write_ip(out: &mut [u8], is_v4: bool, flow: &PacketAddresses, (protocol, stated): (u8, usize)) {
    let ttl = if flow.ttl == 0 { TTL } else { flow.ttl };
    out.fill(0);
    if is_v4 {
        let length = (V4 + stated).min(MAX_LENGTH) as u16;
        out[0] = 0x45;
        out[1] = flow.tos;
        out[2..4].copy_from_slice(&length.to_be_bytes());
        out[6] = 0x40; // Don't Fragment: the socket asks for that.
        (out[8], out[9]) = (ttl, protocol);
        out[12..16].copy_from_slice(&flow.from.ip[12..]);
        out[16..20].copy_from_slice(&flow.to.ip[12..]);
        let sum = Sum::default().with(out).complement();
        out[10..12].copy_from_slice(&sum);
    } else {
        let length = stated.min(MAX_LENGTH) as u16;
        (out[0], out[1]) = (0x60 | flow.tos >> 4, flow.tos << 4);
        out[4..6].copy_from_slice(&length.to_be_bytes());
        (out[6], out[7]) = (protocol, ttl);
        out[8..24].copy_from_slice(&flow.from.ip);
        out[24..40].copy_from_slice(&flow.to.ip);
    }
}

/// Returns a UDP header. The kernel has verified the checksum; over IPv6 there must be one.
fn udp(flow: &PacketAddresses, len: usize) -> [u8; UDP] {
    let mut header = [0; UDP];
    header[..2].copy_from_slice(&flow.from.port.to_be_bytes());
    header[2..4].copy_from_slice(&flow.to.port.to_be_bytes());
    header[4..6].copy_from_slice(&(len.min(MAX_LENGTH) as u16).to_be_bytes());
    if !is_ipv4(&flow.to.ip) {
        header[6..].copy_from_slice(&[0xff; 2]);
    }
    header
}

/// Parses the headers of an outgoing packet. Returns its metadata and the length of the headers, or `None` if
/// it is not in UDP.
pub(super) fn read(head: &[u8]) -> Option<(Outgoing, usize)> {
    let v4 = |from: usize| -> Option<[u8; 16]> {
        let mut ip = [0; 16];
        ip[10..12].fill(0xff);
        ip[12..].copy_from_slice(head.get(from..from + 4)?);
        Some(ip)
    };
    let v6 = |from: usize| head.get(from..)?.first_chunk().copied();
    let (header, protocol, tos, ttl, local, remote) = match *head.first()? {
        0x45 => (V4, *head.get(9)?, head[1], head[8], v4(12)?, v4(16)?),
        0x60..=0x6f => (
            V6,
            *head.get(6)?,
            head[0] << 4 | head[1] >> 4,
            *head.get(7)?,
            v6(8)?,
            v6(24)?,
        ),
        _ => return None,
    };
    let port = head.get(header + 2..header + UDP)?;
    let outgoing = Outgoing {
        remote: DatagramEnd { ip: remote, port: u16::from_be_bytes(*port.first_chunk()?) },
        local,
        interface: 0,
        tos,
        // The default hop limit of hosts need not be set.
        ttl: if ttl == TTL { 0 } else { ttl },
        segment: 0,
    };
    (protocol == PROTOCOL).then_some((outgoing, header + UDP))
}

/// An ICMP error about one of our datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct IcmpError<'a> {
    /// The host that reports it.
    pub(super) by: [u8; 16],
    /// The datagram's ends.
    pub(super) flow: PacketAddresses,
    pub(super) kind: u8,
    pub(super) code: u8,
    /// The MTU, for a packet that was too big; otherwise 0.
    pub(super) mtu: u32,
    /// The first bytes of the datagram.
    pub(super) quote: &'a [u8],
    /// The length of the datagram, as far as known.
    pub(super) len: usize,
}

/// Appends the packet of an error.
pub(super) fn report(out: &mut Vec<u8>, report: &IcmpError<'_>) {
    let quote = &report.quote[..report.quote.len().min(QUOTE)];
    let is_v4 = is_ipv4(&report.flow.to.ip);
    let header = header_len(is_v4);
    // A router that reports a packet as too big for an MTU has seen that it was bigger.
    let was = (header + UDP + report.len).max(report.mtu as usize + usize::from(report.mtu > 0)) - header;
    let held = UDP + header + UDP + quote.len();
    let (protocol, mtu) = if is_v4 {
        (ICMP, report.mtu.min(MAX_LENGTH as u32))
    } else {
        (ICMP_V6, report.mtu)
    };
    let back = PacketAddresses {
        from: DatagramEnd { ip: report.by, port: 0 },
        to: report.flow.from,
        tos: 0,
        ttl: 0,
    };
    let start = out.len();
    out.resize(start + header + UDP + header, 0);
    let (outer, rest) = out[start..].split_at_mut(header);
    write_ip(outer, is_v4, &back, (protocol, held));
    let (icmp, quoted) = rest.split_at_mut(UDP);
    (icmp[0], icmp[1]) = (report.kind, report.code);
    icmp[4..].copy_from_slice(&mtu.to_be_bytes());
    write_ip(quoted, is_v4, &report.flow, (PROTOCOL, was));
    out.extend(udp(&report.flow, was));
    out.extend(quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(ip: &str, port: u16) -> DatagramEnd {
        DatagramEnd {
            ip: hawser_engine::net::to_bytes(ip.parse().expect("an address")),
            port,
        }
    }

    #[test]
    fn written_headers_are_read_back() {
        for (from, to) in [("10.0.0.1", "127.0.0.9"), ("fd00::1", "::1")] {
            let flow = PacketAddresses { from: end(from, 7), to: end(to, 4791), tos: 0xb9, ttl: 3 };
            let mut room = [0xaa; ROOM];
            let len = write(&mut room, &flow, 1000);
            let (read, header) = read(&room[ROOM - len..]).expect("in UDP");
            assert_eq!(header, len);
            let expected = Outgoing {
                remote: flow.to,
                local: flow.from.ip,
                interface: 0,
                tos: 0xb9,
                ttl: 3,
                segment: 0,
            };
            assert_eq!(read, expected);
        }
    }

    /// RFC 792 and 4443: type, code, MTU, then the packet that caused the error. The local end may be
    /// unknown, without a family.
    #[test]
    fn an_error_quotes_the_packet_that_caused_it() {
        for (local, remote, v4) in [
            ("10.0.0.1", "10.0.0.2", true),
            ("fd00::1", "fd00::2", false),
            ("::", "10.0.0.2", true),
        ] {
            let flow = PacketAddresses { from: end(local, 7), to: end(remote, 4791), tos: 0, ttl: 0 };
            let mut out = vec![0x55];
            let error = IcmpError {
                by: end(remote, 0).ip,
                flow,
                kind: 3,
                code: 4,
                mtu: 1300,
                quote: &[9; 600],
                len: 600,
            };
            report(&mut out, &error);
            let header = header_len(v4);
            let (icmp, quoted) = out[1 + header..].split_at(UDP);
            assert_eq!(
                (icmp[0], icmp[1], &icmp[4..]),
                (3, 4, &1300_u32.to_be_bytes()[..])
            );
            assert_eq!(quoted.len(), header + UDP + QUOTE);
            let (stated, expected) = match v4 {
                true => (u16::from_be_bytes([quoted[2], quoted[3]]), 1301),
                false => (u16::from_be_bytes([quoted[4], quoted[5]]), 1301 - V6 as u16),
            };
            assert_eq!(stated, expected, "longer than the MTU");
            assert_eq!(quoted[header..header + 4], [0, 7, 0x12, 0xb7]);
            let length = match v4 {
                true => u16::from_be_bytes([out[3], out[4]]).into(),
                false => usize::from(u16::from_be_bytes([out[5], out[6]])) + V6,
            };
            assert_eq!(length, out.len() - 1);
        }
    }

    #[test]
    fn packets_of_other_protocols_are_not_read() {
        let flow = PacketAddresses { from: end("10.0.0.1", 7), to: end("10.0.0.2", 4791), tos: 0, ttl: 64 };
        let mut room = [0; ROOM];
        let len = write(&mut room, &flow, 0);
        let whole = &mut room[ROOM - len..];
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), None, "{cut}");
        }
        whole[9] = 6;
        assert_eq!(read(whole), None);
    }
}
