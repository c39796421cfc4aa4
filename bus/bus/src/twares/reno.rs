//! Reno (RFC 5681) as the same T-wares, for comparison with FAST.

use hawser_time::Instant;

use crate::twares::controller::{
    Acked, Controller, Decision, MAX_WINDOW, half, initial_window, pace, segment,
};

/// The controller, with its state of one connection.
#[derive(Clone, Debug)]
pub struct Reno {
    window: u64,
    threshold: u64,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    counted: u64,
    /// The last round-trip time, in nanoseconds; 0 if none was measured.
    rtt: u64,
    repairing: bool,
}

impl Default for Reno {
    fn default() -> Self {
        Self { window: 0, threshold: MAX_WINDOW, counted: 0, rtt: 0, repairing: false }
    }
}

impl Reno {
    /// Makes the controller of a future connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn decision(&self) -> Decision {
        Decision {
            window: self.window,
            pacing: pace(self.window, self.rtt, self.window < self.threshold),
        }
    }

    fn grow(&mut self, bytes: u64, mss: u64) {
        if self.window < self.threshold {
            self.window = (self.window + bytes.min(self.window))
                .min(self.threshold)
                .max(self.window);
            return;
        }
        self.counted = self.counted.saturating_add(bytes); // one segment for each window (RFC 5681, 3.1)
        if self.counted >= self.window {
            self.counted -= self.window;
            self.counted = self.counted.min(self.window);
            self.window += mss;
        }
    }
}

impl Controller for Reno {
    fn established(&mut self, rtt: u64, again: bool, mss: u64) -> Decision {
        let mss = segment(mss);
        *self = Self {
            window: if again { mss } else { initial_window(mss) },
            rtt,
            ..Self::default()
        };
        self.decision()
    }

    fn sent(&mut self, _now: Instant, _bytes: u64) {}

    fn acked(&mut self, acked: Acked) -> Decision {
        let mss = segment(acked.mss);
        self.window = acked.window.clamp(mss, MAX_WINDOW);
        if acked.rtt > 0 {
            self.rtt = acked.rtt;
        }
        if !self.repairing && acked.flight.saturating_mul(2) >= self.window {
            self.grow(acked.bytes, mss);
        }
        self.window = self.window.min(MAX_WINDOW);
        self.decision()
    }

    fn timeout(&mut self, flight: u64, again: bool, mss: u64) -> Decision {
        let mss = segment(mss);
        if !again {
            self.threshold = half(flight, mss);
        }
        self.window = mss;
        self.counted = 0;
        self.repairing = false;
        self.decision()
    }

    fn recovery_began(&mut self, flight: u64, mss: u64) -> Decision {
        self.threshold = half(flight, segment(mss));
        self.window = self.threshold;
        self.counted = 0;
        self.repairing = true;
        self.decision()
    }

    fn recovery_ended(&mut self) {
        self.repairing = false;
    }

    fn closed(&mut self) {
        *self = Self::default();
    }
}
