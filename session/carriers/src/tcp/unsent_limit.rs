//! Controls the number of bytes that the kernel keeps unsent: enough until this process runs again, and no
//! more.
//!
//! A controller that estimates the path's rate, such as BBR, ignores rate samples from times when the
//! connection had no data to send (draft-cheng-iccrg-delivery-rate-estimation, 3.4). A connection that runs
//! dry in each round trip yields no other samples. BBR then stays in its start-up phase for ever, and sends
//! at almost three times the path's rate.

use std::time::Duration;

use crate::Statistics;
use socket2::SockRef;

/// The time for which the kernel can continue to send after it has asked for more. It is longer than a busy
/// machine takes to schedule the writing process.
const LATENESS: Duration = Duration::from_millis(20);
/// The kernel asks for more when it holds less than this fraction (a half) of TCP_NOTSENT_LOWAT (tcp(7),
/// `__sk_stream_memory_free`).
const ASKS_AT: u32 = 2;
/// The minimum and maximum number of bytes that the kernel keeps unsent.
pub(crate) const MIN_UNSENT: u32 = 16 << 10;
const MAX_UNSENT: u32 = 1 << 20;

/// The number of bytes that the kernel keeps unsent for one socket: its TCP_NOTSENT_LOWAT.
#[derive(Debug)]
pub(crate) struct UnsentLimit(u32);

impl UnsentLimit {
    /// Returns the value of a newly opened socket.
    pub(crate) fn new() -> Self {
        Self(MIN_UNSENT)
    }

    /// Adapts the value to the connection's present rate.
    pub(crate) fn follow(&mut self, statistics: &Statistics, socket: &SockRef<'_>) {
        if let Some(bytes) = self.moves_to(statistics) {
            // If the kernel refuses, the earlier value remains.
            if socket.set_tcp_notsent_lowat(bytes).is_ok() {
                self.0 = bytes;
            }
        }
    }

    /// Returns the new limit, if it differs from the present one by a quarter or more.
    fn moves_to(&self, statistics: &Statistics) -> Option<u32> {
        // In slow start, the next rate is a window per round trip, whatever has been delivered so far.
        let per_second = |bytes: u64| match statistics.srtt.as_micros() as u64 {
            0 => 0,
            micros => bytes.saturating_mul(1_000_000) / micros,
        };
        let rate = statistics.rate.max(per_second(statistics.window));
        let within = rate.saturating_mul(LATENESS.as_micros() as u64) / 1_000_000;
        let wanted = (within * u64::from(ASKS_AT)).clamp(MIN_UNSENT.into(), MAX_UNSENT.into()) as u32;
        (wanted.abs_diff(self.0) > self.0 / 4).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistics of a 100 Mbit/s connection: its rate, and its window for a round trip of 40 ms.
    fn fast() -> Statistics {
        Statistics {
            srtt: Duration::from_millis(40),
            window: 500_000,
            rate: 12_500_000,
            ..Statistics::default()
        }
    }

    #[test]
    fn half_of_the_unsent_limit_covers_twenty_milliseconds() {
        // 12.5 MB/s for 20 ms is 250,000 bytes.
        assert_eq!(UnsentLimit::new().moves_to(&fast()), Some(500_000));
    }

    #[test]
    fn the_window_sets_the_limit_in_slow_start() {
        let start = Statistics { window: 1_000_000, ..fast() };
        assert_eq!(UnsentLimit::new().moves_to(&start), Some(1_000_000));
    }

    #[test]
    fn a_slow_connection_keeps_the_smallest_limit() {
        let slow = Statistics { window: 14_480, rate: 62_500, ..fast() };
        assert_eq!(UnsentLimit::new().moves_to(&slow), None);
        assert_eq!(UnsentLimit(500_000).moves_to(&slow), Some(16_384));
    }

    #[test]
    fn small_changes_are_ignored_and_the_limit_is_bounded() {
        let ahead = UnsentLimit(450_000);
        assert_eq!(ahead.moves_to(&fast()), None);
        let line = Statistics { rate: 1_250_000_000, ..fast() };
        assert_eq!(ahead.moves_to(&line), Some(1 << 20));
    }
}
