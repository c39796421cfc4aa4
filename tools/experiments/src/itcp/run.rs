//! One transfer under one congestion control: what the figures are drawn from.

use serde::Serialize;

/// Bits that a packet of 1500 bytes brings, of those that it takes: 1448 bytes of text.
pub(crate) const PAYLOAD: f64 = 1448.0 / 1500.0;

/// The paper's bottleneck.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Path {
    /// Bits a second of the line, headers of IP and TCP included.
    pub(crate) rate: u64,
    /// The round trip without a queue.
    pub(crate) round_trip_ms: u64,
    /// The queue in front of the line, as a share of the bandwidth-delay product.
    pub(crate) buffer: f64,
}

impl Path {
    /// The paper's: 200 Mbit/s.
    pub(crate) fn new(round_trip_ms: u64, buffer: f64) -> Self {
        Self { rate: 200_000_000, round_trip_ms, buffer }
    }

    /// Bandwidth-delay product in bytes, headers included.
    pub(crate) fn product(&self) -> u64 {
        self.rate / 8 * self.round_trip_ms / 1_000
    }

    /// Bytes that the queue holds.
    pub(crate) fn queue(&self) -> u64 {
        (self.product() as f64 * self.buffer) as u64
    }

    /// What an application can get of it, in Mbit/s.
    pub(crate) fn ceiling(&self) -> f64 {
        self.rate as f64 * PAYLOAD / 1e6
    }
}

/// How things were at a time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Sample {
    /// Seconds since the start.
    pub(crate) seconds: f64,
    /// Bytes that the receiver had read.
    pub(crate) received: u64,
    /// The sender's congestion window, bytes.
    pub(crate) window: u64,
    /// Its smoothed round-trip time, milliseconds.
    pub(crate) round_trip_ms: f64,
    /// Packets that the bottleneck's queue had dropped.
    pub(crate) dropped: u64,
    /// Packets lost otherwise: by a machine too slow for its lab.
    pub(crate) overrun: u64,
    /// Segments, or runs of them, that it had sent again.
    pub(crate) again: u64,
}

/// What came of a transfer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// Which congestion control, where.
    pub(crate) contender: String,
    pub(crate) path: Path,
    pub(crate) samples: Vec<Sample>,
}

impl Run {
    fn last(&self) -> Sample {
        self.samples.last().copied().unwrap_or_default()
    }

    /// The last sample at or before a time.
    pub(crate) fn at(&self, seconds: f64) -> Sample {
        let until = self
            .samples
            .iter()
            .take_while(|sample| sample.seconds <= seconds + 1e-9);
        until.last().copied().unwrap_or_default()
    }

    /// How long it was looked at.
    pub(crate) fn seconds(&self) -> f64 {
        self.last().seconds
    }

    /// Mbit/s from one time to another.
    pub(crate) fn rate(&self, from: f64, to: f64) -> f64 {
        let (first, last) = (self.at(from), self.at(to));
        let seconds = last.seconds - first.seconds;
        if seconds > 0.0 {
            8e-6 * (last.received - first.received) as f64 / seconds
        } else {
            0.0
        }
    }

    /// Mbit/s over all, and of its second half, when what there is to settle has settled.
    pub(crate) fn rates(&self) -> [f64; 2] {
        let end = self.seconds();
        [self.rate(0.0, end), self.rate(end / 2.0, end)]
    }

    /// When it first had 95 % of what there is, over a second; if ever.
    pub(crate) fn full_after(&self) -> Option<f64> {
        let enough = 0.95 * self.path.ceiling();
        let full = |sample: &&Sample| {
            sample.seconds >= 1.0 && self.rate(sample.seconds - 1.0, sample.seconds) >= enough
        };
        self.samples.iter().find(full).map(|sample| sample.seconds)
    }

    /// Packets dropped until a time, and in all.
    pub(crate) fn dropped(&self, start: f64) -> [u64; 2] {
        [self.at(start).dropped, self.last().dropped]
    }

    /// The mean window of the second half, bytes.
    pub(crate) fn settled_window(&self) -> f64 {
        let half = self.seconds() / 2.0;
        let windows: Vec<u64> = self
            .samples
            .iter()
            .filter(|sample| sample.seconds >= half)
            .map(|sample| sample.window)
            .collect();
        windows.iter().sum::<u64>() as f64 / windows.len().max(1) as f64
    }

    /// Bytes in all.
    pub(crate) fn total(&self) -> u64 {
        self.last().received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences() {
        let sample = |seconds: f64, received| Sample { seconds, received, ..Sample::default() };
        let samples = vec![sample(1.0, 0), sample(2.0, 1_000_000), sample(4.0, 51_000_000)];
        let run = Run { contender: String::new(), path: Path::new(120, 0.5), samples };
        assert_eq!(run.rate(1.0, 2.0), 8.0);
        assert_eq!(run.rate(2.0, 4.0), 200.0);
        assert_eq!(run.rates(), [102.0, 200.0]);
        assert_eq!(run.full_after(), Some(4.0));
        assert_eq!(Path::new(120, 0.5).queue(), 1_500_000);
    }
}
