//! Flow-control windows: how far the peer may send ahead of the application. A window grows as the
//! application reads.
//!
//! If the paths' round trips differ, data from the fast path waits for data on the slow one. The full rate
//! then needs a window of several times the rate times the longest round trip. If half of a window is read in
//! less than two such round trips, the window was holding the peer back, and it doubles. Only reading makes
//! it grow, so a peer that sends much, or leaves gaps, gets no more than before.

use std::time::Duration;

use hawser_time::Instant;

/// The window of a stream or a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    size: u64,
    max_size: u64,
    /// The number of bytes read at the last examination, and its time.
    read: u64,
    at: Instant,
}

impl Window {
    /// Creates a window of `size` bytes that may grow to `max_size`.
    pub(crate) fn new(size: u64, max_size: u64, now: Instant) -> Self {
        Self { size, max_size: max_size.max(size), read: 0, at: now }
    }

    /// Returns its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Records that `read` bytes in all have been read.
    pub(crate) fn read(&mut self, read: u64, max_round_trip: Duration, now: Instant) {
        if read - self.read < self.size / 2 {
            return;
        }
        if now - self.at < 2 * max_round_trip {
            self.size = (2 * self.size).min(self.max_size);
        }
        (self.read, self.at) = (read, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    const fn at(ms: u64) -> Instant {
        Instant::after(Duration::from_millis(ms))
    }

    /// At 40 MB/s and 100 ms, growth stops when half of the window lasts two round trips.
    #[test]
    fn a_window_grows_until_it_no_longer_limits() {
        let mut window = Window::new(1_000_000, u64::MAX, at(0));
        for millisecond in 1..5_000 {
            window.read(millisecond * 40_000, ROUND_TRIP, at(millisecond));
        }
        assert_eq!(window.size(), 16_000_000);
    }

    #[test]
    fn a_slow_reader_gets_no_more() {
        let mut window = Window::new(1_000_000, u64::MAX, at(0));
        for tenth in 1..1_000 {
            window.read(tenth * 200_000, ROUND_TRIP, at(tenth * 100));
        }
        assert_eq!(window.size(), 1_000_000);
    }

    #[test]
    fn a_window_grows_no_further_than_its_maximum() {
        let mut window = Window::new(1_000, 3_000, at(0));
        (1..100).for_each(|step| window.read(step * 3_000, ROUND_TRIP, at(step)));
        assert_eq!(window.size(), 3_000);
        assert_eq!(
            Window::new(5_000, 3_000, at(0)).size(),
            5_000,
            "what was asked for is given"
        );
    }
}
