//! What a transfer did.

use std::time::Duration;

use serde::Serialize;

/// What had come over each path at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// Seconds since the transfer began.
    pub seconds: f64,
    /// Bytes that the application had read.
    pub read: u64,
    /// Bytes that each path had brought, by its number in [`Report::paths`].
    pub delivered: Vec<u64>,
}

/// A time without anything for the application to read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pause {
    /// When it began, in seconds.
    pub from: f64,
    /// How long it was, in seconds.
    pub seconds: f64,
}

/// What a transfer did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Bytes that were read.
    pub bytes: u64,
    /// Until the last of them, from the moment that connecting began.
    pub seconds: f64,
    /// Until the first of them.
    pub first_byte: f64,
    /// The paths: `tcp wlan0`.
    pub paths: Vec<String>,
    /// Every 50 ms.
    pub moments: Vec<Moment>,
    /// Pauses of more than 10 ms, in their order.
    pub pauses: Vec<Pause>,
    /// What happened, with times in seconds.
    pub events: Vec<(f64, String)>,
    /// Bytes that a session sent more than once.
    pub again: u64,
    /// Processor time of both sides and of the network between them, in seconds.
    pub cpu_seconds: f64,
}

impl Report {
    /// Bits per second from `from` to the end.
    pub fn rate_after(&self, from: Duration) -> f64 {
        let from = from.as_secs_f64();
        let Some(first) = self.moments.iter().find(|moment| moment.seconds >= from) else {
            return self.rate();
        };
        8.0 * (self.bytes - first.read) as f64 / (self.seconds - first.seconds)
    }

    /// Bits per second from beginning to end.
    pub fn rate(&self) -> f64 {
        8.0 * self.bytes as f64 / self.seconds
    }

    /// The longest pause that began or went on after `from`, in seconds.
    pub fn longest_pause_after(&self, from: f64) -> f64 {
        let after = self
            .pauses
            .iter()
            .filter(|pause| pause.from + pause.seconds > from);
        after.map(|pause| pause.seconds).fold(0.0, f64::max)
    }

    /// When an event that contains `what` happened first.
    pub fn when(&self, what: &str) -> Option<f64> {
        self.events
            .iter()
            .find(|(_, event)| event.contains(what))
            .map(|(at, _)| *at)
    }
}
