//! What holds whatever the laws are told, on random events that include impossible ones.

use fastrand::Rng;
use hawser_twares::{Acked, Fast, FastParams, Law, MOST_WINDOW, Reno};

/// Numbers by a seed.
struct Dice(Rng);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Small, large, extreme: each as often.
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

fn stays_within(law: &mut impl Law, seed: u64) {
    let mut dice = Dice(Rng::with_seed(seed));
    let mut window = law.established(dice.number(1 << 30), false, 1448).window;
    let mut now = dice.number(1 << 40);
    for step in 0..2_000 {
        let context = format!("seed {seed}, step {step}");
        let mss = if dice.roll().is_multiple_of(16) {
            dice.number(9000)
        } else {
            1448
        };
        let segment = mss.clamp(1, 65_535);
        match dice.roll() % 32 {
            0 => {
                window = law
                    .timeout(dice.number(1 << 24), dice.roll().is_multiple_of(2), mss)
                    .window
            }
            1 => window = law.recovery_began(dice.number(1 << 24), mss).window,
            2..=4 => law.recovery_ended(),
            5 => law.sent(now, dice.number(1 << 20)),
            6 => window = dice.number(1 << 24),
            _ => {
                now = now.saturating_add(dice.number(1 << 27) % (1 << 40));
                let (rtt, bytes) = (dice.number(1 << 28), dice.number(1 << 16));
                let acked = Acked {
                    now,
                    rtt,
                    bytes,
                    flight: dice.number(1 << 24),
                    window,
                    mss,
                };
                let after = law.acked(acked).window;
                let before = window.clamp(segment, MOST_WINDOW);
                assert!(after <= 2 * before.max(segment), "{context}: {before} to {after}");
                assert!(
                    (segment.min(before)..=MOST_WINDOW).contains(&after),
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
        stays_within(
            &mut Fast::new(FastParams {
                alpha: u16::MAX,
                gamma: 100,
            }),
            seed,
        );
        stays_within(&mut Reno::new(), seed);
    }
}

/// The paper's T4 and T5: one segment after a timeout, half after the third duplicate; and T6.
#[test]
fn losses_do_what_the_table_says() {
    let mut law = Fast::new(FastParams::default());
    assert_eq!(law.established(100_000_000, false, 1000).window, 10_000); // RFC 6928
    let acked = Acked {
        now: 1,
        rtt: 100_000_000,
        bytes: 1000,
        flight: 10_000,
        window: 10_000,
        mss: 1000,
    };
    assert_eq!(law.acked(acked).window, 11_000);
    assert_eq!(law.recovery_began(80_000, 1000).window, 40_000);
    let repair = Acked {
        now: 2,
        window: 40_000,
        flight: 40_000,
        ..acked
    };
    assert_eq!(
        law.acked(repair).window,
        40_000,
        "acknowledgements of a recovery move nothing"
    );
    law.recovery_ended();
    assert_eq!(law.timeout(40_000, false, 1000).window, 1000);
    assert_eq!(law.round_trips(), (0, 0), "the path is measured anew");
    let again = Acked {
        now: 3,
        window: 1000,
        flight: 1000,
        ..acked
    };
    assert_eq!(law.acked(again).window, 2000);
    // 1.25 segments in a round trip would hold back a window that doubles: two.
    assert_eq!(
        law.acked(Acked {
            flight: 100,
            window: 2000,
            ..again
        })
        .pacing,
        Some(40_000)
    );
    law.sent(1_000_000, 1000);
    assert_eq!(law.next_sending(), 26_000_000);
    law.closed();
    assert_eq!(law.round_trips(), (0, 0));
}
