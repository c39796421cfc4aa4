//! `maxSendRate`: no more than so many bits in any second (RFC 9622, 8.1.8). No clock.

use std::time::{Duration, Instant};

/// Time at whose rate a write may go ahead: what one write takes beyond it delays the next.
const GRAIN: Duration = Duration::from_millis(10);

/// When the next write may be, by what was written.
#[derive(Debug)]
pub(super) struct Bucket {
    /// When what was written has had its time.
    free: Instant,
    /// Bytes written since that was reckoned.
    taken: u64,
}

impl Bucket {
    pub(super) fn new(now: Instant) -> Bucket {
        Bucket { free: now, taken: 0 }
    }

    /// So many bytes were written.
    pub(super) fn take(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Until when a write must wait at so many bits per second; none if it need not.
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
