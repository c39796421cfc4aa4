//! What links have done: counters with the time at which they were read, so that two readings make
//! a rate.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// What a direction of a link has done since the lab came up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// When they were read, since the lab came up; as JSON in seconds.
    #[serde(serialize_with = "seconds")]
    pub at: Duration,
    /// Frames that entered.
    pub sent: u64,
    /// Bytes of them, Ethernet headers included.
    pub sent_bytes: u64,
    /// Frames that came out.
    pub delivered: u64,
    /// Bytes of them.
    pub delivered_bytes: u64,
    /// Frames that wait in the queue, the one on the line included.
    pub queued: u64,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// Frames lost, by what lost them: a rule's name, `down`, `overflow` (more were under way than
    /// a link may hold), `overrun` (this machine was too slow to take them).
    pub lost: BTreeMap<&'static str, u64>,
}

impl Statistics {
    /// Bits per second that came out between an earlier reading and this one, Ethernet headers
    /// included; 0 when no time has passed.
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

/// What can lose a frame, as [`Statistics::lost`] names it.
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

/// What a link has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkReport {
    /// Its name.
    pub link: String,
    /// From the first host to the second.
    pub forward: Statistics,
    /// From the second to the first.
    pub backward: Statistics,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_make_a_rate() {
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
