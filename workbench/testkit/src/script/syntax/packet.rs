//! Packets: `< S 0:0(0) win 65535 <mss 1460>`, `> icmp …`, `< udp (100)`.

use super::options::options;
use super::script::Defines;
use super::text::{ScriptParse, TokenCursor};
use super::tree::{
    Ecn, FLAG_LETTERS, Icmp, IpFields, IpPacket, Numbering, PacketBody, Ports, Quoted, Segment,
};

/// Parses a packet after its direction.
pub(super) fn packet(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<IpPacket> {
    let ip = ip_fields(cursor)?;
    let body = match cursor.peek_word() {
        "udp" => {
            cursor.word();
            let ports = ports(cursor)?;
            PacketBody::Udp(ports, length(cursor)?)
        }
        "icmp" => {
            cursor.word();
            PacketBody::Icmp(icmp(cursor, defines)?)
        }
        "gre" | "mpls" | "ipv4" | "ipv6" | "encap" => PacketBody::Encapsulated(cursor.line().to_owned()),
        _ => {
            let segment = segment(cursor, defines)?;
            match udp_around(cursor)? {
                Some((from, to)) => PacketBody::Encapsulated(format!("TCP in UDP, /udp({from} > {to})")),
                None => PacketBody::Tcp(segment),
            }
        }
    };
    Ok(IpPacket { ip, body })
}

/// Parses `[ect0]` and `(tos 0x10, flowlabel 0x1)`.
fn ip_fields(cursor: &mut TokenCursor<'_>) -> ScriptParse<IpFields> {
    let mut fields = IpFields::default();
    let end = match () {
        () if cursor.take("[") => "]",
        () if cursor.take("(") => ")",
        () => return Ok(fields),
    };
    loop {
        cursor.skip_blank();
        let before = cursor.clone();
        match cursor.word() {
            "noecn" => fields.ecn = Some(Ecn::None),
            "ect0" => fields.ecn = Some(Ecn::Ect0),
            "ect1" => fields.ecn = Some(Ecn::Ect1),
            "ect01" => fields.ecn = Some(Ecn::Ect01),
            "ce" => fields.ecn = Some(Ecn::Ce),
            "tos" | "class" => fields.tos = Some(cursor.number("a TOS byte")?),
            "ttl" | "hlim" => fields.ttl = Some(cursor.number("a time to live")?),
            "flowlabel" => fields.flow_label = Some(cursor.number("a flow label")?),
            _ => {
                return before.expected(
                    "a field of the IP header",
                    "noecn, ect0, ect1, ect01, ce, tos or class, ttl or hlim, or flowlabel",
                );
            }
        }
        if !cursor.take(",") {
            cursor.expect(end, "")?;
            return Ok(fields);
        }
    }
}

/// Parses `8080 > 1234`, if present.
fn ports(cursor: &mut TokenCursor<'_>) -> ScriptParse<Ports> {
    let mut ahead = cursor.clone();
    let is_number = ahead.peek_word().chars().all(|c| c.is_ascii_digit()) && !ahead.word().is_empty();
    if !is_number || !ahead.sees(">") {
        return Ok(None);
    }
    let from = cursor.number("a port")?;
    cursor.expect(">", "")?;
    Ok(Some((from, cursor.number("a port")?)))
}

/// Parses `(100)`.
fn length(cursor: &mut TokenCursor<'_>) -> ScriptParse<u16> {
    cursor.expect("(", "write a length in parentheses: (1000)")?;
    let len = cursor.number("a length")?;
    cursor.expect(")", "")?;
    Ok(len)
}

fn segment(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<Segment> {
    let ports = ports(cursor)?;
    let flags = flags(cursor)?;
    let (seq, numbering, len) = if cursor.take("...") {
        (0, Numbering::Any, length(cursor)?)
    } else {
        let (seq, len) = sequence(cursor)?;
        (
            seq,
            if cursor.take("!") {
                Numbering::Wire
            } else {
                Numbering::FromSyn
            },
            len,
        )
    };
    let (mut ack, mut window, mut urgent) = (None, None, None);
    loop {
        if cursor.take_word("ack") {
            ack = Some(cursor.number("an acknowledgement number")?);
        } else if cursor.take_word("win") {
            window = Some(cursor.number("a window")?);
        } else if cursor.take_word("urg") {
            urgent = Some(cursor.number("an urgent pointer")?);
        } else {
            break;
        }
    }
    let options = options(cursor, defines)?;
    Ok(Segment { ports, flags, seq, numbering, len, ack, window, urgent, options })
}

/// Parses `/udp(9899 > 9899)` after a segment: the ports of the UDP datagram around it.
fn udp_around(cursor: &mut TokenCursor<'_>) -> ScriptParse<Ports> {
    if !cursor.take("/") {
        return Ok(None);
    }
    const HINT: &str = "a segment in UDP is written < S 0:0(0)/udp(1000 > 2000)";
    if !cursor.take_word("udp") {
        return cursor.expected("`udp`", HINT);
    }
    cursor.expect("(", HINT)?;
    let found = ports(cursor)?;
    if found.is_none() {
        return cursor.expected("two ports", HINT);
    }
    cursor.expect(")", HINT)?;
    Ok(found)
}

fn flags(cursor: &mut TokenCursor<'_>) -> ScriptParse<u16> {
    const HINT: &str = "flags are letters of FSRPUEWA and `.` for ACK, or - for none";
    cursor.skip_blank();
    let before = cursor.clone();
    let letters = cursor.run(|c| !c.is_whitespace());
    if letters == "-" {
        return Ok(0);
    }
    if letters.is_empty() {
        return before.expected("flags", HINT);
    }
    let mut flags = 0;
    for letter in letters.chars() {
        match (FLAG_LETTERS.iter().position(|l| *l == letter), letter.to_digit(8)) {
            (Some(bit), _) => flags |= 1 << bit,
            // The ACE field (RFC 9768, 3.2.2): AE, CWR and ECE as a number.
            (None, Some(ace)) => {
                flags |= (ace as u16 & 1) << 6 | (ace as u16 >> 1 & 1) << 7 | (ace as u16 >> 2) << 8;
            }
            (None, None) => return before.error(format!("`{letter}` is not a flag"), HINT),
        }
    }
    Ok(flags)
}

/// Parses `1:1001(1000)`.
fn sequence(cursor: &mut TokenCursor<'_>) -> ScriptParse<(u32, u16)> {
    const HINT: &str = "sequence numbers are written first:last(length): 1:1001(1000)";
    cursor.skip_blank();
    let before = cursor.clone();
    if !cursor.peek_word().starts_with(|c: char| c.is_ascii_digit()) {
        return cursor.expected("a sequence number", HINT);
    }
    let seq: u32 = cursor.number("a sequence number")?;
    cursor.expect(":", HINT)?;
    let end: u32 = cursor.number("a sequence number")?;
    let len = length(cursor)?;
    let right = seq.wrapping_add(u32::from(len));
    if right != end {
        return before.error(
            format!("{seq}:{end} are not {len} bytes"),
            &format!("write {seq}:{right}({len}); SYN and FIN do not count"),
        );
    }
    Ok((seq, len))
}

fn icmp(cursor: &mut TokenCursor<'_>, defines: &Defines) -> ScriptParse<Icmp> {
    let kind = cursor.word().to_owned();
    if kind.is_empty() {
        return cursor.expected(
            "the type of an ICMP message",
            "unreachable, packet_too_big, time_exceeded, …",
        );
    }
    let (mut code, mut mtu, mut id) = (None, None, None);
    loop {
        match cursor.peek_word() {
            "mtu" => {
                cursor.word();
                mtu = Some(cursor.number("an MTU")?);
            }
            "id" => {
                cursor.word();
                id = Some(cursor.number("an identifier")?);
            }
            word if code.is_none() && word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                cursor.word();
                code = Some(defines.get(word).map_or(word, String::as_str).to_owned());
            }
            _ => break,
        }
    }
    let quoted = if cursor.take("[") {
        quoted(cursor)?
    } else {
        Quoted::Unsaid
    };
    Ok(Icmp { kind, code, mtu, id, quoted })
}

fn quoted(cursor: &mut TokenCursor<'_>) -> ScriptParse<Quoted> {
    let quoted = if cursor.take_word("udp") {
        Quoted::Udp(length(cursor)?)
    } else if cursor.take_word("raw") {
        Quoted::Raw(length(cursor)?)
    } else {
        let (seq, len) = sequence(cursor)?;
        udp_around(cursor)?.map_or(Quoted::Tcp(seq, len), |(from, to)| Quoted::TcpInUdp(from, to))
    };
    cursor.expect("]", "")?;
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    use super::super::text::ScriptPosition;
    use super::super::tree::{ACK, PSH, SYN, SegmentOptions, TcpOption};
    use super::*;

    fn read(text: &str) -> IpPacket {
        let defines = Defines::from([("COOKIE".to_owned(), "a1b2".to_owned())]);
        packet(
            &mut TokenCursor::new(text, ScriptPosition { line: 1, column: 1 }),
            &defines,
        )
        .expect(text)
    }

    #[test]
    fn segments_are_parsed() {
        let PacketBody::Tcp(syn) =
            read("[ect0] SEW 0:0(0) win 5792 <mss 1460,sackOK,TS val 7 ecr 9,nop,wscale 2>").body
        else {
            panic!("a segment")
        };
        assert_eq!(syn.flags, SYN | 0xc0);
        let want = [
            TcpOption::Mss(1460),
            TcpOption::SackOk,
            TcpOption::Timestamp { val: 7, ecr: 9 },
            TcpOption::Nop,
            TcpOption::Wscale(2),
        ];
        assert_eq!(syn.options, SegmentOptions::List(want.to_vec()));

        let PacketBody::Tcp(data) = read("80 > 1234 P. 4294967295:4(5) ack 1 urg 3 <...>").body else {
            panic!("a segment")
        };
        assert_eq!(
            (data.ports, data.flags, data.len),
            (Some((80, 1234)), PSH | ACK, 5)
        );
        assert_eq!(
            (data.window, data.urgent, data.options),
            (None, Some(3), SegmentOptions::Any)
        );
    }

    #[test]
    fn sack_blocks_and_cookies_are_parsed() {
        let PacketBody::Tcp(ack) =
            read(". 1:1(0) ack 1 <nop,nop,sack 1:2 3:4,FO COOKIE,FOEXP,md5 00ff>").body
        else {
            panic!("a segment")
        };
        let want = [
            TcpOption::Nop,
            TcpOption::Nop,
            TcpOption::Sack(vec![(1, 2), (3, 4)]),
            TcpOption::FastOpen(vec![0xa1, 0xb2], false),
            TcpOption::FastOpen(vec![], true),
            TcpOption::Md5(vec![0, 255]),
        ];
        assert_eq!(ack.options, SegmentOptions::List(want.to_vec()));
    }

    #[test]
    fn icmp_and_udp_packets_are_parsed() {
        let PacketBody::Icmp(icmp) = read("icmp unreachable frag_needed mtu 1200 [1:1461(1460)]").body else {
            panic!("ICMP")
        };
        assert_eq!(
            (icmp.code.as_deref(), icmp.mtu, icmp.quoted),
            (Some("frag_needed"), Some(1200), Quoted::Tcp(1, 1460))
        );
        assert_eq!(read("udp 1 > 2 (100)").body, PacketBody::Udp(Some((1, 2)), 100));
        assert!(matches!(
            read("encap psp spi 5 . 1:1(0) ack 1").body,
            PacketBody::Encapsulated(_)
        ));
        let PacketBody::Icmp(icmp) = read("icmp unreachable [1:1(0)/udp(9899 > 1)]").body else {
            panic!("ICMP")
        };
        assert_eq!(icmp.quoted, Quoted::TcpInUdp(9899, 1));
        let around = "TCP in UDP, /udp(9899 > 1)".to_owned();
        assert_eq!(
            read("S 0:0(0) win 9 <mss 1460>/udp(9899 > 1)").body,
            PacketBody::Encapsulated(around)
        );
    }

    #[test]
    fn absolute_and_arbitrary_numbers_are_parsed() {
        let numbered = |text: &str| match read(text).body {
            PacketBody::Tcp(segment) => (segment.seq, segment.numbering, segment.len, segment.ack),
            other => panic!("{other:?}"),
        };
        assert_eq!(numbered("R. 0:0(0)! ack 2"), (0, Numbering::Wire, 0, Some(2)));
        assert_eq!(numbered("S. ...(3) ack 2"), (0, Numbering::Any, 3, Some(2)));
        assert_eq!(numbered(". 7:8(1) ack 2"), (7, Numbering::FromSyn, 1, Some(2)));
        let fields = read("(hlim 3, class 0x20) . 1:1(0)").ip;
        assert_eq!((fields.ttl, fields.tos), (Some(3), Some(0x20)));
    }
}
