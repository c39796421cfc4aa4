//! Limits the data that a packet socket passes to the kernel ahead of its device. The limit is just enough to
//! keep the device busy, like Linux's byte queue limits (lib/dynamic_queue_limits.c).
//!
//! Amounts are the kernel's charges to a socket for unsent frames (`truesize`): their bytes and its own
//! overhead. The wire asks for the amount only when the data sent since the last query may have used up the
//! room.

use std::time::Duration;

use hawser_time::Instant;

/// The smallest limit, in frames of the MTU.
const MIN_FRAMES: u64 = 8;
/// The largest limit in bytes: 1 ms at 32 Gbit/s.
const MAX: u64 = 4 << 20;
/// The time for which slack must last before the limit is lowered, as in Linux.
const HOLD: Duration = Duration::from_secs(1);
/// The amount of charges after which the mean overhead counts half as much as later frames.
const MEAN_OVER: u64 = 256 << 10;

/// Returns the kernel's charge for a frame of this many bytes, without its virtio-net header (Linux 6.18 on
/// 64 bits; elsewhere about as much). It covers the kernel's structures, plus a power of two up to a page, or
/// whole pages beyond it.
pub(crate) const fn charge(bytes: usize) -> u64 {
    /// The sizes of `struct sk_buff`, and of `struct skb_shared_info` with the room before a header.
    const BUFFER: u64 = 256;
    const IN_HEAD: u64 = 352;
    const SMALL_HEAD: u64 = 576;
    const PAGE: u64 = 4096;
    let bytes = bytes as u64;
    let head = bytes + IN_HEAD;
    if head <= SMALL_HEAD {
        BUFFER + SMALL_HEAD
    } else if head <= PAGE {
        BUFFER + head.next_power_of_two()
    } else {
        BUFFER + SMALL_HEAD + bytes.next_multiple_of(PAGE)
    }
}

/// An adaptive limit, and the data ahead of the device.
///
/// * Sending begins or continues while less than half of the limit is ahead, up to the limit.
/// * The limit is raised if no data was ahead although there was more to send. This is checked after a lack
///   of room, and in the middle of a burst.
/// * The limit is lowered if, for a second, some data was still ahead each time there was room again.
///
/// The kernel regards a packet socket as writable while the charges are less than half of its send buffer. It
/// accepts frames while they are less than all of it. With the limit as the buffer's size, the kernel wakes a
/// driver exactly when there is room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimit {
    limit: u64,
    min: u64,
    max: u64,
    /// The maximum data ahead: the amount at the last query, plus the data sent since.
    ahead: u64,
    /// The part of it that was sent since the last query and the last look for received frames.
    at_once: u64,
    /// True if there was no room at the last query.
    is_blocked: bool,
    /// The minimum data ahead when there was room again, and the start of that measurement; absent before the
    /// first time.
    slack: Option<(u64, Instant)>,
    /// The bytes of recent frames, and the charges for them.
    bytes: u64,
    charged: u64,
}

impl QueueLimit {
    /// Creates a limit for a device of this MTU, and a send buffer of at most `buffer` bytes.
    pub(crate) fn new(mtu: u32, buffer: u64) -> QueueLimit {
        let frame = mtu as usize;
        let max = buffer.min(MAX);
        let min = (MIN_FRAMES * charge(frame)).min(max);
        QueueLimit {
            limit: min,
            min,
            max,
            ahead: 0,
            at_once: 0,
            is_blocked: false,
            slack: None,
            bytes: frame as u64,
            charged: charge(frame),
        }
    }

    /// Returns the maximum data ahead of the device.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the room in bytes of frames, if it is certain without a query to the kernel.
    pub(crate) fn room(&self) -> Option<usize> {
        (!self.is_blocked && self.is_low()).then(|| self.room_in_bytes())
    }

    /// Returns the room for a caller that has more to send, after a query at `now` that reported `unsent`
    /// charges.
    pub(crate) fn measured(&mut self, now: Instant, unsent: u64) -> usize {
        let was_blocked = self.is_blocked;
        let at_once = std::mem::take(&mut self.at_once);
        self.ahead = unsent;
        self.is_blocked = !self.is_low();
        if self.is_blocked {
            return 0;
        }
        if unsent == 0 && (was_blocked || 2 * at_once >= self.limit) {
            self.limit = (2 * self.limit).min(self.max);
            self.slack = None;
        } else if was_blocked {
            self.note_slack(now);
        }
        self.room_in_bytes()
    }

    fn note_slack(&mut self, now: Instant) {
        let (slack, since) = self.slack.unwrap_or((self.ahead, now));
        let slack = slack.min(self.ahead);
        self.slack = Some((slack, since));
        if now - since >= HOLD {
            self.limit = (self.limit - slack).next_multiple_of(2).max(self.min);
            self.slack = None;
        }
    }

    /// Ends a burst, because the driver looks for received frames.
    pub(crate) fn interrupted(&mut self) {
        self.at_once = 0;
    }

    /// Records that the kernel accepted a frame.
    pub(crate) fn sent(&mut self, bytes: usize) {
        let charge = charge(bytes);
        self.ahead += charge;
        self.at_once += charge;
        self.bytes += bytes as u64;
        self.charged += charge;
        if self.charged > MEAN_OVER {
            self.bytes = self.bytes.div_ceil(2);
            self.charged /= 2;
        }
    }

    /// Records that the kernel accepted no more.
    pub(crate) fn refused(&mut self) {
        self.is_blocked = true;
    }

    /// Returns whether there was no room at the last query.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    fn is_low(&self) -> bool {
        2 * self.ahead < self.limit
    }

    fn room_in_bytes(&self) -> usize {
        let room = (self.limit - self.ahead) * self.bytes / self.charged;
        usize::try_from(room).unwrap_or(usize::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Charges that a Linux 6.18 kernel on x86-64 reported by SIOCOUTQ, frame by frame.
    #[test]
    fn charges_match_those_of_linux() {
        for (bytes, charged) in [
            (60, 832),
            (200, 832),
            (300, 1280),
            (600, 1280),
            (700, 2304),
            (1514, 2304),
            (2962, 4352),
            (5858, 9024),
            (11_650, 13_120),
            (23_234, 25_408),
            (46_402, 49_984),
            (63_778, 66_368),
        ] {
            assert_eq!(charge(bytes), charged, "{bytes} bytes");
        }
    }

    /// A simulated device with a rate, and a driver that always has frames of 1514 bytes to send and reacts
    /// with a latency. It records the results.
    struct Run {
        limit: QueueLimit,
        now: u64,
        unsent: u64,
        rate: u64,
        latency: u64,
        /// The nanoseconds in which the device had no data to send.
        idle: u64,
        asked: u64,
        frames: u64,
    }

    const MTU: u32 = 1500;
    const FRAME: usize = 1514;

    impl Run {
        fn new(gbit: f64, latency_micros: u64) -> Run {
            Run {
                limit: QueueLimit::new(MTU, 1 << 30),
                now: 0,
                unsent: 0,
                rate: (gbit * 1e9 / 8.0) as u64,
                latency: latency_micros * 1000,
                idle: 0,
                asked: 0,
                frames: 0,
            }
        }

        /// Returns the nanoseconds in which this amount leaves.
        fn time_for(&self, charges: u64) -> u64 {
            charges * FRAME as u64 / charge(FRAME) * 1_000_000_000 / self.rate
        }

        fn pass(&mut self, nanos: u64) {
            self.now += nanos;
            let needed = self.time_for(self.unsent);
            if needed <= nanos {
                self.idle += nanos - needed;
                self.unsent = 0;
            } else {
                let left = u128::from(self.unsent) * u128::from(needed - nanos) / u128::from(needed);
                self.unsent = left as u64;
            }
        }

        fn for_millis(&mut self, millis: u64) {
            (self.idle, self.asked, self.frames) = (0, 0, 0);
            let end = self.now + millis * 1_000_000;
            while self.now < end {
                self.limit.interrupted();
                loop {
                    let mut room = self.limit.room().unwrap_or_else(|| {
                        self.asked += 1;
                        self.limit.measured(Instant::from_nanos(self.now), self.unsent)
                    });
                    if room == 0 {
                        break;
                    }
                    while room > 0 {
                        self.limit.sent(FRAME);
                        self.unsent += charge(FRAME);
                        self.frames += 1;
                        room = room.saturating_sub(FRAME);
                    }
                }
                // The kernel wakes the driver when less than half of its buffer is charged.
                let surplus = (self.unsent + 1).saturating_sub(self.limit.limit() / 2);
                let until_called = self.time_for(surplus);
                self.pass(until_called + self.latency);
            }
        }
    }

    /// Returns the data that a device of this rate needs ahead, so that half of it outlasts a driver's
    /// latency.
    fn needed(gbit: f64, latency_micros: u64) -> u64 {
        let frames = gbit * 1e3 / 8.0 * latency_micros as f64 / FRAME as f64;
        (2.0 * frames * charge(FRAME) as f64) as u64
    }

    #[test]
    fn the_queue_limit_covers_the_drivers_latency() {
        for (gbit, latency) in [(1.0, 100), (10.0, 20), (10.0, 100)] {
            let mut run = Run::new(gbit, latency);
            run.for_millis(10_000);
            assert!(
                run.idle < 2_000_000,
                "{gbit} Gbit/s: idle for {} ns of 10 s",
                run.idle
            );
            let (limit, needed) = (run.limit.limit(), needed(gbit, latency));
            assert!(
                (needed..2 * needed + 8 * charge(FRAME)).contains(&limit),
                "{gbit} Gbit/s, {latency} µs: {limit} for {needed}"
            );
        }
    }

    #[test]
    fn a_slow_device_gets_eight_frames_ahead() {
        let mut run = Run::new(0.05, 100);
        run.for_millis(3_000);
        assert_eq!(run.limit.limit(), 8 * charge(MTU as usize));
        assert_eq!(run.idle, 0);
    }

    #[test]
    fn the_limit_follows_a_rate_that_falls() {
        let mut run = Run::new(10.0, 100);
        run.for_millis(100);
        let high = run.limit.limit();
        run.rate /= 100;
        run.for_millis(900);
        assert_eq!(run.limit.limit(), high, "not before there was slack for a second");
        run.for_millis(10_000);
        assert!(
            run.limit.limit() < high / 10,
            "{} after {high}",
            run.limit.limit()
        );
    }

    #[test]
    fn the_kernel_is_asked_once_for_a_part_of_the_limit() {
        let mut run = Run::new(10.0, 100);
        run.for_millis(1_000);
        let charges = run.frames * charge(FRAME);
        let max = 2 + 3 * charges / run.limit.limit();
        assert!(run.asked <= max, "{} times, {max} expected", run.asked);
    }

    /// A device without a queue has always sent everything by the time of the query, so that the size of
    /// bursts decides.
    #[test]
    fn a_device_without_a_queue_gets_as_much_as_is_sent_at_once() {
        let mut limit = QueueLimit::new(MTU, 1 << 30);
        for _ in 0..20 {
            limit.interrupted();
            let mut left: usize = 200_000;
            while left > 0 {
                let room = limit.room().unwrap_or_else(|| limit.measured(Instant::ORIGIN, 0));
                assert!(room > 0);
                let len = left.min(room);
                limit.sent(len);
                left -= len;
            }
        }
        assert!((200_000..1_000_000).contains(&limit.limit()), "{}", limit.limit());
    }

    /// Small packets now and then do not show that a device was idle, however many there are.
    #[test]
    fn small_packets_do_not_raise_the_limit() {
        let mut limit = QueueLimit::new(MTU, 1 << 30);
        let mut asked = 0;
        for _ in 0..10_000 {
            limit.interrupted();
            if limit.room().is_none() {
                asked += 1;
                assert!(limit.measured(Instant::ORIGIN, 0) > 0);
            }
            limit.sent(64);
        }
        assert_eq!(limit.limit(), 8 * charge(MTU as usize));
        assert!(asked < 10_000 / 10, "asked {asked} times");
    }

    #[test]
    fn after_a_refusal_room_opens_below_half_the_limit() {
        let mut limit = QueueLimit::new(MTU, 1 << 30);
        let half = limit.limit() / 2;
        limit.refused();
        assert_eq!(limit.room(), None);
        assert_eq!(limit.measured(Instant::ORIGIN, half), 0);
        assert!(limit.is_blocked());
        let room = limit.measured(Instant::ORIGIN, half - 1);
        assert!(room as u64 >= half * 1500 / charge(1500), "{room}");
        assert!(!limit.is_blocked());
    }

    #[test]
    fn a_small_buffer_bounds_the_limit() {
        let mut limit = QueueLimit::new(MTU, 6000);
        assert_eq!(limit.limit(), 6000);
        for _ in 0..5 {
            limit.refused();
            limit.measured(Instant::ORIGIN, 0);
        }
        assert_eq!(limit.limit(), 6000);
    }

    #[test]
    fn the_limit_stays_within_its_maximum_without_overflow() {
        let mut limit = QueueLimit::new(u32::MAX, u64::MAX);
        for _ in 0..100 {
            limit.sent(usize::try_from(u32::MAX).unwrap());
            limit.refused();
            limit.measured(Instant::NEVER, 0);
        }
        assert_eq!(limit.limit(), 4 << 20);
    }
}
