//! FAST TCP (Jin, Wei, Low 2004), in the form of six T-wares by Khan, Punnam and Zaghal.
//!
//! With η = min(3/w, 1/4) for each acknowledged segment, and T the round-trip time that it measures:
//!
//! ```text
//! avg ← (1 − η) · avg + η · T                                          (1)
//! q   = avg − base, base being the minimum T                             (2)
//! w   ← min(2w, (1 − γ) · w + γ · (base / avg · w + α))                (3)
//! ```
//!
//! The window thus settles at the bandwidth-delay product plus α, where the queue holds α segments. The paper
//! leaves some points open, which docs/decisions/0022-fast.md settles; in short:
//!
//! * Equation 3 is applied every other round trip, and the window moves to its new value during the first of
//!   the two. At the next update `avg` therefore belongs to about the present window, and there is no burst.
//! * Before that the window multiplies: by two in a round trip while there is no queue, by 13/12 while there
//!   is one. The pipe is full, and this phase ends, when even the minimum round-trip time of a round
//!   indicates an eighth of α in the queue.
//! * A loss halves the window. A timeout starts again from one segment, and measures the path anew.

use hawser_time::Instant;

use crate::twares::arithmetic::{between, mul_div};
use crate::twares::controller::{
    Acked, Controller, Decision, MAX_WINDOW, half, initial_window, pace, segment,
};

/// The parameters that a network's operator chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastParams {
    /// α: the number of segments that are to wait in the queue, 1 to 65535.
    pub alpha: u16,
    /// γ: the step of each update, in percent, 1 to 100.
    pub gamma: u8,
}

impl Default for FastParams {
    /// Returns values that suit 200 Mbit/s: a queue of 12 ms.
    fn default() -> Self {
        Self { alpha: 200, gamma: 50 }
    }
}

/// The divisor of α for the queue that ends the multiplication.
const FULL_DIVISOR: u64 = 8;
/// The divisor of acknowledged bytes for the growth while there is a queue.
const CAREFUL_DIVISOR: u64 = 12;

/// The controller, with its state of one connection.
#[derive(Clone, Debug)]
pub struct Fast {
    params: FastParams,
    /// The minimum round-trip time, in nanoseconds; 0 if none was measured.
    base: u64,
    /// The mean round-trip time, in nanoseconds; 0 if none was measured.
    average: u64,
    /// The window as last decided, in bytes.
    window: u64,
    phase: Phase,
    repairing: bool,
    sent_at: Instant,
    sent_bytes: u64,
    mss: u64,
}

/// The rule that moves the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Multiplies until the pipe is full: the end of the current round, and its minimum round-trip time.
    Multiply { round_ends: Instant, min_rtt: u64 },
    /// Applies equation 3. The window moves from one value to another from `since` on; the next update is
    /// twice as far away as the end of the movement. `used` is the largest flight since then.
    Equate {
        from: u64,
        goal: u64,
        since: Instant,
        update_at: Option<Instant>,
        used: u64,
    },
}

const BEGINNING: Phase = Phase::Multiply { round_ends: Instant::ORIGIN, min_rtt: 0 };
/// The window stays until the first update, two round trips after the next acknowledgement.
const SETTLED: Phase = Phase::Equate { from: 0, goal: 0, since: Instant::ORIGIN, update_at: None, used: 0 };

impl Fast {
    /// Makes the controller of a future connection.
    #[must_use]
    pub fn new(params: FastParams) -> Self {
        let params = FastParams { alpha: params.alpha.max(1), gamma: params.gamma.clamp(1, 100) };
        Self {
            params,
            base: 0,
            average: 0,
            window: 0,
            phase: BEGINNING,
            repairing: false,
            sent_at: Instant::ORIGIN,
            sent_bytes: 0,
            mss: 1,
        }
    }

    /// Returns the minimum and the mean round-trip time, in nanoseconds; 0 if none was measured.
    #[must_use]
    pub fn round_trips(&self) -> (u64, u64) {
        (self.base, self.average)
    }

    /// Returns whether the window still multiplies.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        matches!(self.phase, Phase::Multiply { .. })
    }

    /// Returns the time at which the next segment may be sent; `None` means at once. A flight is thereby
    /// spread over a round trip (the paper's burstiness control).
    #[must_use]
    pub fn next_sending(&self) -> Option<Instant> {
        let gap = self
            .decision()
            .pacing
            .map_or(0, |rate| mul_div(self.sent_bytes, 1_000_000_000, rate));
        (gap > 0).then(|| self.sent_at.plus_nanos(gap))
    }

    fn decision(&self) -> Decision {
        Decision {
            window: self.window,
            pacing: pace(self.window, self.average, self.is_starting()),
        }
    }

    /// Returns α in bytes.
    fn alpha(&self) -> u64 {
        u64::from(self.params.alpha) * self.mss
    }

    /// Applies equations 1 and 2.
    fn measure(&mut self, acked: &Acked) {
        if acked.rtt == 0 {
            return;
        }
        self.base = if self.base == 0 {
            acked.rtt
        } else {
            self.base.min(acked.rtt)
        };
        self.average = match self.average {
            0 => acked.rtt,
            average => mean(average, acked.rtt, acked.bytes, self.window),
        };
    }

    /// Returns the number of bytes in queues that this round-trip time indicates.
    fn backlog(&self, rtt: u64) -> u64 {
        mul_div(self.window, rtt.saturating_sub(self.base), rtt)
    }

    /// Grows the window before the pipe is full.
    fn multiply(&mut self, acked: &Acked, mut round_ends: Instant, mut min_rtt: u64) {
        let full = self.alpha() / FULL_DIVISOR;
        let rtt = if acked.rtt > 0 { acked.rtt } else { self.average };
        min_rtt = if min_rtt == 0 { rtt } else { min_rtt.min(rtt) };
        if acked.flight.saturating_mul(2) >= self.window {
            let growth = acked.bytes.min(self.window);
            self.window += if self.backlog(rtt) > full {
                growth / CAREFUL_DIVISOR
            } else {
                growth
            };
        }
        if acked.now >= round_ends {
            if self.backlog(min_rtt) > full {
                self.phase = SETTLED;
                return;
            }
            round_ends = acked.now.plus_nanos(self.average);
            min_rtt = 0;
        }
        self.phase = Phase::Multiply { round_ends, min_rtt };
    }

    /// Applies equation 3. A window that is not in use gives no evidence, and does not grow.
    fn target(&self, used: u64) -> u64 {
        let (window, gamma) = (self.window, u64::from(self.params.gamma));
        let wanted = mul_div(window, self.base, self.average) + self.alpha();
        let goal = (2 * window).min((window * (100 - gamma) + wanted * gamma) / 100);
        if goal > window && used.saturating_mul(2) < window {
            window
        } else {
            goal.clamp(self.mss, MAX_WINDOW)
        }
    }

    /// Sets a new goal every other round trip, and moves towards it with each acknowledgement.
    fn equate(&mut self, acked: &Acked, now: Instant) {
        let Phase::Equate { mut from, mut goal, mut since, mut update_at, mut used } = self.phase else {
            return;
        };
        used = used.max(acked.flight);
        if update_at.is_none_or(|at| now >= at) {
            from = self.window;
            let idle = update_at.is_none() || self.average == 0;
            goal = if idle { from } else { self.target(used) };
            since = now;
            update_at = Some(now.plus_nanos(self.average.saturating_mul(2)));
            used = 0;
        }
        let half = update_at.map_or(0, |at| at.nanos_since(since) / 2);
        self.window = between(from, goal, now.nanos_since(since), half);
        self.phase = Phase::Equate { from, goal, since, update_at, used };
    }
}

/// Applies equation 1 for `bytes` at once: η is 3 segments of the window for each acknowledged segment.
fn mean(average: u64, rtt: u64, bytes: u64, window: u64) -> u64 {
    let three = bytes.saturating_mul(3);
    let gap = average.abs_diff(rtt);
    let step = if three.saturating_mul(4) >= window {
        gap / 4
    } else {
        mul_div(gap, three, window)
    };
    if rtt >= average {
        average + step
    } else {
        average - step
    }
}

impl Controller for Fast {
    fn established(&mut self, rtt: u64, again: bool, mss: u64) -> Decision {
        *self = Self::new(self.params);
        self.mss = segment(mss);
        self.base = rtt;
        self.average = rtt;
        self.window = if again { self.mss } else { initial_window(self.mss) };
        self.decision()
    }

    fn sent(&mut self, now: Instant, bytes: u64) {
        self.sent_at = now;
        self.sent_bytes = bytes;
    }

    fn acked(&mut self, acked: Acked) -> Decision {
        self.mss = segment(acked.mss);
        if acked.window != self.window && !self.is_starting() {
            self.phase = SETTLED;
        }
        self.window = acked.window.clamp(self.mss, MAX_WINDOW);
        self.measure(&acked);
        if self.repairing {
            return self.decision();
        }
        match self.phase {
            Phase::Multiply { round_ends, min_rtt } => self.multiply(&acked, round_ends, min_rtt),
            Phase::Equate { .. } => self.equate(&acked, acked.now),
        }
        self.window = self.window.clamp(self.mss, MAX_WINDOW);
        self.decision()
    }

    fn timeout(&mut self, _flight: u64, _again: bool, mss: u64) -> Decision {
        self.mss = segment(mss);
        self.base = 0;
        self.average = 0;
        self.window = self.mss;
        self.phase = BEGINNING;
        self.repairing = false;
        self.decision()
    }

    fn recovery_began(&mut self, flight: u64, mss: u64) -> Decision {
        self.mss = segment(mss);
        self.window = half(flight, self.mss);
        self.phase = SETTLED;
        self.repairing = true;
        self.decision()
    }

    fn recovery_ended(&mut self) {
        self.repairing = false;
    }

    fn closed(&mut self) {
        *self = Self::new(self.params);
    }
}
