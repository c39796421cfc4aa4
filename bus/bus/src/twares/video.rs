//! A symbiotic application's half in its transport (Khan and Zaghal 2007, the paper's reference [2]). It
//! controls the rate of a live encoder by the signals of the connection that carries it.
//!
//! [`RateController`] decides the rate, [`Adapt`] runs it as a T-ware, and [`Dial`] is shared by encoder and
//! T-ware. The idea is the reference's: lower the rate at once when the transport has a loss, and raise it
//! slowly while the transport keeps up. The constants are ours, in [`RateParams`] and at the controller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Hands, Schema, Scope, Signal, SourceId, Subscription, Tware};
use hawser_time::{Instant, nanos};

use crate::twares::arithmetic::mul_div;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// The minimum time over which the delivery rate is measured, which covers some frames.
const MEASURE: Duration = Duration::from_millis(200);
/// The maximum idle time that counts when the rate is raised, because without signals there is no evidence.
const MAX_STEP: Duration = Duration::from_millis(200);

/// The limits of an encoder, and the time that its frames may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateParams {
    /// The minimum rate, in bit/s.
    pub floor: u64,
    /// The maximum rate, in bit/s.
    pub ceiling: u64,
    /// The rate before any measurement, in bit/s.
    pub start: u64,
    /// The growth per second while there is no congestion, in bit/s.
    pub raise: u64,
    /// The maximum time of a frame from the encoder to the screen.
    pub deadline: Duration,
}

impl Default for RateParams {
    /// Returns 300 kbit/s to 8 Mbit/s, from 1 Mbit/s on with a growth of 500 kbit/s each second, for frames
    /// that have 400 ms.
    fn default() -> RateParams {
        let (floor, ceiling, start, raise) = (300_000, 8_000_000, 1_000_000, 500_000);
        RateParams { floor, ceiling, start, raise, deadline: Duration::from_millis(400) }
    }
}

/// The progress of the transport with the data written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportProgress {
    /// The time, by any clock that does not go backwards.
    pub now: Instant,
    /// Bytes written to the connection so far.
    pub written: u64,
    /// Bytes that have left the network so far.
    pub delivered: u64,
    /// The connection's window, in bytes.
    pub window: u64,
    /// The smoothed round-trip time; zero if none was measured.
    pub srtt: Duration,
}

/// A controller of the encoding rate: events in, target rate out. One value serves one connection.
///
/// * A third duplicate acknowledgement lowers the rate to 7/8, or to the capacity if that is less. The
///   capacity is the recent delivery rate, or the window in a round trip, whichever is less.
/// * A timeout lowers the rate to a half, or to 7/8 of the capacity if that is less.
/// * An acknowledgement raises it by [`RateParams::raise`] in a second, while undelivered data takes at most
///   half the deadline. From three quarters of the deadline on, even without losses, the rate falls to 7/8 of
///   the delivery rate. The queue then empties before frames are late.
///
/// The rate always stays within the encoder's bounds.
#[derive(Clone, Debug)]
pub struct RateController {
    params: RateParams,
    rate: u64,
    /// The start of the measurement of the delivery rate: the time, and the bytes delivered by then.
    began: Option<(Instant, u64)>,
    /// The delivery rate over the last measurement, in bit/s.
    carried: Option<u64>,
    latest: Instant,
}

impl RateController {
    /// Makes the controller of a future connection. If the bounds contradict each other, the floor applies.
    #[must_use]
    pub fn new(params: RateParams) -> RateController {
        let ceiling = params.ceiling.max(params.floor);
        let params = RateParams { ceiling, ..params };
        let rate = params.start.clamp(params.floor, ceiling);
        RateController { params, rate, began: None, carried: None, latest: Instant::ORIGIN }
    }

    /// Returns the target rate, in bit/s.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Handles an acknowledgement of new data.
    pub fn acked(&mut self, progress: TransportProgress) -> u64 {
        self.measure(progress);
        let passed = progress.now - std::mem::replace(&mut self.latest, progress.now);
        let waiting = progress
            .written
            .saturating_sub(progress.delivered)
            .saturating_mul(8);
        let carried = self.carried.unwrap_or(self.rate).max(1);
        let takes = Duration::from_nanos(mul_div(waiting, SECOND, carried));
        if takes <= self.params.deadline / 2 {
            let more = mul_div(self.params.raise, nanos(passed.min(MAX_STEP)), SECOND);
            self.set(self.rate.saturating_add(more))
        } else if takes > self.params.deadline / 4 * 3 {
            self.set(self.rate.min(eighths(carried, 7)))
        } else {
            self.rate
        }
    }

    /// Handles the third duplicate acknowledgement: a segment is lost.
    pub fn recovery_began(&mut self, progress: TransportProgress) -> u64 {
        self.set(eighths(self.rate, 7).min(self.allowed(progress)))
    }

    /// Handles the expiry of the retransmission timer.
    pub fn timeout(&mut self, progress: TransportProgress) -> u64 {
        self.set((self.rate / 2).min(eighths(self.allowed(progress), 7)))
    }

    /// Returns the known capacity in bit/s: the recent delivery rate, or the window in a round trip.
    fn allowed(&self, progress: TransportProgress) -> u64 {
        let window = match nanos(progress.srtt) {
            0 => u64::MAX,
            srtt => mul_div(progress.window.saturating_mul(8), SECOND, srtt),
        };
        self.carried.unwrap_or(u64::MAX).min(window)
    }

    fn measure(&mut self, progress: TransportProgress) {
        let Some((began, before)) = self.began else {
            self.began = Some((progress.now, progress.delivered));
            return;
        };
        let passed = progress.now - began;
        if passed >= MEASURE {
            let bits = progress.delivered.saturating_sub(before).saturating_mul(8);
            self.carried = Some(mul_div(bits, SECOND, nanos(passed)));
            self.began = Some((progress.now, progress.delivered));
        }
    }

    fn set(&mut self, rate: u64) -> u64 {
        self.rate = rate.clamp(self.params.floor, self.params.ceiling);
        self.rate
    }
}

fn eighths(value: u64, of: u64) -> u64 {
    mul_div(value, of, 8)
}

/// The state that an encoder and its T-ware share across threads.
#[derive(Debug, Default)]
pub struct Dial {
    rate: AtomicU64,
    written: AtomicU64,
}

impl Dial {
    /// Makes a dial that shows a rate, in bit/s.
    #[must_use]
    pub fn new(rate: u64) -> Dial {
        Dial { rate: AtomicU64::new(rate), written: AtomicU64::new(0) }
    }

    /// Returns the rate at which to encode the next frame, in bit/s.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Sets the rate, in bit/s.
    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Sets the number of bytes written to the connection so far, or about to be.
    pub fn set_written(&self, bytes: u64) {
        self.written.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes written to the connection.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// A [`RateController`] as a T-ware: it receives the events of one connection, turns a [`Dial`], and modifies
/// no variable.
#[derive(Debug)]
pub struct Adapt {
    provider: String,
    scope: Scope,
    controller: RateController,
    dial: Arc<Dial>,
}

impl Adapt {
    /// Subscribes to a provider's connections of a scope, which should contain one: `tcp`,
    /// `remote.port=7001`.
    #[must_use]
    pub fn new(provider: &str, scope: Scope, params: RateParams, dial: Arc<Dial>) -> Adapt {
        let controller = RateController::new(params);
        dial.set_rate(controller.rate());
        Adapt { provider: provider.to_owned(), scope, controller, dial }
    }
}

/// The events, each a subscription, and the minimum time between two of them.
const EVENTS: [(&str, Duration); 3] = [
    ("timeout", Duration::ZERO),
    ("recovery_began", Duration::ZERO),
    ("acked", Duration::from_millis(100)),
];

impl Tware for Adapt {
    fn subscriptions(&self) -> Vec<Subscription> {
        let subscription = |(event, interval): &(&str, Duration)| {
            Subscription::new([format!("{}.{event}", self.provider)])
                .with([".conn.delivered", ".conn.cc.cwnd", ".conn.srtt"])
                .priority(0)
                .every(*interval)
                .with_scope(self.scope.clone())
        };
        EVENTS.iter().map(subscription).collect()
    }

    fn begin(&mut self, _: SourceId, _: &Schema) {}

    fn signal(&mut self, subscription: usize, signal: &Signal<'_>, _: &mut Hands) {
        let [delivered, window, srtt] = *signal.variables() else {
            return;
        };
        let (now, written) = (signal.time(), self.dial.written());
        let progress =
            TransportProgress { now, written, delivered, window, srtt: Duration::from_nanos(srtt) };
        self.dial.set_rate(match subscription {
            0 => self.controller.timeout(progress),
            1 => self.controller.recovery_began(progress),
            _ => self.controller.acked(progress),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that carries `capacity` bit/s of a stream at the controller's rate, sampled every 100 ms.
    struct SimulatedLink {
        controller: RateController,
        at: TransportProgress,
    }

    impl SimulatedLink {
        fn new(params: RateParams) -> SimulatedLink {
            let at = TransportProgress {
                window: 1 << 20,
                srtt: Duration::from_millis(50),
                ..TransportProgress::default()
            };
            SimulatedLink { controller: RateController::new(params), at }
        }

        fn run(&mut self, tenths: u64, capacity: u64) {
            for _ in 0..tenths {
                self.at.now += Duration::from_millis(100);
                self.at.written += self.controller.rate() / 80;
                self.at.delivered = self.at.written.min(self.at.delivered + capacity / 80);
                self.controller.acked(self.at);
            }
        }

        fn waiting(&self) -> u64 {
            self.at.written - self.at.delivered
        }
    }

    #[test]
    fn the_rate_rises_linearly_to_the_ceiling() {
        let mut line = SimulatedLink::new(RateParams::default());
        line.run(1, 10_000_000);
        let first = line.controller.rate();
        line.run(20, 10_000_000);
        assert_eq!(line.controller.rate(), first + 2 * 500_000);
        line.run(200, 10_000_000);
        assert_eq!(line.controller.rate(), 8_000_000);
    }

    #[test]
    fn the_rate_follows_a_narrowing_line_without_loss() {
        let mut line = SimulatedLink::new(RateParams { start: 8_000_000, ..RateParams::default() });
        line.run(20, 10_000_000);
        line.run(20, 3_000_000);
        assert!(
            (2_000_000..=3_500_000).contains(&line.controller.rate()),
            "{}",
            line.controller.rate()
        );
        line.run(100, 3_000_000);
        // The queued data fits into the deadline of 400 ms.
        assert!(
            line.waiting() * 8 * 1_000 / 3_000_000 <= 400,
            "{} bytes wait",
            line.waiting()
        );
    }

    #[test]
    fn a_loss_lowers_the_rate_at_once() {
        let mut line = SimulatedLink::new(RateParams { start: 4_000_000, raise: 0, ..RateParams::default() });
        line.run(10, 10_000_000);
        assert_eq!(line.controller.clone().recovery_began(line.at), 3_500_000, "7/8");
        assert_eq!(line.controller.clone().timeout(line.at), 2_000_000, "a half");
        // A window of 12,500 bytes in 50 ms is 2 Mbit/s.
        line.at.window = 12_500;
        assert_eq!(line.controller.clone().recovery_began(line.at), 2_000_000);
        assert_eq!(line.controller.timeout(line.at), 1_750_000);
    }

    #[test]
    fn idle_periods_raise_the_rate_little_and_bounds_hold() {
        let mut controller = RateController::new(RateParams::default());
        assert_eq!(
            controller.acked(TransportProgress { now: Instant::NEVER, ..TransportProgress::default() }),
            1_100_000
        );
        let wild = [0, 1, 1 << 40, u64::MAX];
        for (now, delivered) in wild.into_iter().flat_map(|now| wild.map(|bytes| (now, bytes))) {
            for window in wild {
                let progress = TransportProgress {
                    now: Instant::from_nanos(now),
                    written: u64::MAX,
                    delivered,
                    window,
                    srtt: Duration::from_nanos(now),
                };
                for rate in [
                    controller.acked(progress),
                    controller.recovery_began(progress),
                    controller.timeout(progress),
                ] {
                    assert!((300_000..=8_000_000).contains(&rate));
                }
            }
        }
        let turned = RateParams { floor: 9, ceiling: 3, start: 5, ..RateParams::default() };
        assert_eq!(RateController::new(turned).rate(), 9);
    }

    #[test]
    fn losses_are_subscribed_at_once_and_acks_at_intervals() {
        let tware = Adapt::new("tcp", Scope::All, RateParams::default(), Arc::default());
        let asked: Vec<(String, Duration)> = tware
            .subscriptions()
            .iter()
            .map(|subscription| {
                (
                    subscription.events[0].as_str().to_owned(),
                    subscription.filter.interval,
                )
            })
            .collect();
        let expected = [
            ("tcp.timeout", Duration::ZERO),
            ("tcp.recovery_began", Duration::ZERO),
            ("tcp.acked", Duration::from_millis(100)),
        ];
        assert_eq!(
            asked,
            expected.map(|(event, interval)| (event.to_owned(), interval))
        );
        assert_eq!(tware.dial.rate(), 1_000_000);
    }
}
