//! One direction of a carrier: a reliable transport over a link, by the packet.
//!
//! The model is TCP's shape without its detail: packets of [`MSS`] bytes leave as the window
//! allows, wait in the link's queue, and are acknowledged a propagation delay after they arrived.
//! A packet that finds the queue full, or is lost by chance, costs half of the window, once per round trip, and a round
//! trip until it is sent again. While the link is cut everything on it is lost; the sender tries
//! again after timeouts that double from 200 ms.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_carrier::Statistics;

use crate::dice::Dice;
use crate::link::Link;

/// Payload of a packet, and of one that is kept small (a TCP_MAXSEG of 1,220 less the timestamps).
pub(crate) const MSS: usize = 1_448;
pub(crate) const SMALL: usize = 1_208;
/// What a packet adds on the link.
const OVERHEAD: u64 = 52;
/// The first window (RFC 6928).
const FIRST_WINDOW: u64 = 10 * MSS as u64;
/// Bytes that the transport keeps unsent before it takes no more (TCP_NOTSENT_LOWAT).
const NOT_SENT: u64 = 16_384;
/// The retransmission timeout's floor and ceiling.
const RTO: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(120));

#[derive(Debug)]
struct Packet {
    bytes: Bytes,
    sent_at: Duration,
    /// When it is with the other side.
    arrives_at: Duration,
    /// When its acknowledgement is back.
    acked_at: Duration,
    /// Lost with the link.
    lost: bool,
}

/// One direction of a carrier.
#[derive(Debug)]
pub(crate) struct Pipe {
    dice: Dice,
    /// Payload of a full packet.
    mss: usize,
    /// A full packet has arrived.
    carried_full: bool,
    unsent: BytesMut,
    /// Sent and not acknowledged, in order.
    flying: VecDeque<Packet>,
    /// How many of `flying` have been delivered.
    delivered: usize,
    in_flight: u64,
    window: u64,
    threshold: u64,
    /// The window is not cut again before then.
    cut_until: Duration,
    srtt: Duration,
    rttvar: Duration,
    acked: u64,
    retransmitted: u64,
    /// When the timeout fires, and how long the next one is.
    timeout: Option<Duration>,
    rto: Duration,
    finished: bool,
    rate_at: Duration,
    rate_acked: u64,
    rate: u64,
}

/// The link as one direction of all carriers on it sees it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) link: Link,
    /// When the last byte in its queue has left.
    pub(crate) busy_until: Duration,
    /// Both directions carry.
    pub(crate) carries: bool,
}

impl Pipe {
    /// `seed` decides which packets are lost by chance.
    pub(crate) fn new(link: &Link, seed: u64, mss: usize) -> Self {
        Self {
            dice: Dice::new(seed),
            mss,
            carried_full: false,
            unsent: BytesMut::new(),
            flying: VecDeque::new(),
            delivered: 0,
            in_flight: 0,
            window: FIRST_WINDOW,
            threshold: u64::MAX,
            cut_until: Duration::ZERO,
            srtt: 2 * link.delay,
            rttvar: link.delay / 2,
            acked: 0,
            retransmitted: 0,
            timeout: None,
            rto: RTO.0,
            finished: false,
            rate_at: Duration::ZERO,
            rate_acked: 0,
            rate: 0,
        }
    }

    /// Takes bytes, however many.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// No more is written: the other side sees the end when everything is there.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.finished && self.unsent.is_empty() && self.flying.is_empty()
    }

    /// Bytes that it takes now.
    pub(crate) fn room(&self) -> usize {
        (4 * NOT_SENT).saturating_sub(self.unsent.len() as u64) as usize
    }

    /// Lets packets leave and counts acknowledgements; what has arrived by `now`.
    pub(crate) fn advance(&mut self, lane: &mut Lane, now: Duration) -> Vec<Bytes> {
        let arrived = self.deliver(now);
        self.count(now);
        self.retransmit(lane, now);
        self.launch(lane, now);
        arrived
    }

    fn deliver(&mut self, now: Duration) -> Vec<Bytes> {
        let mut arrived = Vec::new();
        while let Some(packet) = self.flying.get(self.delivered) {
            if packet.lost || packet.arrives_at > now {
                break;
            }
            self.carried_full |= packet.bytes.len() >= self.mss;
            arrived.push(packet.bytes.clone());
            self.delivered += 1;
        }
        arrived
    }

    fn count(&mut self, now: Duration) {
        while let Some(packet) = self.flying.front() {
            if packet.lost || packet.acked_at > now || self.delivered == 0 {
                break;
            }
            let sample = packet.acked_at - packet.sent_at;
            let length = packet.bytes.len() as u64;
            // RFC 6298 2.3.
            self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(sample)) / 4;
            self.srtt = (7 * self.srtt + sample) / 8;
            self.in_flight -= length;
            self.acked += length;
            self.window += match self.window < self.threshold {
                true => length,
                false => (MSS as u64 * length / self.window).max(1),
            };
            self.flying.pop_front();
            self.delivered -= 1;
            self.rto = (self.srtt + 4 * self.rttvar).max(RTO.0);
            self.timeout = (!self.flying.is_empty()).then_some(now + self.rto);
        }
        let span = now.saturating_sub(self.rate_at);
        if span >= self.srtt.max(Duration::from_millis(1)) {
            let new = ((self.acked - self.rate_acked) as f64 / span.as_secs_f64()) as u64;
            // The rate of a flow that has nothing to send says nothing (RFC-to-be, delivery rate).
            if !self.unsent.is_empty() || new > self.rate {
                self.rate = new;
            }
            (self.rate_at, self.rate_acked) = (now, self.acked);
        }
    }

    /// After a timeout everything unacknowledged is sent again, if the link carries.
    fn retransmit(&mut self, lane: &mut Lane, now: Duration) {
        if self.timeout.is_none_or(|at| at > now) {
            return;
        }
        self.threshold = (self.window / 2).max(2 * MSS as u64);
        self.window = FIRST_WINDOW;
        self.rto = (2 * self.rto).min(RTO.1);
        self.timeout = Some(now + self.rto);
        for packet in self.flying.iter_mut().filter(|packet| packet.lost) {
            self.retransmitted += packet.bytes.len() as u64;
            Self::fly(packet, lane, now);
        }
    }

    fn launch(&mut self, lane: &mut Lane, now: Duration) {
        while !self.unsent.is_empty() && self.in_flight < self.window {
            let length = self.unsent.len().min(self.mss);
            let bytes = self.unsent.split_to(length).freeze();
            let (sent_at, arrives_at) = (now, now);
            let mut packet = Packet { bytes, sent_at, arrives_at, acked_at: now, lost: false };
            let waiting = lane.busy_until.saturating_sub(now).as_secs_f64() * lane.link.rate as f64;
            let chance = lane.link.loss > 0 && self.dice.between(0, 1_000_000) < u64::from(lane.link.loss);
            let full = chance || waiting as u64 > lane.link.queue;
            Self::fly(&mut packet, lane, now);
            if full {
                // It was dropped: half the window, and a round trip more until it is there.
                if now >= self.cut_until {
                    self.window = (self.window / 2).max(2 * MSS as u64);
                    self.threshold = self.window;
                    self.cut_until = now + self.srtt;
                }
                packet.arrives_at += self.srtt;
                packet.acked_at += self.srtt;
                self.retransmitted += length as u64;
            }
            if let Some(last) = self.flying.back() {
                packet.arrives_at = packet.arrives_at.max(last.arrives_at);
                packet.acked_at = packet.acked_at.max(last.acked_at);
            }
            self.in_flight += length as u64;
            self.flying.push_back(packet);
            self.timeout.get_or_insert(now + self.rto);
        }
    }

    fn fly(packet: &mut Packet, lane: &mut Lane, now: Duration) {
        let wire = packet.bytes.len() as u64 + OVERHEAD;
        let begins = lane.busy_until.max(now);
        let leaves = begins + Duration::from_nanos(wire * 1_000_000_000 / lane.link.rate.max(1));
        lane.busy_until = leaves;
        packet.sent_at = now;
        packet.arrives_at = leaves + lane.link.delay;
        packet.acked_at = packet.arrives_at + lane.link.delay;
        packet.lost = !lane.carries || packet.bytes.len() > lane.link.longest;
    }

    /// The link was cut: whatever is on its way, acknowledgements too, is gone.
    pub(crate) fn cut(&mut self, now: Duration) {
        for packet in &mut self.flying {
            packet.lost |= packet.acked_at > now;
        }
        // What arrived, and whose acknowledgement was lost, must not arrive twice.
        for packet in self.flying.iter_mut().take(self.delivered) {
            packet.arrives_at = packet.arrives_at.min(now);
        }
    }

    /// When something happens next.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        let launch = (!self.unsent.is_empty() && self.in_flight < self.window).then_some(now);
        let arrival = self.flying.get(self.delivered).filter(|packet| !packet.lost);
        let ack = self.flying.front().filter(|packet| !packet.lost && self.delivered > 0);
        [launch, arrival.map(|packet| packet.arrives_at), ack.map(|packet| packet.acked_at), self.timeout]
            .into_iter()
            .flatten()
            .min()
    }

    /// `back`: the other direction of its carrier.
    pub(crate) fn statistics(&self, back: &Self) -> Statistics {
        Statistics {
            srtt: self.srtt,
            rttvar: self.rttvar,
            mss: self.mss,
            window: self.window,
            slow_start: self.window < self.threshold,
            in_flight: self.in_flight,
            queued: self.unsent.len() as u64,
            acked: self.acked,
            retransmitted: self.retransmitted,
            rate: self.rate,
            blocked: false,
            oversized: self.mss > SMALL && (self.in_flight >= self.mss as u64 || !back.carried_full),
        }
    }
}
