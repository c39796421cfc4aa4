//! Compares a packet of the stack with the packet that the script expects.
//!
//! A script may expect a super-segment: several segments in one packet, as a stack with segmentation offload
//! sends them. Consecutive segments of the stack match it if they are otherwise alike and only the last has
//! PSH and FIN.

use std::collections::VecDeque;

use hawser_time::{Instant, nanos};

use super::config::Config;
use super::flows::{Cookies, ScriptFlow};
use super::mismatch::PacketMismatch;
use crate::script::syntax::tree::{
    ACK, Ecn, FIN, IpFields, IpPacket, Numbering, PSH, RST, SYN, Segment, SegmentOptions, TcpOption, URG,
};
use crate::script::wire::{Tcp, pattern, show_option};

/// A packet that the stack has sent.
#[derive(Clone, Debug)]
pub(crate) struct SentPacket {
    pub(crate) at: Instant,
    pub(crate) tcp: Tcp,
}

/// Properties that are not compared, as departures that a program has declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leniency {
    /// The order of options, and their padding.
    pub option_order: bool,
    /// The PSH flag.
    pub push: bool,
    /// Pure ACKs of new data that the script does not expect, if its next expected packet follows at once.
    pub extra_acks: bool,
    /// A window that falls short by less than a segment.
    pub window: bool,
}

/// The result of a comparison.
#[derive(Debug)]
pub(crate) enum Match {
    /// The packet matches.
    Yes,
    /// The packet matches so far, and more segments are needed.
    More,
    /// The packet differs.
    No(PacketMismatch),
}

/// Compares the packets of a flow at the front of `queue` with the expected packet, and removes the matching
/// ones. `done` counts the bytes that matched earlier.
pub(crate) fn compare(
    expected: (&IpPacket, &Segment),
    queue: &mut VecDeque<SentPacket>,
    (flow, cookies): (&mut ScriptFlow, &mut Cookies),
    done: &mut u32,
    (config, leniency): (&Config, Leniency),
) -> Match {
    let (packet, segment) = expected;
    while let Some(index) = queue.iter().position(|sent| flow.sent(&sent.tcp)) {
        let Some(sent) = queue.remove(index) else { break };
        let len = sent.tcp.payload.len() as u32;
        let left = u32::from(segment.len) - *done;
        let is_part = len > 0 && len < left && !config.strict_segments;
        let part = Part { segment, first: *done, last: !is_part, leniency };
        if let Err(why) = part
            .compare(&sent, (flow, cookies), config)
            .and_then(|()| ip(&packet.ip, &sent.tcp))
        {
            return Match::No(why);
        }
        if !is_part {
            return Match::Yes;
        }
        *done += len;
    }
    Match::More
}

/// Returns whether the flow's first packet is an unexpected pure ACK before the expected packet, which has
/// arrived. In that case, it is removed from the queue.
pub(crate) fn is_extra(
    queue: &mut VecDeque<SentPacket>,
    flow: &ScriptFlow,
    expected: &Segment,
    front: &SentPacket,
) -> bool {
    let pure = front.tcp.flags & !PSH == ACK
        && front.tcp.payload.is_empty()
        && !front
            .tcp
            .options
            .iter()
            .any(|option| matches!(option, TcpOption::Sack(_)));
    let wanted = expected.flags & !PSH == ACK && expected.len == 0;
    let of_flow: Vec<usize> = (0..queue.len())
        .filter(|i| queue.get(*i).is_some_and(|sent| flow.sent(&sent.tcp)))
        .take(2)
        .collect();
    let [first, second] = of_flow.as_slice() else {
        return false;
    };
    // The packet behind it acknowledges as much, so that this one adds no information.
    let behind = queue
        .get(*second)
        .is_some_and(|sent| sent.tcp.ack == front.tcp.ack && sent.tcp.flags & RST == 0);
    let extra = pure && !wanted && behind;
    if extra {
        queue.remove(*first);
    }
    extra
}

/// A part of an expected segment, from its byte `first` on.
struct Part<'a> {
    segment: &'a Segment,
    first: u32,
    last: bool,
    leniency: Leniency,
}

impl Part<'_> {
    fn compare(
        &self,
        sent: &SentPacket,
        (flow, cookies): (&mut ScriptFlow, &mut Cookies),
        config: &Config,
    ) -> Result<(), PacketMismatch> {
        let (segment, tcp) = (self.segment, &sent.tcp);
        self.flags(tcp)?;
        if tcp.flags & SYN != 0 && flow.script_isn.is_none() {
            flow.script_isn = Some(segment.seq);
        }
        let (base, other) = (flow.own_base(tcp.flags), flow.peer_base(tcp.flags));
        let seq = segment.seq.wrapping_add(self.first);
        match segment.numbering {
            Numbering::FromSyn => equal("the sequence number", seq, tcp.seq.wrapping_sub(base))?,
            Numbering::Wire => equal("the sequence number on the wire", seq, tcp.seq)?,
            Numbering::Any => {}
        }
        if self.last {
            equal(
                "the length",
                u32::from(segment.len) - self.first,
                tcp.payload.len() as u32,
            )?;
        }
        if let (Some(ack), true) = (segment.ack, tcp.flags & ACK != 0) {
            equal("the acknowledgement", ack, tcp.ack.wrapping_sub(other))?;
        }
        segment
            .window
            .map_or(Ok(()), |window| self.window(window, tcp, flow))?;
        if tcp.flags & URG != 0 {
            segment
                .urgent
                .map_or(Ok(()), |urgent| equal("the urgent pointer", urgent, tcp.urgent))?;
        }
        if let SegmentOptions::List(options) = &segment.options {
            self.options(options, sent, (flow, cookies), config)?;
        }
        payload(tcp, flow)
    }

    fn window(&self, wanted: u16, tcp: &Tcp, flow: &ScriptFlow) -> Result<(), PacketMismatch> {
        let short = wanted.saturating_sub(tcp.window);
        let is_less = (1..flow.announced.unwrap_or(0)).contains(&short);
        if self.leniency.window && is_less && tcp.flags & SYN == 0 {
            return Ok(());
        }
        equal("the window", wanted, tcp.window)
    }

    fn flags(&self, tcp: &Tcp) -> Result<(), PacketMismatch> {
        let mut wanted = self.segment.flags;
        let mut found = tcp.flags;
        if !self.last {
            // PSH may be set where the application's write ended.
            wanted &= !(FIN | PSH);
            found &= !PSH;
        }
        if self.leniency.push {
            wanted &= !PSH;
            found &= !PSH;
        }
        if wanted == found {
            return Ok(());
        }
        Err(PacketMismatch::Flags { found: tcp.flags, expected: self.segment.flags })
    }

    fn options(
        &self,
        wanted: &[TcpOption],
        sent: &SentPacket,
        (flow, cookies): (&mut ScriptFlow, &mut Cookies),
        config: &Config,
    ) -> Result<(), PacketMismatch> {
        let mut wanted = self.significant(wanted);
        let mut found = self.significant(&sent.tcp.options);
        for option in &mut found {
            if let TcpOption::Sack(blocks) = option {
                let other = flow.peer_base(sent.tcp.flags);
                blocks.iter_mut().for_each(|(from, to)| {
                    (*from, *to) = (from.wrapping_sub(other), to.wrapping_sub(other));
                });
            }
        }
        let stamp = |list: &[TcpOption]| {
            list.iter().find_map(|option| match option {
                TcpOption::Timestamp { val, .. } => Some(*val),
                _ => None,
            })
        };
        if let (Some(script), Some(live)) = (stamp(&wanted), stamp(&found)) {
            if let (Some(tick), Some(is)) = (config.tick, flow.stamp_of(live)) {
                let slack = (nanos(config.tolerance) / nanos(tick)) as u32 + 1;
                if is.wrapping_sub(script).wrapping_add(slack) > 2 * slack {
                    return Err(PacketMismatch::Timestamp { found: is, expected: script });
                }
            }
            flow.stamp(script, live);
            // Only the echo is compared, since the stack has its own clock.
            for option in wanted.iter_mut().chain(&mut found) {
                if let TcpOption::Timestamp { val, .. } = option {
                    *val = script;
                }
            }
        }
        if sent.tcp.flags & (SYN | ACK) == SYN | ACK {
            own_cookies(&mut wanted, &found, cookies);
        }
        if wanted == found {
            return Ok(());
        }
        Err(PacketMismatch::Options { found, expected: wanted })
    }

    /// Returns the options to compare, in order.
    fn significant(&self, options: &[TcpOption]) -> Vec<TcpOption> {
        // End-of-list options pad a header and are not written in scripts.
        let mut list: Vec<TcpOption> = options
            .iter()
            .filter(|o| **o != TcpOption::Eol)
            .cloned()
            .collect();
        if self.leniency.option_order {
            list.retain(|option| *option != TcpOption::Nop);
            list.sort_by_key(show_option);
        }
        list
    }
}

/// Replaces the script's cookies in `wanted` with the stack's own.
fn own_cookies(wanted: &mut [TcpOption], found: &[TcpOption], cookies: &mut Cookies) {
    for option in wanted {
        let TcpOption::FastOpen(script, old) = option else {
            continue;
        };
        let live = found.iter().find_map(|option| match option {
            TcpOption::FastOpen(cookie, kind) if kind == old => Some(cookie),
            _ => None,
        });
        if let Some(live) = live {
            cookies.learn(script, live);
        }
        *script = cookies.live(script);
    }
}

fn equal<T: Into<u32>>(field: &'static str, expected: T, found: T) -> Result<(), PacketMismatch> {
    let (expected, found) = (expected.into(), found.into());
    if expected == found {
        Ok(())
    } else {
        Err(PacketMismatch::Number { field, found, expected })
    }
}

/// Checks that the payload is the data that the application wrote.
fn payload(tcp: &Tcp, flow: &ScriptFlow) -> Result<(), PacketMismatch> {
    let Some(isn) = flow.isn else { return Ok(()) };
    let first = tcp
        .seq
        .wrapping_sub(isn)
        .wrapping_add(u32::from(tcp.flags & SYN != 0));
    let wrong = tcp
        .payload
        .iter()
        .zip(0_u32..)
        .find(|(byte, i)| **byte != pattern(first.wrapping_add(*i)));
    match wrong {
        None => Ok(()),
        Some((_, at)) => Err(PacketMismatch::Payload { at }),
    }
}

fn ip(wanted: &IpFields, tcp: &Tcp) -> Result<(), PacketMismatch> {
    let ecn = tcp.tos & 3;
    let fits = match wanted.ecn {
        None => true,
        Some(Ecn::None) => ecn == 0,
        Some(Ecn::Ect0) => ecn == 2,
        Some(Ecn::Ect1) => ecn == 1,
        Some(Ecn::Ect01) => ecn == 1 || ecn == 2,
        Some(Ecn::Ce) => ecn == 3,
    };
    if !fits {
        return Err(PacketMismatch::Ecn { found: ecn });
    }
    wanted
        .tos
        .map_or(Ok(()), |tos| equal("the TOS byte", tos, tcp.tos))?;
    wanted
        .ttl
        .map_or(Ok(()), |ttl| equal("the time to live", ttl, tcp.ttl))?;
    wanted
        .flow_label
        .map_or(Ok(()), |label| equal("the flow label", label, tcp.flow_label))
}
