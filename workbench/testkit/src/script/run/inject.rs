//! Builds the scripted peer's packets from the numbers in the script.

use std::net::{IpAddr, SocketAddr};

use super::calls::PORT;
use super::config::Config;
use super::flows::{Cookies, Flows, ScriptFlow};
use crate::script::syntax::tree::{
    ACK, Ecn, FIN, Icmp, IpFields, Numbering, PSH, Ports, Quoted, RST, SYN, Segment, SegmentOptions,
    TcpOption,
};
use crate::script::wire::{self, Tcp, icmp_frame, ip_frame, tcp_frame};

/// A frame of the peer.
pub(super) struct Inbound {
    pub(super) bytes: Vec<u8>,
    /// The size of the packets from which it counts as merged, in bytes; 0 for one packet.
    pub(super) seg_size: u16,
    /// The segment in it, as on the wire.
    pub(super) tcp: Option<Tcp>,
}

/// A packet could not be sent.
pub(super) enum Impossible {
    Unsupported(String),
    Wrong(String),
}

const TOO_LONG: &str = "the packet is longer than an IP packet can be, or its options than a header";

/// Finds the connection of a packet between these ports and makes it the current one. If it does not exist
/// and `begins` is set, the packet begins one. Returns false without a connection.
pub(super) fn select(
    flows: &mut Flows,
    config: &Config,
    (local, remote): (Option<u16>, Option<u16>),
    (begins, listening): (bool, Option<u16>),
) -> bool {
    let at = |ip: IpAddr, port: u16| SocketAddr::new(ip, port);
    match (local, remote) {
        (Some(local), Some(remote)) => {
            let (local, remote) = (at(config.local, local), at(config.remote, remote));
            if !flows.select(local, remote) {
                flows.open(local, remote);
            }
        }
        _ if flows.current().is_none() && begins => {
            let local = listening.unwrap_or(PORT);
            let remote = flows.fresh_port();
            flows.open(at(config.local, local), at(config.remote, remote));
        }
        _ => {}
    }
    flows.current().is_some()
}

/// Returns the ports of a packet of the stack: its own and the peer's.
pub(super) fn outward(ports: Ports) -> (Option<u16>, Option<u16>) {
    (ports.map(|(from, _)| from), ports.map(|(_, to)| to))
}

/// Returns the ports of a packet of the peer: the stack's and the peer's.
pub(super) fn inward(ports: Ports) -> (Option<u16>, Option<u16>) {
    (ports.map(|(_, to)| to), ports.map(|(from, _)| from))
}

/// Builds a TCP segment of the peer.
pub(super) fn segment(
    segment: &Segment,
    ip: &IpFields,
    (flow, cookies): (&mut ScriptFlow, &Cookies),
    config: &Config,
) -> Result<Inbound, Impossible> {
    let options = match &segment.options {
        SegmentOptions::List(options) => options.as_slice(),
        SegmentOptions::Any => {
            return Err(Impossible::Wrong(
                "an inbound packet has its options: <...> is for outbound ones".into(),
            ));
        }
    };
    if segment.numbering == Numbering::Any {
        return Err(Impossible::Wrong(
            "an inbound packet has its sequence number: ...(0) is for outbound ones".into(),
        ));
    }
    if options
        .iter()
        .any(|option| matches!(option, TcpOption::Md5(digest) if digest.is_empty()))
    {
        return Err(Impossible::Unsupported(
            "an MD5 signature without its digest".into(),
        ));
    }
    let tcp = flow.inbound(segment, (tos(ip), ip.ttl.unwrap_or(255)), options, cookies);
    let bytes = tcp_frame(&tcp).ok_or_else(|| Impossible::Wrong(TOO_LONG.into()))?;
    // A packet longer than the stack's MSS was merged from several on the way.
    let merged = if config.merged > 0 {
        config.merged
    } else {
        flow.announced.unwrap_or(0)
    };
    let merges = merged > 0 && segment.len > merged && segment.flags & (SYN | RST) == 0;
    Ok(Inbound { bytes, seg_size: if merges { merged } else { 0 }, tcp: Some(tcp) })
}

/// Returns the packets from which a segment was merged, each with `size` bytes of data. With 0, returns the
/// segment.
pub(super) fn parts(tcp: &Tcp, size: u16) -> Vec<Vec<u8>> {
    if size == 0 {
        return tcp_frame(tcp).into_iter().collect();
    }
    let last = tcp.payload.len().div_ceil(usize::from(size)).saturating_sub(1);
    let part = |(i, text): (usize, &[u8])| {
        let flags = if i == last {
            tcp.flags
        } else {
            tcp.flags & !(FIN | PSH)
        };
        let seq = tcp.seq.wrapping_add(i as u32 * u32::from(size));
        tcp_frame(&Tcp { flags, seq, payload: text.to_vec(), ..tcp.clone() })
    };
    tcp.payload
        .chunks(usize::from(size))
        .enumerate()
        .filter_map(part)
        .collect()
}

fn tos(ip: &IpFields) -> u8 {
    let ecn = match ip.ecn {
        None | Some(Ecn::None) => 0,
        Some(Ecn::Ect0 | Ecn::Ect01) => 2,
        Some(Ecn::Ect1) => 1,
        Some(Ecn::Ce) => 3,
    };
    ip.tos.unwrap_or(0) & !3
        | if ip.ecn.is_some() {
            ecn
        } else {
            ip.tos.unwrap_or(0) & 3
        }
}

/// The type and code, if the family has the message.
type IcmpTypeCode = Option<(u8, u8)>;

/// ICMP errors by name, with type and code in IPv4 (RFC 792, 1122, 1191, 1812) and in IPv6 (RFC 4443). A code
/// without a name is written `code_1`.
const KINDS: &[(&str, &str, IcmpTypeCode, IcmpTypeCode)] = &[
    ("unreachable", "", Some((3, 0)), Some((1, 0))),
    ("unreachable", "net_unreachable", Some((3, 0)), None),
    ("unreachable", "host_unreachable", Some((3, 1)), None),
    ("unreachable", "protocol_unreachable", Some((3, 2)), None),
    ("unreachable", "port_unreachable", Some((3, 3)), Some((1, 4))),
    ("unreachable", "frag_needed", Some((3, 4)), None),
    ("unreachable", "source_route_failed", Some((3, 5)), Some((1, 5))),
    ("unreachable", "net_unknown", Some((3, 6)), None),
    ("unreachable", "host_unknown", Some((3, 7)), None),
    ("unreachable", "source_host_isolated", Some((3, 8)), None),
    ("unreachable", "net_prohibited", Some((3, 9)), None),
    ("unreachable", "host_prohibited", Some((3, 10)), None),
    ("unreachable", "net_unreachable_for_tos", Some((3, 11)), None),
    ("unreachable", "host_unreachable_for_tos", Some((3, 12)), None),
    ("unreachable", "packet_filtered", Some((3, 13)), None),
    ("unreachable", "precedence_violation", Some((3, 14)), None),
    ("unreachable", "precedence_cutoff", Some((3, 15)), None),
    ("unreachable", "no_route", None, Some((1, 0))),
    ("unreachable", "admin_prohibited", None, Some((1, 1))),
    ("unreachable", "not_neighbour", None, Some((1, 2))),
    ("unreachable", "address_unreachable", None, Some((1, 3))),
    ("packet_too_big", "", None, Some((2, 0))),
    ("source_quench", "", Some((4, 0)), None),
    ("time_exceeded", "", Some((11, 0)), Some((3, 0))),
    ("time_exceeded", "exceed_in_transit", Some((11, 0)), Some((3, 0))),
    ("time_exceeded", "ttl_exceeded_in_transit", Some((11, 0)), None),
    ("time_exceeded", "exceeded_hop_limit", None, Some((3, 0))),
    ("time_exceeded", "reassembly_time", Some((11, 1)), Some((3, 1))),
    ("time_exceeded", "frag_reass_exceeded", Some((11, 1)), None),
    ("time_exceeded", "exceeded_frag_time", None, Some((3, 1))),
    ("parameter_problem", "", Some((12, 0)), Some((4, 0))),
    ("parameter_problem", "header_field", None, Some((4, 0))),
    ("parameter_problem", "unknown_next_header", None, Some((4, 1))),
    ("parameter_problem", "unknown_option", None, Some((4, 2))),
];

/// Builds an ICMP error of the peer about a packet of the flow.
pub(super) fn icmp(icmp: &Icmp, flow: &ScriptFlow) -> Result<Inbound, Impossible> {
    let code = icmp.code.as_deref().unwrap_or("");
    let v4 = flow.local.is_ipv4();
    let number = code
        .strip_prefix("code_")
        .and_then(|number| number.parse::<u8>().ok());
    let known = if number.is_some() { "" } else { code };
    let found = KINDS
        .iter()
        .find(|(kind, name, ..)| *kind == icmp.kind && *name == known);
    let kind = found.and_then(|(_, _, four, six)| if v4 { *four } else { *six });
    let kind = kind.map(|(kind, code)| (kind, number.unwrap_or(code)));
    let Some(kind) = kind else {
        let family = if v4 { "IPv4" } else { "IPv6" };
        return Err(Impossible::Unsupported(format!(
            "the ICMP message `{} {code}` in {family}",
            icmp.kind
        )));
    };
    let mtu = icmp.mtu.unwrap_or(0);
    let rest = if v4 {
        (mtu & 0xffff).to_be_bytes()
    } else {
        mtu.to_be_bytes()
    };
    let (seq, len) = match icmp.quoted {
        Quoted::Tcp(seq, len) => (seq.wrapping_add(flow.own_base(0)), len),
        Quoted::Unsaid => (flow.own_base(0), 0),
        Quoted::TcpInUdp(from, to) => {
            let what = format!("encapsulated packets (`TCP in UDP, /udp({from} > {to})`)");
            return Err(Impossible::Unsupported(what));
        }
        Quoted::Udp(_) | Quoted::Raw(_) => {
            return Err(Impossible::Unsupported(
                "an ICMP message that quotes no TCP segment".into(),
            ));
        }
    };
    let quoted = Tcp {
        from: flow.local,
        to: flow.remote,
        tos: 0,
        ttl: 64,
        flow_label: 0,
        flags: ACK,
        seq,
        ack: 0,
        window: 0,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
    };
    let too_long = || Impossible::Wrong(TOO_LONG.into());
    let mut body = wire::tcp_bytes(&quoted).ok_or_else(too_long)?;
    let header = body.len();
    body.resize(header + usize::from(len), 0);
    let ip =
        ip_frame(flow.local.ip(), flow.remote.ip(), wire::TCP, (0, 64, 0), &body).ok_or_else(too_long)?;
    // A router quotes only the beginning.
    let quoted = &ip[..ip.len() - usize::from(len)];
    let bytes = icmp_frame(flow.remote.ip(), flow.local.ip(), kind, rest, quoted).ok_or_else(too_long)?;
    Ok(Inbound { bytes, seg_size: 0, tcp: None })
}
