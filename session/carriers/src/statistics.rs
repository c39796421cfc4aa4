//! Statistics of a carrier.

use std::time::Duration;

/// Figures of one carrier at one time, as the transport below keeps them (`TCP_INFO`, the statistics of a
/// QUIC connection). Counters only grow. A figure that the transport does not know is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Smoothed round-trip time (RFC 6298).
    pub srtt: Duration,
    /// Its mean deviation (RFC 6298).
    pub rttvar: Duration,
    /// Payload of one full packet, in bytes.
    pub mss: usize,
    /// Congestion window, in bytes.
    pub window: u64,
    /// True if the congestion window is still in slow start.
    pub slow_start: bool,
    /// Bytes sent that the peer's transport has not acknowledged.
    pub in_flight: u64,
    /// Bytes handed to the transport that it has not sent.
    pub queued: u64,
    /// Bytes that the peer's transport has acknowledged since the carrier began.
    pub acked: u64,
    /// Bytes that the transport has sent again.
    pub retransmitted: u64,
    /// Delivery rate, in bytes per second.
    pub rate: u64,
    /// True if the peer's flow-control window blocks the transport. Missing acknowledgements then do not
    /// indicate a problem of the path.
    pub blocked: bool,
    /// True if full-size packets may be too long for the path, and shorter ones are possible. Either such a
    /// packet is not acknowledged, or none has ever arrived.
    pub oversized: bool,
}

impl Statistics {
    /// Returns the probe timeout, `srtt + max(4·rttvar, 10 ms) + 40 ms`: the time for which data may be
    /// outstanding on this carrier without an acknowledgement until the carrier is suspected. The last term
    /// covers the peer's delayed acknowledgement (RFC 9293, 3.8.6.3 allows 500 ms; Linux takes 40 ms).
    pub fn probe_timeout(&self) -> Duration {
        self.srtt + (4 * self.rttvar).max(Duration::from_millis(10)) + Duration::from_millis(40)
    }

    /// Returns the bytes that the peer's transport has not acknowledged, sent or not.
    pub fn outstanding(&self) -> u64 {
        self.in_flight + self.queued
    }

    /// Returns the rate in bytes per second: the delivery rate, or a window per round trip if that is
    /// unknown.
    pub fn pace(&self) -> u64 {
        if self.rate > 0 {
            return self.rate;
        }
        let micros = self.srtt.as_micros() as u64;
        self.window
            .saturating_mul(1_000_000)
            .checked_div(micros)
            .unwrap_or(0)
    }

    /// Returns the number of bytes to hand over at once: about 10 ms at its pace, between a full packet and
    /// 64 KiB. Urgent data therefore never waits for long behind data that was handed over.
    pub fn segment(&self) -> usize {
        const MIN_SEGMENT: u64 = 1_200;
        const MAX_SEGMENT: u64 = 65_536;
        match self.pace() {
            0 => 16_384,
            pace => {
                (pace / 100).clamp((self.mss as u64).clamp(MIN_SEGMENT, MAX_SEGMENT), MAX_SEGMENT) as usize
            }
        }
    }

    /// Returns the time until the peer's transport has a byte that is handed over now: half a round trip,
    /// after the queued bytes.
    pub fn arrival(&self) -> Duration {
        let pace = self.pace();
        let queue = match pace {
            0 => Duration::ZERO,
            _ => Duration::from_micros(self.queued.saturating_mul(1_000_000) / pace),
        };
        self.srtt / 2 + queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_timeout_has_a_floor_below_the_deviation() {
        let quiet = Statistics { srtt: Duration::from_millis(20), ..Statistics::default() };
        assert_eq!(quiet.probe_timeout(), Duration::from_millis(70));
        let shaky = Statistics { rttvar: Duration::from_millis(10), ..quiet };
        assert_eq!(shaky.probe_timeout(), Duration::from_millis(100));
    }

    #[test]
    fn without_a_delivery_rate_the_window_per_round_trip_counts() {
        let fresh = Statistics {
            srtt: Duration::from_millis(100),
            window: 14_480,
            ..Statistics::default()
        };
        assert_eq!(fresh.pace(), 144_800);
        assert_eq!(Statistics { rate: 5, ..fresh }.pace(), 5);
    }
}
