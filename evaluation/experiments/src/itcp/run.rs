//! One transfer under one congestion control, as the figures are drawn from it.

use serde::Serialize;

/// The share of payload in a packet of 1500 bytes: 1448 bytes of data.
pub(crate) const PAYLOAD: f64 = 1448.0 / 1500.0;

/// The paper's bottleneck.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Path {
    /// The rate of the link, in bits per second, headers of IP and TCP included.
    pub(crate) rate: u64,
    /// The round-trip time without a queue.
    pub(crate) round_trip_ms: u64,
    /// The size of the queue before the link, as a share of the bandwidth-delay product.
    pub(crate) buffer: f64,
}

impl Path {
    /// Returns a path of the paper's rate, 200 Mbit/s.
    pub(crate) fn new(round_trip_ms: u64, buffer: f64) -> Self {
        Self { rate: 200_000_000, round_trip_ms, buffer }
    }

    /// Returns the bandwidth-delay product in bytes, headers included.
    pub(crate) fn product(&self) -> u64 {
        self.rate / 8 * self.round_trip_ms / 1_000
    }

    /// Returns the bytes that the queue holds.
    pub(crate) fn queue(&self) -> u64 {
        (self.product() as f64 * self.buffer) as u64
    }

    /// Returns the highest rate of an application, in Mbit/s.
    pub(crate) fn ceiling(&self) -> f64 {
        self.rate as f64 * PAYLOAD / 1e6
    }
}

/// The state of a transfer at one time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Sample {
    /// The time, in seconds since the start.
    pub(crate) seconds: f64,
    /// The number of bytes that the receiver had read.
    pub(crate) received: u64,
    /// The sender's congestion window, in bytes.
    pub(crate) window: u64,
    /// The sender's smoothed round-trip time, in milliseconds.
    pub(crate) round_trip_ms: f64,
    /// The number of packets that the bottleneck's queue had dropped.
    pub(crate) dropped: u64,
    /// The number of packets lost because the machine was too slow for its lab.
    pub(crate) overrun: u64,
    /// The number of segments, or runs of segments, that the sender had retransmitted.
    pub(crate) again: u64,
}

/// The samples of a transfer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// The congestion control, and the TCP that ran it.
    pub(crate) contender: String,
    pub(crate) path: Path,
    pub(crate) samples: Vec<Sample>,
}

impl Run {
    fn last(&self) -> Sample {
        self.samples.last().copied().unwrap_or_default()
    }

    /// Returns the last sample at or before a time.
    pub(crate) fn at(&self, seconds: f64) -> Sample {
        let until = self
            .samples
            .iter()
            .take_while(|sample| sample.seconds <= seconds + 1e-9);
        until.last().copied().unwrap_or_default()
    }

    /// Returns the duration of the run, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.last().seconds
    }

    /// Returns the rate between two times, in Mbit/s.
    pub(crate) fn rate(&self, from: f64, to: f64) -> f64 {
        let (first, last) = (self.at(from), self.at(to));
        let seconds = last.seconds - first.seconds;
        if seconds > 0.0 {
            8e-6 * (last.received - first.received) as f64 / seconds
        } else {
            0.0
        }
    }

    /// Returns the rate in Mbit/s over the whole run, and over its second half, when the transfer has
    /// settled.
    pub(crate) fn rates(&self) -> [f64; 2] {
        let end = self.seconds();
        [self.rate(0.0, end), self.rate(end / 2.0, end)]
    }

    /// Returns the time, in seconds, at which the rate over one second first reached 95 % of the path's
    /// ceiling, if it did.
    pub(crate) fn full_after(&self) -> Option<f64> {
        let enough = 0.95 * self.path.ceiling();
        let full = |sample: &&Sample| {
            sample.seconds >= 1.0 && self.rate(sample.seconds - 1.0, sample.seconds) >= enough
        };
        self.samples.iter().find(full).map(|sample| sample.seconds)
    }

    /// Returns the number of packets dropped until a time, and in total.
    pub(crate) fn dropped(&self, start: f64) -> [u64; 2] {
        [self.at(start).dropped, self.last().dropped]
    }

    /// Returns the mean window of the second half, in bytes.
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

    /// Returns the total bytes received.
    pub(crate) fn total(&self) -> u64 {
        self.last().received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_of_samples() {
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
