//! Builds packets of the scripted peer.

use std::net::IpAddr;

use super::{Tcp, checksum, options, pseudo_header, v6};

/// Builds an IP packet with a TCP segment. Returns `None` if it would exceed the length of an IP packet or
/// the room for options.
pub(crate) fn tcp_frame(tcp: &Tcp) -> Option<Vec<u8>> {
    let mut segment = tcp_bytes(tcp)?;
    let pseudo = pseudo_header(tcp.from.ip(), tcp.to.ip(), super::TCP, segment.len());
    let sum = checksum(&[&pseudo, &segment]);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let ip = (tcp.tos, tcp.ttl, tcp.flow_label);
    ip_frame(tcp.from.ip(), tcp.to.ip(), super::TCP, ip, &segment)
}

/// Builds a TCP segment without its checksum.
pub(crate) fn tcp_bytes(tcp: &Tcp) -> Option<Vec<u8>> {
    let options = options::write(&tcp.options);
    if options.len() > 40 {
        return None;
    }
    let mut bytes = Vec::with_capacity(20 + options.len() + tcp.payload.len());
    bytes.extend(tcp.from.port().to_be_bytes());
    bytes.extend(tcp.to.port().to_be_bytes());
    bytes.extend(tcp.seq.to_be_bytes());
    bytes.extend(tcp.ack.to_be_bytes());
    let offset = (5 + options.len() as u16 / 4) << 12;
    bytes.extend((offset | tcp.flags).to_be_bytes());
    bytes.extend(tcp.window.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(tcp.urgent.to_be_bytes());
    bytes.extend(options);
    bytes.extend(&tcp.payload);
    Some(bytes)
}

/// Builds an IP packet with `(tos, ttl, flow label)`. Returns `None` if it would be too long.
pub(crate) fn ip_frame(
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    (tos, ttl, flow_label): (u8, u8, u32),
    body: &[u8],
) -> Option<Vec<u8>> {
    let mut frame = Vec::with_capacity(40 + body.len());
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let len = u16::try_from(20 + body.len()).ok()?;
            frame.extend([0x45, tos]);
            frame.extend(len.to_be_bytes());
            frame.extend([0, 0, 0x40, 0, ttl, protocol, 0, 0]);
            frame.extend(from.octets());
            frame.extend(to.octets());
            let sum = checksum(&[&frame]);
            frame[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            let len = u16::try_from(body.len()).ok()?;
            let first = 6 << 28 | u32::from(tos) << 20 | flow_label & 0xf_ffff;
            frame.extend(first.to_be_bytes());
            frame.extend(len.to_be_bytes());
            frame.extend([protocol, ttl]);
            frame.extend(v6(from));
            frame.extend(v6(to));
        }
    }
    frame.extend(body);
    Some(frame)
}

/// Builds an ICMP error of type and code `kind` from `from` to `to` about the packet `quoted`. The four bytes
/// after the checksum include the next hop's MTU.
pub(crate) fn icmp_frame(
    from: IpAddr,
    to: IpAddr,
    kind: (u8, u8),
    rest: [u8; 4],
    quoted: &[u8],
) -> Option<Vec<u8>> {
    let mut body = vec![kind.0, kind.1, 0, 0];
    body.extend(rest);
    body.extend(quoted);
    let (protocol, sum) = match from {
        IpAddr::V4(_) => (super::ICMP, checksum(&[&body])),
        IpAddr::V6(_) => {
            let pseudo = pseudo_header(from, to, super::ICMPV6, body.len());
            (super::ICMPV6, checksum(&[&pseudo, &body]))
        }
    };
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    ip_frame(from, to, protocol, (0, 255, 0), &body)
}
