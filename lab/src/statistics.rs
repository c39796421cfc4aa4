//! What links have done: counters with the time at which they were read, so that two readings make
//! a rate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::lab::Lab;
use crate::link::Direction;
use crate::{LabError, sys};

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

impl Lab {
    /// How long ago the lab came up.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_nanos(sys::monotonic().saturating_sub(self.start))
    }

    /// What all links have done so far, in the order of the file. Each reading has its own time.
    ///
    /// # Errors
    /// When the forwarder has ended.
    pub fn reports(&self) -> Result<Vec<LinkReport>, LabError> {
        let report = |link: crate::Link<'_>| -> Result<LinkReport, LabError> {
            let forward = link.statistics(Direction::Forward)?;
            let backward = link.statistics(Direction::Backward)?;
            Ok(LinkReport {
                link: link.name().to_owned(),
                forward,
                backward,
            })
        };
        self.links().map(report).collect()
    }

    /// Shows the reports of all links to `see` at once and then each `interval`, in the calling
    /// thread, until `stop` is set; the last time after that. A sample that would come late is left
    /// out: the times in the reports are those at which they were read.
    ///
    /// # Errors
    /// As for [`Lab::reports`].
    pub fn watch(
        &self,
        interval: Duration,
        stop: &AtomicBool,
        mut see: impl FnMut(Vec<LinkReport>),
    ) -> Result<(), LabError> {
        /// How often the switch is read.
        const LOOK: Duration = Duration::from_millis(20);
        let mut next = self.age();
        loop {
            see(self.reports()?);
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            next = (next + interval).max(self.age());
            while let Some(left) = next.checked_sub(self.age()).filter(|left| !left.is_zero()) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(left.min(LOOK));
            }
        }
    }
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
