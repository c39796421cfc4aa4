//! The statistics of links: counters with the time of the reading, so that two readings give a rate.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// The counters of a direction of a link since the lab came up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// The time of the reading since the lab came up. In JSON, it is in seconds.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    /// The number of frames that entered.
    pub sent: u64,
    /// The bytes that entered, Ethernet headers included.
    pub sent_bytes: u64,
    /// The number of frames that came out.
    pub delivered: u64,
    /// The bytes that came out, Ethernet headers included.
    pub delivered_bytes: u64,
    /// The number of frames that wait in the queue, including the one in transmission.
    pub queued: u64,
    /// The bytes that wait in the queue, Ethernet headers included.
    pub queued_bytes: u64,
    /// The number of lost frames by cause. A cause is a rule's name, `down`, `overflow` (more frames were in
    /// flight than a link may hold) or `overrun` (this machine was too slow to take them).
    pub lost: BTreeMap<&'static str, u64>,
}

impl Statistics {
    /// Returns the bits per second that came out between an earlier reading and this one, Ethernet headers
    /// included, or 0 if no time has passed.
    #[must_use]
    pub fn bits_per_second_since(&self, earlier: &Statistics) -> f64 {
        let seconds = self.at.saturating_sub(earlier.at).as_secs_f64();
        let bytes = self.delivered_bytes.saturating_sub(earlier.delivered_bytes);
        if seconds > 0.0 {
            bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }
}

/// The causes of loss, as [`Statistics::lost`] names them.
pub const LOSSES: [&str; 12] = [
    "nat",
    "nat_inward",
    "block",
    "silent",
    "path_mtu",
    "trace",
    "drop",
    "loss",
    "queue",
    "down",
    "overflow",
    "overrun",
];

/// The statistics of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkReport {
    /// The name of the link.
    pub link: String,
    /// The statistics from the first host to the second.
    pub forward: Statistics,
    /// The statistics from the second host to the first.
    pub backward: Statistics,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_computed_from_two_readings() {
        let read = |ms, delivered_bytes| Statistics {
            at: Duration::from_millis(ms),
            delivered_bytes,
            ..Statistics::default()
        };
        // 1,250,000 bytes in 100 ms.
        assert_eq!(
            read(350, 1_300_000).bits_per_second_since(&read(250, 50_000)),
            100e6
        );
        assert_eq!(read(1, 5).bits_per_second_since(&read(1, 0)), 0.0);
    }
}
