//! The report of a transfer.

use std::time::Duration;

use serde::Serialize;

/// The bytes that each path had delivered at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// The time in seconds since the transfer began.
    pub seconds: f64,
    /// The number of bytes that the application had read.
    pub read: u64,
    /// The number of bytes that each path had delivered, by its index in [`Report::paths`].
    pub delivered: Vec<u64>,
}

/// A period in which the application had no bytes to read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pause {
    /// The start of the pause, in seconds.
    pub from: f64,
    /// The duration of the pause, in seconds.
    pub seconds: f64,
}

/// The result of a transfer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The number of bytes read.
    pub bytes: u64,
    /// The time from the start of connecting to the last byte, in seconds.
    pub seconds: f64,
    /// The time from the start of connecting to the first byte, in seconds.
    pub first_byte: f64,
    /// The paths, such as `tcp wlan0`.
    pub paths: Vec<String>,
    /// Samples at intervals of 50 ms.
    pub moments: Vec<Moment>,
    /// Pauses of more than 10 ms, in order.
    pub pauses: Vec<Pause>,
    /// Events, with times in seconds.
    pub events: Vec<(f64, String)>,
    /// The number of bytes that a session sent more than once.
    pub again: u64,
    /// The processor time of both sides and of the network between them, in seconds.
    pub cpu_seconds: f64,
}

impl Report {
    /// Returns the rate from `from` to the end, in bits per second.
    pub fn rate_after(&self, from: Duration) -> f64 {
        let from = from.as_secs_f64();
        let Some(first) = self.moments.iter().find(|moment| moment.seconds >= from) else {
            return self.rate();
        };
        8.0 * (self.bytes - first.read) as f64 / (self.seconds - first.seconds)
    }

    /// Returns the rate over the whole transfer, in bits per second.
    pub fn rate(&self) -> f64 {
        8.0 * self.bytes as f64 / self.seconds
    }

    /// Returns the duration in seconds of the longest pause that began or continued after `from`.
    pub fn longest_pause_after(&self, from: f64) -> f64 {
        let after = self
            .pauses
            .iter()
            .filter(|pause| pause.from + pause.seconds > from);
        after.map(|pause| pause.seconds).fold(0.0, f64::max)
    }

    /// Returns the time of the first event whose text contains `what`.
    pub fn when(&self, what: &str) -> Option<f64> {
        self.events
            .iter()
            .find(|(_, event)| event.contains(what))
            .map(|(at, _)| *at)
    }
}
