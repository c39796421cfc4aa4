//! Loses packets of chosen protocols without a sign, as a middlebox that dislikes them.
//!
//! Of a packet in fragments the first alone shows its ports; with that lost, the others come to
//! nothing.

use std::sync::{Arc, Mutex, PoisonError};

use hawser_engine::wire::Nanos;
use hawser_sim::dice::Dice;
use hawser_sim::frame::Frame;
use hawser_sim::link::{Rule, Verdict};

use crate::spec::Selector;
use crate::spec::selector::Protocol;

use super::packet::{ICMP, ICMP_V6, Packet, SCTP, TCP, UDP};

/// The kind of the TCP option of MPTCP (RFC 8684, section 3).
const OPTION_MPTCP: u8 = 30;
/// ICMPv6 types of neighbour discovery (RFC 4861), without which IPv6 as a whole stands still.
const NEIGHBOUR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// What is blocked, shared between the filter and who sets it.
#[derive(Clone, Default)]
pub(crate) struct Blocked {
    selectors: Arc<Mutex<Vec<Selector>>>,
}

impl Blocked {
    /// Blocks these from now on, and no others.
    pub(crate) fn set(&self, selectors: &[Selector]) {
        *self.selectors.lock().unwrap_or_else(PoisonError::into_inner) = selectors.to_vec();
    }
}

/// See the [module](self).
pub(crate) struct Filter {
    blocked: Blocked,
}

impl Filter {
    /// A filter that obeys this list.
    pub(crate) fn new(blocked: &Blocked) -> Filter {
        Filter { blocked: blocked.clone() }
    }
}

impl Rule for Filter {
    fn name(&self) -> &'static str {
        "block"
    }

    fn apply(&mut self, _now: Nanos, frame: &mut Frame, _dice: &mut Dice) -> Verdict {
        let selectors = self.blocked.selectors.lock().unwrap_or_else(PoisonError::into_inner);
        if selectors.is_empty() {
            return Verdict::Pass;
        }
        let Some(packet) = Packet::find(&frame.head) else { return Verdict::Pass };
        if selectors.iter().any(|selector| means(*selector, &packet, &frame.head)) {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }
}

/// Whether a selector means this packet.
fn means(selector: Selector, packet: &Packet, frame: &[u8]) -> bool {
    let is_protocol = match selector.protocol {
        Protocol::Tcp => packet.protocol == TCP,
        Protocol::Udp => packet.protocol == UDP,
        Protocol::Sctp => packet.protocol == SCTP,
        Protocol::Icmp => packet.protocol == ICMP || is_plain_icmp_v6(packet, frame),
        Protocol::Mptcp => has_mptcp(packet, frame),
        Protocol::Ipv4 => packet.is_v4,
        Protocol::Ipv6 => !packet.is_v4,
        Protocol::Number(number) => packet.protocol == number,
    };
    let has_port = || packet.ports(frame).map(|(source, destination)| [source, destination]);
    is_protocol && selector.port.is_none_or(|port| has_port().is_some_and(|ports| ports.contains(&port)))
}

fn is_plain_icmp_v6(packet: &Packet, frame: &[u8]) -> bool {
    let kind = packet.transport.and_then(|at| frame.get(at));
    packet.protocol == ICMP_V6 && kind.is_none_or(|kind| !NEIGHBOUR_DISCOVERY.contains(kind))
}

fn has_mptcp(packet: &Packet, frame: &[u8]) -> bool {
    let segment =
        packet.transport.filter(|_| packet.protocol == TCP).and_then(|at| frame.get(at..packet.end));
    let Some(segment) = segment.filter(|segment| segment.len() >= 20) else { return false };
    let header_len = usize::from(segment[12] >> 4) * 4;
    let mut options = segment.get(20..header_len).unwrap_or_default();
    while let [kind, rest @ ..] = options {
        match (kind, rest.first()) {
            (0, _) => return false,
            (1, _) => options = rest,
            (&OPTION_MPTCP, _) => return true,
            (_, Some(len)) if *len >= 2 => options = options.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        }
    }
    false
}
