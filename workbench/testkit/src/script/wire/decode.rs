//! Parses packets of the stack, with all checks that a peer could make.

use std::net::{IpAddr, SocketAddr};

use super::{DecodedContent, Tcp, checksum, options, pseudo_header};

/// Parses an IP packet.
pub(crate) fn decode(frame: &[u8]) -> DecodedContent {
    let parsed = match frame.first().map(|byte| byte >> 4) {
        Some(4) => ipv4(frame),
        Some(6) => ipv6(frame),
        _ => Err("neither IPv4 nor IPv6"),
    };
    let ip = match parsed {
        Ok(ip) => ip,
        Err(why) => return DecodedContent::Broken(why),
    };
    if ip.protocol != super::TCP {
        return DecodedContent::Other { from: ip.from, protocol: ip.protocol, len: ip.body.len() };
    }
    tcp(&ip).map_or_else(DecodedContent::Broken, DecodedContent::Tcp)
}

struct Ip<'a> {
    from: IpAddr,
    to: IpAddr,
    tos: u8,
    ttl: u8,
    flow_label: u32,
    protocol: u8,
    body: &'a [u8],
}

fn ipv4(frame: &[u8]) -> Result<Ip<'_>, &'static str> {
    let header_len = usize::from(frame[0] & 15) * 4;
    let header = frame.get(..header_len.max(20)).ok_or("a truncated IPv4 header")?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_len < 20 || total != frame.len() {
        return Err("an IPv4 header with a wrong length");
    }
    if checksum(&[header]) != 0 {
        return Err("a wrong IPv4 checksum");
    }
    let address = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Ok(Ip {
        from: address(12),
        to: address(16),
        tos: header[1],
        ttl: header[8],
        flow_label: 0,
        protocol: header[9],
        body: &frame[header_len..],
    })
}

fn ipv6(frame: &[u8]) -> Result<Ip<'_>, &'static str> {
    let header = frame.get(..40).ok_or("a truncated IPv6 header")?;
    let body = &frame[40..];
    if usize::from(u16::from_be_bytes([header[4], header[5]])) != body.len() {
        return Err("an IPv6 header with a wrong length");
    }
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[at..at + 16]);
        IpAddr::from(bytes)
    };
    let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    Ok(Ip {
        from: address(8),
        to: address(24),
        tos: (first >> 20) as u8,
        ttl: header[7],
        flow_label: first & 0xf_ffff,
        protocol: header[6],
        body,
    })
}

fn tcp(ip: &Ip<'_>) -> Result<Tcp, &'static str> {
    let bytes = ip.body;
    if bytes.len() < 20 {
        return Err("a truncated TCP header");
    }
    if checksum(&[&pseudo_header(ip.from, ip.to, ip.protocol, bytes.len()), bytes]) != 0 {
        return Err("a wrong TCP checksum");
    }
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
    let header_len = usize::from(bytes[12] >> 4) * 4;
    let option_bytes = bytes
        .get(20..header_len)
        .ok_or("a TCP header with a wrong length")?;
    Ok(Tcp {
        from: SocketAddr::new(ip.from, half(0)),
        to: SocketAddr::new(ip.to, half(2)),
        tos: ip.tos,
        ttl: ip.ttl,
        flow_label: ip.flow_label,
        flags: half(12) & 0x1ff,
        seq: word(4),
        ack: word(8),
        window: half(14),
        urgent: half(18),
        options: options::read(option_bytes).ok_or("TCP options that do not fit")?,
        payload: bytes[header_len..].to_vec(),
    })
}
