//! A token bucket: a burst at once, and a steady rate after it (RFC 4443, 2.4(f)).

use std::time::Duration;

use hawser_time::Instant;

/// A limiter that lets up to `burst` events through at once and one more per `interval`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    burst: u32,
    interval: Duration,
    /// The time at which the bucket is full again; it is later than now by `interval` for each missing token.
    full_at: Instant,
}

impl TokenBucket {
    pub(super) fn new(burst: u32, interval: Duration) -> TokenBucket {
        TokenBucket { burst, interval, full_at: Instant::ORIGIN }
    }

    /// Takes a token; returns false if the bucket is empty.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let enough = full_at - now <= self.interval * self.burst;
        if enough {
            self.full_at = full_at;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_bucket_allows_a_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(3, Duration::from_nanos(100));
        let taken =
            |bucket: &mut TokenBucket, now| (0..10).filter(|_| bucket.take(Instant::from_nanos(now))).count();
        assert_eq!(taken(&mut bucket, 1_000), 3);
        assert_eq!(taken(&mut bucket, 1_099), 0);
        assert_eq!(taken(&mut bucket, 1_200), 2);
        assert_eq!(taken(&mut bucket, 100_000), 3);
        assert!(!bucket.take(Instant::from_nanos(100_000)));
    }
}
