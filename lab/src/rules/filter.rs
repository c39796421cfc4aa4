//! Drops packets of chosen protocols silently, as some middleboxes do.
//!
//! Only the first fragment of a packet has its ports. If that one is lost, the others are useless.

use std::sync::Arc;

use hawser_sim::frame::Frame;
use hawser_sim::link::{Rule, Verdict};
use hawser_sim::rng::Rng;
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::spec::Selector;
use crate::spec::selector::Protocol;

use super::packet::{ICMP, ICMP_V6, Packet, SCTP, TCP, UDP};

/// The kind of MPTCP's TCP option (RFC 8684, section 3).
const OPTION_MPTCP: u8 = 30;
/// The ICMPv6 types of neighbour discovery (RFC 4861), without which IPv6 does not work at all.
const NEIGHBOUR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// The blocked selectors, which the filter shares with the code that sets them.
#[derive(Clone, Default)]
pub(crate) struct Blocked {
    selectors: Arc<Mutex<Vec<Selector>>>,
}

impl Blocked {
    /// Blocks these from now on, and no others.
    pub(crate) fn set(&self, selectors: &[Selector]) {
        *self.selectors.lock() = selectors.to_vec();
    }
}

/// See the [module](self).
pub(crate) struct Filter {
    blocked: Blocked,
}

impl Filter {
    /// Makes a filter that follows this list.
    pub(crate) fn new(blocked: &Blocked) -> Filter {
        Filter { blocked: blocked.clone() }
    }
}

impl Rule for Filter {
    fn name(&self) -> &'static str {
        "block"
    }

    fn apply(&mut self, _now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        let selectors = self.blocked.selectors.lock();
        if selectors.is_empty() {
            return Verdict::Pass;
        }
        let Some(packet) = Packet::find(&frame.head) else {
            return Verdict::Pass;
        };
        if selectors
            .iter()
            .any(|selector| means(*selector, &packet, &frame.head))
        {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    }
}

/// Returns whether a selector matches this packet.
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
    let has_port = || {
        packet
            .ports(frame)
            .map(|(source, destination)| [source, destination])
    };
    is_protocol
        && selector
            .port
            .is_none_or(|port| has_port().is_some_and(|ports| ports.contains(&port)))
}

fn is_plain_icmp_v6(packet: &Packet, frame: &[u8]) -> bool {
    let kind = packet.transport.and_then(|at| frame.get(at));
    packet.protocol == ICMP_V6 && kind.is_none_or(|kind| !NEIGHBOUR_DISCOVERY.contains(kind))
}

fn has_mptcp(packet: &Packet, frame: &[u8]) -> bool {
    let segment = packet
        .transport
        .filter(|_| packet.protocol == TCP)
        .and_then(|at| frame.get(at..packet.end));
    let Some(segment) = segment.filter(|segment| segment.len() >= 20) else {
        return false;
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an Ethernet frame with an IPv4 header (RFC 791) and this payload.
    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = (20 + payload.len() as u16).to_be_bytes();
        let header = [
            0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        [&[2; 12][..], &[8, 0], &header, payload].concat()
    }

    /// Returns an Ethernet frame with an IPv6 header (RFC 8200), destination options and this payload.
    fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = (8 + payload.len() as u16).to_be_bytes();
        let options = [protocol, 0, 1, 4, 0, 0, 0, 0];
        [
            &[2; 12][..],
            &[0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], 60, 64],
            &[1; 32],
            &options,
            payload,
        ]
        .concat()
    }

    fn blocks(selector: &str, frame: &[u8]) -> bool {
        let selector = selector.parse().expect(selector);
        Packet::find(frame).is_some_and(|packet| means(selector, &packet, frame))
    }

    /// Returns a TCP header (RFC 9293) from port 5000 to 80 with these options.
    fn segment(options: &[u8]) -> Vec<u8> {
        let words = (5 + options.len() / 4) as u8;
        [
            &[
                0x13,
                0x88,
                0,
                80,
                0,
                0,
                0,
                1,
                0,
                0,
                0,
                1,
                words << 4,
                2,
                1,
                1,
                0,
                0,
                0,
                0,
            ][..],
            options,
        ]
        .concat()
    }

    #[test]
    fn selectors_match_protocols_and_ports() {
        let udp = [0x13, 0x88, 0x01, 0xbb, 0, 8, 0, 0];
        for frame in [ipv4(17, &udp), ipv6(17, &udp)] {
            for (selector, expected) in [
                ("udp", true),
                ("udp:443", true),
                ("udp:5000", true),
                ("udp:80", false),
                ("tcp", false),
                ("17", true),
            ] {
                assert_eq!(blocks(selector, &frame), expected, "{selector}");
            }
        }
        assert!(blocks("ipv4", &ipv4(17, &udp)) && !blocks("ipv6", &ipv4(17, &udp)));
        assert!(blocks("ipv6", &ipv6(17, &udp)) && !blocks("ipv4", &ipv6(17, &udp)));
        assert!(blocks("icmp", &ipv4(1, &[8; 8])) && blocks("icmp", &ipv6(58, &[128; 8])));
        assert!(!blocks("icmp", &ipv6(58, &[135; 24])), "a neighbour is sought");
        assert!(
            !blocks("ipv4", &[[2; 12].as_slice(), &[8, 6], &[0; 28]].concat()),
            "ARP"
        );
    }

    #[test]
    fn mptcp_is_known_by_its_option() {
        //= RFC8684 3
        let capable = [1, 1, 1, 1, 30, 4, 1, 0];
        assert!(blocks("mptcp", &ipv4(6, &segment(&capable))));
        assert!(blocks("mptcp:80", &ipv4(6, &segment(&capable))));
        assert!(!blocks("mptcp:81", &ipv4(6, &segment(&capable))));
        assert!(!blocks("mptcp", &ipv4(6, &segment(&[2, 4, 5, 0xb4]))));
        assert!(
            !blocks("mptcp", &ipv4(6, &segment(&[0, 30, 4, 0]))),
            "behind the end of the options"
        );
        assert!(
            !blocks("mptcp", &ipv4(6, &segment(&[9, 0, 30, 4]))),
            "an option of no length"
        );
        assert!(!blocks("mptcp", &ipv4(17, &segment(&capable))), "UDP");
    }

    #[test]
    fn truncated_packets_match_no_selector() {
        let frame = ipv4(6, &segment(&[30, 4, 1, 0]));
        for len in 0..frame.len() {
            assert!(Packet::find(&frame[..len]).is_none(), "{len} bytes");
        }
    }
}
