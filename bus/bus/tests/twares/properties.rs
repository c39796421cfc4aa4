//! Properties that hold for any input of the controllers, on random events that include impossible ones.

use fastrand::Rng;
use hawser_bus::twares::{Acked, Controller, Fast, FastParams, MAX_WINDOW, Reno};
use hawser_time::Instant;

/// Random numbers by a seed.
struct Random(Rng);

impl Random {
    fn roll(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a small, a large or an extreme number, with equal probability.
    fn number(&mut self, usual: u64) -> u64 {
        match self.roll() % 8 {
            0 => self.roll(),
            1 => u64::MAX,
            2 => 0,
            3 => self.roll() % 10,
            _ => self.roll() % usual.max(1),
        }
    }
}

fn stays_within(controller: &mut impl Controller, seed: u64) {
    let mut rng = Random(Rng::with_seed(seed));
    let mut window = controller.established(rng.number(1 << 30), false, 1448).window;
    let mut now = rng.number(1 << 40);
    for step in 0..2_000 {
        let context = format!("seed {seed}, step {step}");
        let mss = if rng.roll().is_multiple_of(16) {
            rng.number(9000)
        } else {
            1448
        };
        let segment = mss.clamp(1, 65_535);
        match rng.roll() % 32 {
            0 => {
                window = controller
                    .timeout(rng.number(1 << 24), rng.roll().is_multiple_of(2), mss)
                    .window
            }
            1 => window = controller.recovery_began(rng.number(1 << 24), mss).window,
            2..=4 => controller.recovery_ended(),
            5 => controller.sent(Instant::from_nanos(now), rng.number(1 << 20)),
            6 => window = rng.number(1 << 24),
            _ => {
                now = now.saturating_add(rng.number(1 << 27) % (1 << 40));
                let (rtt, bytes) = (rng.number(1 << 28), rng.number(1 << 16));
                let acked = Acked {
                    now: Instant::from_nanos(now),
                    rtt,
                    bytes,
                    flight: rng.number(1 << 24),
                    window,
                    mss,
                };
                let after = controller.acked(acked).window;
                let before = window.clamp(segment, MAX_WINDOW);
                assert!(after <= 2 * before.max(segment), "{context}: {before} to {after}");
                assert!(
                    (segment.min(before)..=MAX_WINDOW).contains(&after),
                    "{context}: {after}"
                );
                window = after;
            }
        }
    }
}

#[test]
fn windows_stay_within_their_bounds() {
    for seed in 0..200 {
        stays_within(&mut Fast::new(FastParams::default()), seed);
        stays_within(&mut Fast::new(FastParams { alpha: u16::MAX, gamma: 100 }), seed);
        stays_within(&mut Reno::new(), seed);
    }
}

/// T4 and T5 of the paper: one segment after a timeout, half after the third duplicate; and T6.
#[test]
fn losses_match_the_table() {
    let mut controller = Fast::new(FastParams::default());
    assert_eq!(controller.established(100_000_000, false, 1000).window, 10_000); // RFC 6928
    let acked = Acked {
        now: Instant::from_nanos(1),
        rtt: 100_000_000,
        bytes: 1000,
        flight: 10_000,
        window: 10_000,
        mss: 1000,
    };
    assert_eq!(controller.acked(acked).window, 11_000);
    assert_eq!(controller.recovery_began(80_000, 1000).window, 40_000);
    let repair = Acked { now: Instant::from_nanos(2), window: 40_000, flight: 40_000, ..acked };
    assert_eq!(
        controller.acked(repair).window,
        40_000,
        "acknowledgements of a recovery move nothing"
    );
    controller.recovery_ended();
    assert_eq!(controller.timeout(40_000, false, 1000).window, 1000);
    assert_eq!(controller.round_trips(), (0, 0), "the path is measured anew");
    let again = Acked { now: Instant::from_nanos(3), window: 1000, flight: 1000, ..acked };
    assert_eq!(controller.acked(again).window, 2000);
    // With 1.25 segments in a round trip, pacing would hold back a window that doubles; the factor is then
    // two.
    assert_eq!(
        controller
            .acked(Acked { flight: 100, window: 2000, ..again })
            .pacing,
        Some(40_000)
    );
    controller.sent(Instant::from_nanos(1_000_000), 1000);
    assert_eq!(controller.next_sending(), Some(Instant::from_nanos(26_000_000)));
    controller.closed();
    assert_eq!(controller.round_trips(), (0, 0));
}
