//! A line of a certain rate with a drop-tail queue in front of it, which can mark CE instead of
//! dropping (RFC 3168).
//!
//! A frame leaves when its last bit is on the line. Fractions of a nanosecond carry over from
//! frame to frame, so that a busy line has its rate exactly.

use std::collections::VecDeque;

use hawser_time::Instant;

use super::{Profile, Rule, Verdict};
use crate::checksum;
use crate::frame::Frame;
use crate::rng::Rng;

/// A bit, in the unit of [`Queue::reschedule`]: what a rate of one bit per second sends in a nanosecond.
const BIT: u128 = 1_000_000_000;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Queue {
    rate: Option<u64>,
    limit_bytes: u64,
    limit_packets: u64,
    ecn_bytes: Option<u64>,
    /// When each waiting frame will have left, and its bytes; in order.
    waiting: VecDeque<(Instant, u64)>,
    /// The sum of their bytes.
    bytes: u64,
    /// When the line is free, and the fraction of a nanosecond beyond, as a multiple of 1 / rate.
    free_at: Instant,
    fraction: u128,
    marked: u64,
}

impl Queue {
    /// Forgets what has left.
    fn drain(&mut self, now: Instant) {
        while let Some(&(gone, bytes)) = self.waiting.front()
            && gone <= now
        {
            self.bytes -= bytes;
            self.waiting.pop_front();
        }
    }

    fn is_full(&self, bytes: u64) -> bool {
        !self.waiting.is_empty()
            && (self.waiting.len() as u64 >= self.limit_packets
                || self.bytes.saturating_add(bytes) > self.limit_bytes)
    }

    /// Puts a frame on the line and returns when its last bit has left.
    fn send(&mut self, now: Instant, bytes: u64, rate: u64) -> Instant {
        if self.free_at <= now {
            self.free_at = now;
            self.fraction = 0;
        }
        let work = u128::from(bytes) * 8 * BIT + self.fraction;
        self.fraction = work % u128::from(rate);
        self.free_at = self.free_at.plus_nanos((work / u128::from(rate)) as u64);
        self.waiting.push_back((self.free_at, bytes));
        self.bytes += bytes;
        self.free_at
    }
}

impl Rule for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn apply(&mut self, now: Instant, frame: &mut Frame, _rng: &mut Rng) -> Verdict {
        let Some(rate) = self.rate else {
            return Verdict::Pass;
        };
        self.drain(now);
        let bytes = frame.len() as u64;
        if self.is_full(bytes) {
            return Verdict::Drop;
        }
        if self.ecn_bytes.is_some_and(|at| self.bytes >= at) && mark_ce(frame) {
            self.marked += 1;
        }
        Verdict::Later(self.send(now, bytes, rate))
    }

    fn tune(&mut self, profile: &Profile) {
        if self.rate != profile.rate {
            self.fraction = 0;
        }
        self.rate = profile.rate.map(|r| r.max(1));
        self.limit_bytes = profile.queue_bytes;
        self.limit_packets = profile.queue_packets;
        self.ecn_bytes = profile.ecn_bytes;
    }

    fn reschedule(&mut self, now: Instant, profile: &Profile) -> Vec<Instant> {
        self.drain(now);
        let rates = (self.rate, profile.rate.map(|rate| rate.max(1)));
        let (Some(old), Some(&(first, _))) = (rates.0, self.waiting.front()) else {
            return Vec::new();
        };
        if rates.0 == rates.1 {
            return Vec::new();
        }
        // Of the first frame a part has left.
        let mut work = u128::from(first.nanos_since(now)) * u128::from(old);
        for (place, (at, bytes)) in self.waiting.iter_mut().enumerate() {
            work += if place == 0 {
                0
            } else {
                u128::from(*bytes) * 8 * BIT
            };
            *at = now.plus_nanos(rates.1.map_or(0, |new| (work / u128::from(new)) as u64));
            self.free_at = *at;
        }
        self.waiting.iter().map(|(at, _)| *at).collect()
    }

    fn forget(&mut self, now: Instant) -> bool {
        self.waiting.clear();
        (self.bytes, self.free_at, self.fraction) = (0, now, 0);
        true
    }

    fn changed(&self) -> u64 {
        self.marked
    }

    fn waiting(&mut self, now: Instant) -> (u64, u64) {
        self.drain(now);
        (self.waiting.len() as u64, self.bytes)
    }
}

/// Sets "congestion experienced" in a packet whose transport is ECN-capable; false if it is not,
/// or is marked already.
//= RFC3168 5
fn mark_ce(frame: &mut Frame) -> bool {
    let Some(headers) = frame.headers() else {
        return false;
    };
    let packet = &mut frame.head[headers.network..headers.transport];
    // The two bits: the low ones of IPv4's second byte; of IPv6's traffic class, which straddles
    // the first two bytes, bits 5 and 4 of the second.
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
mod tests {
    use super::*;
    use crate::frame::samples::{ipv4, plain};
    use hawser_testing::internet_checksum;

    /// When a frame that comes at so many nanoseconds has left.
    fn queue(profile: Profile) -> impl FnMut(u64, usize) -> Option<u64> {
        let mut rule = Queue::default();
        rule.tune(&profile);
        let mut rng = Rng::new(1, "queue");
        move |now, len| match rule.apply(Instant::from_nanos(now), &mut plain(len), &mut rng) {
            Verdict::Later(at) => Some(at.as_nanos()),
            Verdict::Drop => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_frame_takes_bits_over_rate() {
        let mut send = queue(Profile {
            rate: Some(8_000_000),
            ..Profile::default()
        });
        assert_eq!(send(0, 1000), Some(1_000_000), "8,000 bits at 8 Mbit/s are 1 ms");
        assert_eq!(send(0, 500), Some(1_500_000), "behind the first");
        assert_eq!(send(5_000_000, 1), Some(5_001_000), "an idle line starts at once");
    }

    #[test]
    fn waiting_counts_the_frames_that_have_not_left() {
        let mut rule = Queue::default();
        rule.tune(&Profile {
            rate: Some(8_000_000),
            ..Profile::default()
        });
        let mut rng = Rng::new(1, "queue");
        for _ in 0..3 {
            rule.apply(Instant::ORIGIN, &mut plain(1000), &mut rng);
        }
        // A frame takes 1 ms.
        assert_eq!(rule.waiting(Instant::from_nanos(999_999)), (3, 3000));
        assert_eq!(rule.waiting(Instant::from_nanos(1_000_000)), (2, 2000));
        assert_eq!(rule.waiting(Instant::from_nanos(3_000_000)), (0, 0));
    }

    #[test]
    fn a_busy_line_keeps_its_rate_exactly() {
        // 8 bits at 7 bit/s do not divide: 7,000 bytes take 8,000 s to the nanosecond.
        let mut send = queue(Profile {
            rate: Some(7),
            queue_packets: u64::MAX,
            ..Profile::default()
        });
        let last = (0..7000).map(|_| send(0, 1).unwrap()).last();
        assert_eq!(last, Some(8_000 * 1_000_000_000));
    }

    #[test]
    fn the_tail_is_dropped_at_either_limit() {
        let mut send = queue(Profile {
            rate: Some(8000),
            queue_packets: 2,
            ..Profile::default()
        });
        assert_eq!(
            (send(0, 1).is_some(), send(0, 1).is_some(), send(0, 1)),
            (true, true, None)
        );
        assert!(send(1_000_000, 1).is_some(), "the first has left after 1 ms");

        let mut send = queue(Profile {
            rate: Some(8000),
            queue_bytes: 100,
            ..Profile::default()
        });
        assert_eq!(
            (send(0, 60).is_some(), send(0, 41), send(0, 40).is_some()),
            (true, None, true)
        );
        let mut send = queue(Profile {
            rate: Some(8000),
            queue_bytes: 10,
            ..Profile::default()
        });
        assert!(send(0, 60).is_some(), "an empty queue takes any frame");
    }

    #[test]
    fn marks_only_capable_packets_that_find_a_queue() {
        let mut rule = Queue::default();
        rule.tune(&Profile {
            rate: Some(8000),
            ecn_bytes: Some(1),
            ..Profile::default()
        });
        let mut rng = Rng::new(1, "queue");
        let mut ecn_of = |bits: u8| {
            let mut frame = ipv4(17, b"x");
            frame.head[1] = bits;
            checksum::fill_ipv4(&mut frame.head[..20]);
            rule.apply(Instant::ORIGIN, &mut frame, &mut rng);
            let sum = internet_checksum(&[&frame.head[..20]]);
            assert_eq!(sum, [0, 0], "the header checksum stays right");
            frame.head[1] & 3
        };
        assert_eq!(ecn_of(2), 2, "nothing waits");
        assert_eq!((ecn_of(2), ecn_of(1), ecn_of(0), ecn_of(3)), (3, 3, 0, 3));
        assert_eq!(rule.changed(), 2);
    }

    #[test]
    fn marks_the_traffic_class_of_ipv6() {
        let mut frame = plain(40);
        frame.head[0] = 0x60;
        frame.head[1] = 0x20;
        assert!(mark_ce(&mut frame));
        assert_eq!(frame.head[1], 0x30);
        assert!(!mark_ce(&mut frame), "once is enough");
    }
}
