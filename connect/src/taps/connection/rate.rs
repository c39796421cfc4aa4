//! `maxSendRate`: a limit on the number of bits sent in any second (RFC 9622, 8.1.8). No clock.

use std::time::{Duration, Instant};

/// The time by which a write may be ahead of the rate; data beyond it delays the next write.
const GRAIN: Duration = Duration::from_millis(10);

/// Computes the time of the next write from the bytes written.
#[derive(Debug)]
pub(super) struct Bucket {
    /// The time at which the bytes accounted for so far are paid off.
    free: Instant,
    /// Bytes written since the last accounting.
    taken: u64,
}

impl Bucket {
    pub(super) fn new(now: Instant) -> Bucket {
        Bucket { free: now, taken: 0 }
    }

    /// Records written bytes.
    pub(super) fn take(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Returns the time until which a write must wait at `rate` bits per second; `None` if it need not.
    pub(super) fn waits_until(&mut self, rate: Option<u64>, now: Instant) -> Option<Instant> {
        let bits = std::mem::take(&mut self.taken).saturating_mul(8);
        let rate = rate.filter(|rate| *rate > 0)?;
        let own = Duration::from_secs_f64(bits as f64 / rate as f64);
        self.free = self
            .free
            .max(now.checked_sub(GRAIN).unwrap_or(now))
            .checked_add(own)?;
        (self.free > now).then_some(self.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_a_second() {
        let began = Instant::now();
        let (mut bucket, mut now, mut bytes) = (Bucket::new(began), began, 0);
        while now < began + Duration::from_secs(2) {
            match bucket.waits_until(Some(80_000), now) {
                Some(later) => now = later,
                None => {
                    bucket.take(1_000);
                    bytes += 1_000;
                }
            }
        }
        assert!(
            (19_000..=21_000).contains(&bytes),
            "{bytes} of 20,000 bytes in two seconds"
        );
        assert_eq!(bucket.waits_until(None, now), None);
    }
}
