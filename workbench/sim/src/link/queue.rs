//! A line of a certain rate and the queues in front of it. The queues are drop-tail, with strict priorities.
//! They can mark CE (RFC 3168), or trim packets instead of dropping them.
//!
//! A frame leaves when its last bit is on the line; then the next frame of the highest nonempty priority
//! begins. A frame on the line is never interrupted. Fractions of a nanosecond carry over from frame to
//! frame, so that a busy line has its exact rate.
//!
//! With [`Port::trim_to`], a packet that finds its queue full is cut to that many bytes. It then enters the
//! queue of the highest priority, which has a limit of its own. The method is that of Handley et al.,
//! "Re-architecting datacenter networks and stacks for low latency and high performance", SIGCOMM 2017,
//! section 3.1. A trimmed packet is recognized by the length in its IP header, which exceeds the bytes
//! present. It has the highest priority at each further queue that trims. If even the trimmed packet does not
//! fit, it can return to its sender (the same paper, section 3.2.4).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_time::Instant;

use super::depths::Depths;
use super::pause::{Ingress, is_of};
use super::{Profile, Rule, Verdict};
use crate::checksum;
use crate::frame::Frame;
use crate::rng::Rng;

/// One bit, in the unit of work on a line: the work that a rate of one bit per second does in a nanosecond.
const BIT: u128 = 1_000_000_000;

/// The maximum number of frames that wait, regardless of other limits.
const WAITING_MAX: u64 = 1 << 18;

/// The properties of the device to which a queue belongs. They stay unchanged when the line's parameters
/// change.
#[derive(Clone, Debug)]
pub struct Port {
    /// The number of strict priorities, 1 to 8. A frame's priority follows from the precedence of its IP
    /// header ([`Frame::precedence`]). With `n` priorities it is precedence · n / 8, and the highest is
    /// served first.
    pub priorities: u8,
    /// The number of bytes to which a packet that finds its queue full is cut; `None` if it is lost.
    pub trim_to: Option<u64>,
    /// True if a packet that does not fit even when trimmed returns to its sender, at most once.
    pub return_to_sender: bool,
    /// Memory that it shares with other ports; `None` if it has its own.
    pub pool: Option<Arc<Pool>>,
    /// The counters of frames by ingress port, which pause senders (PFC); `None` if the device does not
    /// pause.
    pub ingress: Option<Arc<Ingress>>,
    /// The record of its depth over time, initially empty; `None` if it is not recorded.
    pub depths: Option<Depths>,
}

impl Default for Port {
    fn default() -> Port {
        Port {
            priorities: 1,
            trim_to: None,
            return_to_sender: false,
            pool: None,
            ingress: None,
            depths: None,
        }
    }
}

/// Memory that several queues share; its limit applies to the bytes in all of them together.
#[derive(Debug)]
pub struct Pool {
    limit: u64,
    used: [AtomicU64; 2],
}

impl Pool {
    /// Creates a pool of `limit` bytes. If packets are trimmed, queues of the highest priority have a further
    /// `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Pool {
        Pool { limit, used: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    /// Returns the bytes that wait in all queues together, including the frames on their lines.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.iter().map(|used| used.load(Ordering::Relaxed)).sum()
    }

    fn is_full(&self, room: usize, bytes: u64) -> bool {
        let used = self.used[room].load(Ordering::Relaxed);
        used > 0 && used.saturating_add(bytes) > self.limit
    }

    fn enter(&self, room: usize, bytes: u64) {
        self.used[room].fetch_add(bytes, Ordering::Relaxed);
    }

    fn leave(&self, room: usize, bytes: u64) {
        self.used[room].fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The depth of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// The maximum number of bytes that waited at once, including the frame on the line.
    pub max_bytes: u64,
    /// The maximum number of frames that waited at once, including the one on the line.
    pub max_packets: u64,
    /// Waiting bytes multiplied by the nanoseconds that they waited, until the last change.
    pub byte_nanos: u128,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Queue {
    rate: Option<u64>,
    limit_bytes: u64,
    limit_packets: u64,
    ecn_bytes: Option<u64>,
    ecn_all: Option<(u64, f64)>,
    port: Port,
    /// The waiting frames by priority, the lowest first.
    waiting: Vec<Band>,
    on_line: Option<OnLine>,
    /// The precedences of frames that are paused, one bit each.
    held: u8,
    /// The fraction of a nanosecond beyond the end of the last frame, as a multiple of 1 / rate.
    fraction: u128,
    /// The contents that count against the limits. The second entry has separate limits: it counts the
    /// highest priority if packets are trimmed, and the priorities that pause their senders.
    rooms: [WaitingFrames; 2],
    marked: u64,
    trimmed: u64,
    depth: Depth,
    changed_at: Instant,
}

/// The waiting frames of one priority.
#[derive(Debug, Default)]
struct Band {
    frames: VecDeque<Frame>,
    bytes: u64,
}

/// The frame on the line.
#[derive(Clone, Copy, Debug)]
struct OnLine {
    until: Instant,
    bytes: u64,
    room: usize,
    priority: usize,
    ingress: u16,
}

/// The waiting frames, including the one on the line.
#[derive(Clone, Copy, Debug, Default)]
struct WaitingFrames {
    packets: u64,
    bytes: u64,
}

impl Queue {
    /// Creates the queue of a device's port.
    #[must_use]
    pub fn for_port(port: Port) -> Queue {
        let mut waiting = Vec::new();
        waiting.resize_with(usize::from(port.priorities.max(1)), Band::default);
        Queue { port, waiting, ..Queue::default() }
    }

    /// Returns the highest priority.
    fn top(&self) -> usize {
        self.waiting.len().saturating_sub(1)
    }

    fn priority_of(&self, frame: &Frame) -> usize {
        let count = self.waiting.len();
        if count <= 1 {
            return 0;
        }
        if self.port.trim_to.is_some() && frame.is_cut() {
            return self.top();
        }
        usize::from(frame.precedence()) * count / 8
    }

    fn room_of(&self, priority: usize) -> usize {
        if self.lossless(priority).is_some() {
            return 1;
        }
        usize::from(self.port.trim_to.is_some() && priority > 0 && priority == self.top())
    }

    /// Returns the ingress counters for this priority, if it pauses its senders.
    fn lossless(&self, priority: usize) -> Option<&Ingress> {
        self.port
            .ingress
            .as_deref()
            .filter(|ingress| ingress.is_lossless(priority))
    }

    /// Returns true if there is no room for a frame. If its sender is paused instead, the limit is that of
    /// its ingress port.
    fn refuses(&self, priority: usize, frame: &Frame) -> bool {
        let bytes = frame.len() as u64;
        match self.lossless(priority) {
            Some(ingress) => !ingress.admits(frame.ingress, priority, bytes),
            None => self.is_full(priority, bytes),
        }
    }

    /// Returns true if a frame has to wait although the line is idle: its own precedence is paused, or that
    /// of a frame before it.
    fn waits(&self, priority: usize, frame: &Frame) -> bool {
        self.held != 0 && (is_of(self.held, frame) || !self.waiting[priority].frames.is_empty())
    }

    /// Removes a frame that has left from the ingress counters.
    fn credit(&self, ingress: u16, priority: usize, bytes: u64) {
        if let Some(lossless) = self.lossless(priority) {
            lossless.leave(ingress, priority, bytes);
        }
    }

    /// Records that the frame on the line has left.
    fn clear_line(&mut self, now: Instant) {
        if let Some(frame) = self.on_line.take() {
            self.leave(now, frame.room, frame.bytes);
            self.credit(frame.ingress, frame.priority, frame.bytes);
        }
    }

    fn is_full(&self, priority: usize, bytes: u64) -> bool {
        let number = self.room_of(priority);
        let room = self.rooms[number];
        let own = room.packets > 0
            && (room.packets >= self.limit_packets.min(WAITING_MAX)
                || room.bytes.saturating_add(bytes) > self.limit_bytes);
        own || self
            .port
            .pool
            .as_ref()
            .is_some_and(|pool| pool.is_full(number, bytes))
    }

    /// Trims a frame that does not fit; returns true if it can now wait with the highest priority.
    fn trim(&mut self, frame: &mut Frame) -> bool {
        let Some(to) = self.port.trim_to else {
            return false;
        };
        let len = to.min(frame.len() as u64);
        let fits = frame.headers().is_some() && !self.is_full(self.top(), len);
        if fits && len < frame.len() as u64 {
            frame.cut(len as usize);
            self.trimmed += 1;
        }
        fits
    }

    /// Trims a frame that does not fit at all, and returns it to its sender; returns false if it is lost. On
    /// the way back, a packet that is too short to be trimmed would look like trimmed data, so it is lost.
    fn turn_back(&mut self, frame: &mut Frame) -> bool {
        let Some(to) = self.port.trim_to.filter(|_| self.port.return_to_sender) else {
            return false;
        };
        if frame.returned || frame.headers().is_none() {
            return false;
        }
        if to < frame.len() as u64 {
            frame.cut(to as usize);
            self.trimmed += 1;
        } else if !frame.is_cut() {
            return false;
        }
        frame.turn_back();
        true
    }

    /// Returns true if a frame with this many bytes ahead of it is marked.
    fn marks(&self, ahead: u64, rng: &mut Rng) -> bool {
        let Some(from) = self.ecn_bytes.filter(|from| ahead >= *from) else {
            return false;
        };
        let Some((all, share)) = self.ecn_all.filter(|(all, _)| ahead < *all) else {
            return true;
        };
        rng.chance(share * (ahead - from) as f64 / (all - from).max(1) as f64)
    }

    /// Returns the bytes that leave before a frame of this priority.
    fn ahead(&self, priority: usize) -> u64 {
        let line = self.on_line.map_or(0, |frame| frame.bytes);
        let bands = self.waiting.iter().skip(priority);
        line + bands.map(|band| band.bytes).sum::<u64>()
    }

    fn enter(&mut self, now: Instant, number: usize, bytes: u64) {
        self.weigh(now);
        let room = &mut self.rooms[number];
        room.packets += 1;
        room.bytes += bytes;
        if let Some(pool) = &self.port.pool {
            pool.enter(number, bytes);
        }
        let (packets, bytes) = self.held();
        self.depth.max_packets = self.depth.max_packets.max(packets);
        self.depth.max_bytes = self.depth.max_bytes.max(bytes);
    }

    fn leave(&mut self, now: Instant, number: usize, bytes: u64) {
        self.weigh(now);
        let room = &mut self.rooms[number];
        room.packets -= 1;
        room.bytes -= bytes;
        if let Some(pool) = &self.port.pool {
            pool.leave(number, bytes);
        }
    }

    /// Adds the bytes that have waited since the last change.
    fn weigh(&mut self, now: Instant) {
        let (_, bytes) = self.held();
        self.depth.byte_nanos += u128::from(bytes) * u128::from(now.nanos_since(self.changed_at));
        if let Some(depths) = &mut self.port.depths {
            depths.waited(self.changed_at, now, bytes);
        }
        self.changed_at = now;
    }

    /// Returns the number of waiting frames, including the one on the line, and their bytes.
    fn held(&self) -> (u64, u64) {
        let [one, other] = self.rooms;
        (one.packets + other.packets, one.bytes + other.bytes)
    }

    /// Puts a frame on the line; returns the time at which its last bit has left.
    fn begin(&mut self, now: Instant, priority: usize, frame: &Frame) -> Instant {
        let bytes = frame.len() as u64;
        let until = self.send(now, bytes);
        self.on_line = Some(OnLine {
            until,
            bytes,
            room: self.room_of(priority),
            priority,
            ingress: frame.ingress,
        });
        until
    }

    /// Returns the time at which the last bit of a frame has left if its first bit goes on the line now.
    fn send(&mut self, now: Instant, bytes: u64) -> Instant {
        let Some(rate) = self.rate else {
            return now;
        };
        let work = u128::from(bytes) * 8 * BIT + self.fraction;
        // The work usually fits a machine word, for which division is far faster.
        let (nanos, fraction) = match u64::try_from(work) {
            Ok(work) => (work / rate, u128::from(work % rate)),
            Err(_) => ((work / u128::from(rate)) as u64, work % u128::from(rate)),
        };
        self.fraction = fraction;
        now.plus_nanos(nanos)
    }
}

impl Rule for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn apply(&mut self, now: Instant, frame: &mut Frame, rng: &mut Rng) -> Verdict {
        if self.rate.is_none() {
            return Verdict::Pass;
        }
        let mut priority = self.priority_of(frame);
        if self.refuses(priority, frame) {
            if !self.trim(frame) {
                return match self.turn_back(frame) {
                    true => Verdict::Return,
                    false => Verdict::Drop,
                };
            }
            priority = self.top();
        }
        if self.marks(self.ahead(priority), rng) && mark_ce(frame) {
            self.marked += 1;
        }
        let (room, bytes) = (self.room_of(priority), frame.len() as u64);
        self.enter(now, room, bytes);
        if let Some(lossless) = self.lossless(priority) {
            lossless.enter(frame.ingress, priority, bytes);
        }
        if self.on_line.is_some() || self.waits(priority, frame) {
            let band = &mut self.waiting[priority];
            band.bytes += bytes;
            band.frames.push_back(std::mem::take(frame));
            return Verdict::Kept;
        }
        // On an idle line no fraction carries over.
        self.fraction = 0;
        let until = self.begin(now, priority, frame);
        if until <= now {
            self.clear_line(now);
        }
        Verdict::Later(until)
    }

    fn next(&mut self, now: Instant) -> Option<(Instant, Frame)> {
        self.clear_line(now);
        let held = self.held;
        let bands = self.waiting.iter_mut().enumerate().rev();
        let (priority, frame) = bands
            .filter(|(_, band)| held == 0 || band.frames.front().is_some_and(|frame| !is_of(held, frame)))
            .filter_map(|(priority, band)| Some((priority, band.frames.pop_front()?)))
            .next()?;
        let bytes = frame.len() as u64;
        self.waiting[priority].bytes -= bytes;
        Some((self.begin(now, priority, &frame), frame))
    }

    fn pause(&mut self, now: Instant, precedences: u8) -> Option<(Instant, Frame)> {
        self.held = precedences;
        if self.on_line.is_some() {
            return None;
        }
        // On an idle line no fraction carries over.
        self.fraction = 0;
        self.next(now)
    }

    fn control(&self, at: Instant, bytes: u64) -> Instant {
        let free = self.on_line.map_or(at, |frame| frame.until.max(at));
        let nanos = |rate| u128::from(bytes) * 8 * BIT / u128::from(rate);
        free.plus_nanos(self.rate.map_or(0, |rate: u64| nanos(rate) as u64))
    }

    fn tune(&mut self, profile: &Profile) {
        let rate = profile.rate.map(|rate| rate.max(1));
        if self.rate != rate {
            self.fraction = 0;
        }
        self.rate = rate;
        self.limit_bytes = profile.queue_bytes;
        self.limit_packets = profile.queue_packets;
        self.ecn_bytes = profile.ecn_bytes;
        self.ecn_all = profile.ecn_all;
        if self.waiting.is_empty() {
            self.waiting.push(Band::default());
        }
    }

    fn reschedule(&mut self, now: Instant, profile: &Profile) -> Option<Instant> {
        let (old, new) = (self.rate?, profile.rate.map(|rate| rate.max(1)));
        let on_line = self.on_line.as_mut().filter(|_| Some(old) != new)?;
        // A part of the frame has left already.
        let work = u128::from(on_line.until.nanos_since(now)) * u128::from(old);
        on_line.until = now.plus_nanos(new.map_or(0, |new| (work / u128::from(new)) as u64));
        Some(on_line.until)
    }

    fn empty(&mut self, now: Instant) -> Option<Vec<Frame>> {
        self.clear_line(now);
        let mut all = Vec::new();
        for priority in (0..self.waiting.len()).rev() {
            let frames = std::mem::take(&mut self.waiting[priority]).frames;
            let room = self.room_of(priority);
            for frame in &frames {
                let bytes = frame.len() as u64;
                self.leave(now, room, bytes);
                self.credit(frame.ingress, priority, bytes);
            }
            all.extend(frames);
        }
        Some(all)
    }

    fn kept(&self) -> usize {
        self.waiting.iter().map(|band| band.frames.len()).sum()
    }

    fn changed(&self) -> u64 {
        self.marked
    }

    fn cut(&self) -> u64 {
        self.trimmed
    }

    fn depth(&self) -> Option<Depth> {
        self.rate.map(|_| self.depth)
    }

    fn depths(&self, now: Instant) -> Option<Depths> {
        self.rate?;
        let mut depths = self.port.depths.clone()?;
        depths.waited(self.changed_at, now, self.held().1);
        Some(depths)
    }

    fn waiting(&mut self, now: Instant) -> (u64, u64) {
        let (packets, bytes) = self.held();
        match self.on_line.filter(|frame| frame.until <= now) {
            Some(gone) => (packets - 1, bytes - gone.bytes),
            None => (packets, bytes),
        }
    }
}

/// Sets "congestion experienced" in a packet whose transport is ECN-capable. Returns false if it is not
/// capable, or is marked already.
//= RFC3168 5
fn mark_ce(frame: &mut Frame) -> bool {
    let Some(headers) = frame.headers() else {
        return false;
    };
    let packet = &mut frame.head[headers.network..headers.transport];
    // The two bits are the low ones of IPv4's second byte. In IPv6 the traffic class straddles the first two
    // bytes, and the bits are 5 and 4 of the second.
    let shift = if headers.is_v4 { 0 } else { 4 };
    if !matches!(packet[1] >> shift & 3, 1 | 2) {
        return false;
    }
    packet[1] |= 3 << shift;
    if headers.is_v4 {
        checksum::fill_ipv4(packet);
    }
    true
}

#[cfg(test)]
mod tests;
