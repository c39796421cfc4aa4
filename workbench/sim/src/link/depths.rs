//! The depth of a queue over time, in bounded memory: spans of equal width, which doubles when there are too
//! many.

use std::time::Duration;

use hawser_time::{Instant, nanos};
use serde::{Serialize, Serializer};

/// The initial width of a span, in nanoseconds.
const FIRST_WIDTH: u64 = 128;

/// The period for which a queue's depth is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start of the period.
    pub from: Instant,
    /// The end of the period.
    pub to: Instant,
    /// The maximum number of spans, at least 2. At least half of them are in use once enough time has passed.
    pub spans: usize,
}

/// Depths of a queue over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths {
    window: Window,
    /// The origin of times in reports.
    start: Instant,
    /// The width of each span, in nanoseconds.
    width: u64,
    /// The spans in the order of time; the queue was empty after the last of them.
    spans: Vec<DepthSpan>,
}

/// The bytes that waited during a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct DepthSpan {
    max_bytes: u64,
    /// Waiting bytes multiplied by the nanoseconds that they waited.
    byte_nanos: u128,
}

impl Depths {
    /// Creates an empty record of a run that starts at `start`.
    #[must_use]
    pub fn new(start: Instant, window: Window) -> Depths {
        Depths { window, start, width: FIRST_WIDTH, spans: Vec::new() }
    }

    /// Records that this many bytes waited from one time to another. Calls come in the order of time.
    pub fn waited(&mut self, from: Instant, to: Instant, bytes: u64) {
        let (from, to) = (from.max(self.window.from), to.min(self.window.to));
        if bytes == 0 || from > to {
            return;
        }
        let offset = |at: Instant| at.nanos_since(self.window.from);
        let (mut at, to) = (offset(from), offset(to));
        // A period that ends at the end of a span does not touch the next one. A period of no length belongs
        // to the span that it falls in.
        let last = to.saturating_sub(1).max(at);
        while last / self.width >= self.window.spans.max(2) as u64 {
            self.double();
        }
        let count = (last / self.width) as usize + 1;
        if self.spans.len() < count {
            self.spans.resize(count, DepthSpan::default());
        }
        loop {
            let number = at / self.width;
            let end = to.min((number + 1) * self.width);
            let span = &mut self.spans[number as usize];
            span.max_bytes = span.max_bytes.max(bytes);
            span.byte_nanos += u128::from(bytes) * u128::from(end - at);
            if end >= to {
                break;
            }
            at = end;
        }
    }

    /// Condenses the record to at most `spans` spans.
    #[must_use]
    pub fn condensed(mut self, spans: usize) -> Depths {
        self.window.spans = spans.max(2);
        while self.spans.len() > self.window.spans {
            self.double();
        }
        self
    }

    /// Returns the width of each span.
    #[must_use]
    pub fn width(&self) -> Duration {
        Duration::from_nanos(self.width)
    }

    /// Returns for each span its beginning, counted from the start of the run, the maximum number of bytes
    /// that waited in it, and the mean.
    pub fn spans(&self) -> impl Iterator<Item = (Duration, u64, f64)> + '_ {
        let from = self.window.from.nanos_since(self.start);
        let spans = self.spans.iter().zip(0u64..);
        spans.map(move |(span, number)| {
            let mean = span.byte_nanos as f64 / self.width as f64;
            let begins = from + number * self.width;
            (Duration::from_nanos(begins), span.max_bytes, mean)
        })
    }

    /// Joins each pair of spans.
    fn double(&mut self) {
        self.width *= 2;
        let pairs = self.spans.chunks(2).map(|pair| DepthSpan {
            max_bytes: pair.iter().map(|span| span.max_bytes).max().unwrap_or(0),
            byte_nanos: pair.iter().map(|span| span.byte_nanos).sum(),
        });
        self.spans = pairs.collect();
    }
}

impl Serialize for Depths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written {
            from_seconds: f64,
            step_seconds: f64,
            max_bytes: Vec<u64>,
            mean_bytes: Vec<f64>,
        }
        let written = Written {
            from_seconds: self.window.from.nanos_since(self.start) as f64 / 1e9,
            step_seconds: nanos(self.width()) as f64 / 1e9,
            max_bytes: self.spans().map(|(_, max, _)| max).collect(),
            mean_bytes: self.spans().map(|(_, _, mean)| mean).collect(),
        };
        written.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(1000 + nanos)
    }

    fn depths(from: u64, to: u64, spans: usize) -> Depths {
        let window = Window { from: at(from), to: at(to), spans };
        Depths::new(at(0), window)
    }

    fn spans(depths: &Depths) -> Vec<(u64, u64, f64)> {
        let all = depths.spans();
        all.map(|(from, max, mean)| (nanos(from), max, mean)).collect()
    }

    #[test]
    fn spans_have_their_maximum_and_mean() {
        let mut depths = depths(0, u64::MAX / 2, 8);
        depths.waited(at(64), at(96), 400);
        depths.waited(at(96), at(96), 900);
        depths.waited(at(192), at(320), 10);
        // 400 bytes for 32 of 128 ns; then 10 bytes for half of each of two spans.
        assert_eq!(spans(&depths), [(0, 900, 100.0), (128, 10, 5.0), (256, 10, 5.0)]);
    }

    /// For any length, there are no more spans than allowed, and neither the maximum nor the sum is lost.
    #[test]
    fn spans_double_when_there_are_too_many() {
        let mut depths = depths(0, u64::MAX / 2, 16);
        let (mut sum, mut now) = (0u128, 0u64);
        for step in 1..=2000u64 {
            let bytes = step * 7919 % 1500;
            depths.waited(at(now), at(now + step), bytes);
            sum += u128::from(bytes * step);
            now += step;
        }
        let all = spans(&depths);
        assert!((8..=16).contains(&all.len()), "{}", all.len());
        assert_eq!(depths.width(), Duration::from_nanos(128 << 10));
        let total: f64 = all.iter().map(|(_, _, mean)| mean * f64::from(128 << 10)).sum();
        assert!((total - sum as f64).abs() < 1.0, "{total} of {sum}");
        assert_eq!(all.iter().map(|(_, max, _)| *max).max(), Some(1499));
    }

    /// Spans that are joined later equal those of a record with fewer spans from the start.
    #[test]
    fn condensed_depths_equal_a_record_of_fewer_spans() {
        let [mut many, mut few] = [256, 8].map(|spans| depths(0, u64::MAX / 2, spans));
        for step in 0..500u64 {
            let (from, to, bytes) = (at(step * step), at(step * step + step), step % 13);
            many.waited(from, to, bytes);
            few.waited(from, to, bytes);
        }
        assert_eq!(many.clone().condensed(8), few);
        assert_ne!(many, few);
    }

    #[test]
    fn depths_outside_the_window_are_not_recorded() {
        let mut depths = depths(1000, 2000, 8);
        depths.waited(at(0), at(1256), 5);
        depths.waited(at(1900), at(9000), 6);
        depths.waited(at(9000), at(9100), 7);
        let all = spans(&depths);
        assert_eq!(all.first(), Some(&(1000, 5, 5.0)));
        assert_eq!(all.get(2), Some(&(1256, 0, 0.0)));
        assert_eq!(all.last(), Some(&(1896, 6, 6.0 * 100.0 / 128.0)));
    }

    #[test]
    fn reports_have_columns() {
        let mut depths = depths(0, u64::MAX / 2, 8);
        depths.waited(at(0), at(192), 4);
        let json = toml::to_string(&depths).expect("it is written");
        assert_eq!(
            json,
            "from_seconds = 0.0\nstep_seconds = 0.000000128\nmax_bytes = [4, 4]\nmean_bytes = [4.0, 2.0]\n"
        );
    }
}
