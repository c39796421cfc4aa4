//! Formats packets in the syntax of scripts.

use std::fmt::Write as _;

use super::Tcp;
use crate::script::syntax::tree::{
    ACK, Ecn, FLAG_LETTERS, IpFields, IpPacket, Numbering, PacketBody, Ports, Quoted, SegmentOptions,
    TcpOption, URG,
};

/// Shows a segment on the wire with relative numbers: its own from `base`, those of the other side from
/// `other`.
pub(crate) fn seen(tcp: &Tcp, base: u32, other: u32) -> String {
    let options = tcp.options.iter().map(|option| match option {
        TcpOption::Sack(blocks) => TcpOption::Sack(
            blocks
                .iter()
                .map(|(a, b)| (a.wrapping_sub(other), b.wrapping_sub(other)))
                .collect(),
        ),
        option => option.clone(),
    });
    let mut text = String::new();
    let ecn = [None, Some(Ecn::Ect1), Some(Ecn::Ect0), Some(Ecn::Ce)][usize::from(tcp.tos & 3)];
    text.push_str(&ip(&IpFields { ecn, ..IpFields::default() }));
    let ack = (tcp.flags & ACK != 0).then(|| tcp.ack.wrapping_sub(other));
    let urgent = (tcp.flags & URG != 0).then_some(tcp.urgent);
    let len = tcp.payload.len() as u32;
    let options = SegmentOptions::List(options.collect());
    segment(
        &mut text,
        None,
        tcp.flags,
        &range(tcp.seq.wrapping_sub(base), len, Numbering::FromSyn),
        (ack, Some(tcp.window), urgent),
        &options,
    );
    text
}

/// Shows the packet that a script expects.
pub(crate) fn expected(packet: &IpPacket) -> String {
    let mut text = ip(&packet.ip);
    match &packet.body {
        PacketBody::Tcp(tcp) => {
            let numbers = (tcp.ack, tcp.window, tcp.urgent);
            let range = range(tcp.seq, tcp.len.into(), tcp.numbering);
            segment(&mut text, tcp.ports, tcp.flags, &range, numbers, &tcp.options);
        }
        PacketBody::Udp(ports, len) => {
            text.push_str("udp ");
            push_ports(&mut text, *ports);
            let _ = write!(text, "({len})");
        }
        PacketBody::Icmp(icmp) => {
            let _ = write!(text, "icmp {}", icmp.kind);
            if let Some(code) = &icmp.code {
                let _ = write!(text, " {code}");
            }
            if let Some(mtu) = &icmp.mtu {
                let _ = write!(text, " mtu {mtu}");
            }
            if let Some(id) = &icmp.id {
                let _ = write!(text, " id {id}");
            }
            let _ = match icmp.quoted {
                Quoted::Unsaid => Ok(()),
                Quoted::Tcp(seq, len) => write!(text, " [{seq}:{}({len})]", seq.wrapping_add(u32::from(len))),
                Quoted::Udp(len) => write!(text, " [udp ({len})]"),
                Quoted::Raw(len) => write!(text, " [raw ({len})]"),
                Quoted::TcpInUdp(from, to) => write!(text, " [/udp({from} > {to})]"),
            };
        }
        PacketBody::Encapsulated(what) => text.push_str(what),
    }
    text
}

fn ip(fields: &IpFields) -> String {
    let mut parts = Vec::new();
    if let Some(ecn) = fields.ecn {
        parts.push(match ecn {
            Ecn::None => "noecn".to_owned(),
            Ecn::Ect0 => "ect0".to_owned(),
            Ecn::Ect1 => "ect1".to_owned(),
            Ecn::Ect01 => "ect01".to_owned(),
            Ecn::Ce => "ce".to_owned(),
        });
    }
    fields
        .tos
        .iter()
        .for_each(|tos| parts.push(format!("tos {tos:#x}")));
    fields.ttl.iter().for_each(|ttl| parts.push(format!("ttl {ttl}")));
    fields
        .flow_label
        .iter()
        .for_each(|label| parts.push(format!("flowlabel {label:#x}")));
    if parts.is_empty() {
        String::new()
    } else {
        format!("[{}] ", parts.join(", "))
    }
}

fn push_ports(text: &mut String, ports: Ports) {
    if let Some((from, to)) = ports {
        let _ = write!(text, "{from} > {to} ");
    }
}

/// Returns the letters of the flags.
pub(crate) fn flags(flags: u16) -> String {
    // packetdrill writes ACK last.
    let order = [1, 0, 2, 3, 5, 6, 7, 8, 4];
    let letters: String = order
        .iter()
        .filter(|bit| flags & 1 << **bit != 0)
        .map(|bit| FLAG_LETTERS[*bit])
        .collect();
    if letters.is_empty() { "-".into() } else { letters }
}

fn range(seq: u32, len: u32, numbering: Numbering) -> String {
    let end = seq.wrapping_add(len);
    match numbering {
        Numbering::FromSyn => format!("{seq}:{end}({len})"),
        Numbering::Wire => format!("{seq}:{end}({len})!"),
        Numbering::Any => format!("...({len})"),
    }
}

fn segment(
    text: &mut String,
    ports: Ports,
    bits: u16,
    range: &str,
    (ack, window, urgent): (Option<u32>, Option<u16>, Option<u16>),
    options: &SegmentOptions,
) {
    push_ports(text, ports);
    let _ = write!(text, "{} {range}", flags(bits));
    if let Some(ack) = ack {
        let _ = write!(text, " ack {ack}");
    }
    if let Some(window) = window {
        let _ = write!(text, " win {window}");
    }
    if let Some(urgent) = urgent {
        let _ = write!(text, " urg {urgent}");
    }
    match options {
        SegmentOptions::Any => text.push_str(" <...>"),
        SegmentOptions::List(list) if list.is_empty() => {}
        SegmentOptions::List(list) => {
            let list: Vec<String> = list.iter().map(option).collect();
            let _ = write!(text, " <{}>", list.join(","));
        }
    }
}

/// Shows an option.
pub(crate) fn option(option: &TcpOption) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let named = |name: &str, bytes: &[u8]| format!("{name} {}", hex(bytes)).trim_end().to_owned();
    match option {
        TcpOption::Eol => "eol".into(),
        TcpOption::Nop => "nop".into(),
        TcpOption::Mss(value) => format!("mss {value}"),
        TcpOption::Wscale(shift) => format!("wscale {shift}"),
        TcpOption::SackOk => "sackOK".into(),
        TcpOption::Sack(blocks) => {
            let blocks: Vec<String> = blocks.iter().map(|(from, to)| format!("{from}:{to}")).collect();
            format!("sack {}", blocks.join(" "))
        }
        TcpOption::Timestamp { val, ecr } => format!("TS val {val} ecr {ecr}"),
        TcpOption::Md5(digest) => named("md5", digest),
        TcpOption::FastOpen(cookie, false) => named("FO", cookie),
        TcpOption::FastOpen(cookie, true) => named("FOEXP", cookie),
        TcpOption::AccEcn(counters) => counters.iter().fold("ECN".to_owned(), |text, (name, value)| {
            format!("{text} {name} {value}")
        }),
        TcpOption::Other(number, body) => named(&format!("kind {number}"), body),
    }
}
