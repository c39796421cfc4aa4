//! The controllers on a bottleneck: one sender that always has data to send, a line, a queue in front of it,
//! and a delay. Expected values come from the theory, not from the code.

use std::collections::VecDeque;
use std::time::Duration;

use hawser_bus::twares::{Acked, Controller, Decision, Fast, FastParams, Reno};
use hawser_time::Instant;

const MSS: u64 = 1448;
const PACKET: u64 = 1500;
const SECOND: u64 = 1_000_000_000;

/// A path, and a sender on it.
struct Path {
    /// The rate of the line, in bit/s.
    rate: u64,
    /// The round-trip time without a queue, in nanoseconds.
    delay: u64,
    /// The capacity of the queue, in bytes.
    buffer: u64,
    /// The time at which the line is free again.
    free_at: u64,
    /// The arrival time of each acknowledgement, and the time at which its segment was sent; lost segments
    /// are absent.
    coming: VecDeque<(u64, u64)>,
    flight: u64,
    drops: u64,
    delivered: u64,
    now: u64,
}

impl Path {
    fn new(rate: u64, delay: u64, buffer: u64) -> Self {
        let coming = VecDeque::new();
        Self {
            rate,
            delay,
            buffer,
            free_at: 0,
            coming,
            flight: 0,
            drops: 0,
            delivered: 0,
            now: SECOND,
        }
    }

    /// Returns the bandwidth-delay product in bytes of payload.
    fn product(&self) -> u64 {
        (u128::from(self.rate) * u128::from(self.delay) / u128::from(8 * SECOND)) as u64 * MSS / PACKET
    }

    fn fill(&mut self, window: u64) {
        let time = PACKET * 8 * SECOND / self.rate;
        while self.flight + MSS <= window {
            let waiting = self.free_at.saturating_sub(self.now);
            if waiting / time * PACKET + PACKET > self.buffer {
                self.drops += 1;
                return;
            }
            self.free_at = self.free_at.max(self.now) + time;
            self.coming.push_back((self.free_at + self.delay, self.now));
            self.flight += MSS;
        }
    }

    /// Runs a controller for a time, with an acknowledgement for every `each` segments; calls `seen` with
    /// each.
    fn run(
        &mut self,
        controller: &mut impl Controller,
        seconds: u64,
        each: u64,
        mut seen: impl FnMut(&Acked, Decision),
    ) {
        let mut window = controller.established(0, false, MSS).window;
        let until = self.now + seconds * SECOND;
        self.fill(window);
        let mut bytes = 0;
        while let Some((at, sent)) = self.coming.pop_front().filter(|(at, _)| *at <= until) {
            self.now = at;
            bytes += MSS;
            self.flight -= MSS;
            self.delivered += MSS;
            if bytes >= each * MSS || self.coming.is_empty() {
                let flight = self.flight + bytes;
                let acked = Acked {
                    now: Instant::from_nanos(at),
                    rtt: at - sent,
                    bytes,
                    flight,
                    window,
                    mss: MSS,
                };
                let decision = controller.acked(acked);
                window = decision.window;
                bytes = 0;
                seen(&acked, decision);
            }
            self.fill(window);
        }
    }
}

fn megabits(path: &Path, delivered: u64, seconds: u64) -> f64 {
    (path.delivered - delivered) as f64 * 8e-6 / seconds as f64
}

/// The theory: q = α / rate, so the window is the product plus α (equation 3 at its fixed point).
#[test]
fn the_window_settles_at_the_product_and_alpha() {
    for (rate, milliseconds, seconds) in [
        (200_000_000, 120, 20),
        (200_000_000, 400, 40),
        (20_000_000, 30, 10),
    ] {
        for each in [1, 2] {
            let mut path = Path::new(rate, milliseconds * 1_000_000, u64::MAX);
            let (mut controller, mut last) = (Fast::new(FastParams::default()), 0);
            path.run(&mut controller, seconds, each, |_, decision| {
                last = decision.window
            });
            let theory = path.product() + 200 * MSS;
            let ratio = last as f64 / theory as f64;
            assert!(
                (ratio - 1.0).abs() < 0.02,
                "{rate} bit/s, {milliseconds} ms, ACK of {each}: {ratio}"
            );
        }
    }
}

/// The start leaves a queue of half the product without a loss, and takes seconds, not half a minute.
#[test]
fn the_start_loses_no_packets_with_half_a_bdp_of_buffer() {
    for (milliseconds, within) in [(120, 4), (400, 12)] {
        for share in [2, 4] {
            let mut path = Path::new(200_000_000, milliseconds * 1_000_000, 0);
            path.buffer = path.product() / share;
            let mut controller = Fast::new(FastParams::default());
            let (mut full_at, product) = (0, path.product());
            path.run(&mut controller, 60, 2, |acked, decision| {
                if full_at == 0 && decision.window >= product {
                    full_at = acked.now.as_nanos() - SECOND;
                }
            });
            let what = format!("{milliseconds} ms, buffer of a {share}th");
            assert_eq!(path.drops, 0, "{what}");
            assert!(
                (1..within * SECOND).contains(&full_at),
                "{what}: full after {full_at} ns"
            );
        }
    }
}

/// The rates in the paper's figure: at least 192 Mbit/s of 193.1 at 120 ms, 189 at 400 ms.
#[test]
fn fast_fills_the_line() {
    for (milliseconds, min_rate) in [(120, 192.0), (400, 189.0)] {
        let mut path = Path::new(200_000_000, milliseconds * 1_000_000, 1 << 22);
        let mut controller = Fast::new(FastParams::default());
        let mut early = 0;
        path.run(&mut controller, 60, 2, |acked, _| {
            if acked.now < Instant::after(Duration::from_secs(11)) {
                early += acked.bytes;
            }
        });
        let rate = megabits(&path, early, 50);
        assert!(
            (min_rate..193.1).contains(&rate),
            "{milliseconds} ms: {rate} Mbit/s"
        );
    }
}

/// Equation 1 as the paper prints it, in floating point, with the controller's inputs.
#[test]
fn the_mean_follows_equation_1() {
    let mut path = Path::new(200_000_000, 120_000_000, u64::MAX);
    let mut controller = Fast::new(FastParams::default());
    let (mut base, mut average) = (f64::MAX, 0.0);
    path.run(&mut controller, 30, 1, |acked, _| {
        let (rtt, window) = (acked.rtt as f64, acked.window as f64 / MSS as f64);
        let eta = if average == 0.0 {
            1.0
        } else {
            (3.0 / window).min(0.25)
        };
        average = (1.0 - eta) * average + eta * rtt;
        base = rtt.min(base);
    });
    let (min_rtt, mean) = controller.round_trips();
    assert_eq!(min_rtt as f64, base);
    assert!(
        (mean as f64 / average - 1.0).abs() < 1e-4,
        "{mean} ns, not {average}"
    );
}

/// Equation 3 as the paper prints it, in floating point: 100 ms without a queue, then 115 ms for ever. The
/// window is constant between two updates, each time at the equation's next value.
#[test]
fn the_window_follows_equation_3() {
    const LONG: u64 = 115_000_000;
    let mut controller = Fast::new(FastParams::default());
    let mut window = controller.established(100_000_000, false, MSS).window;
    // The values at which the window stayed for a third of a round trip, its present value, and the time of
    // its last change.
    let (mut stood, mut since, mut now) = (Vec::new(), 0, 0);
    while now < 60 * LONG {
        let acked = Acked {
            now: Instant::from_nanos(now),
            rtt: LONG,
            bytes: MSS,
            flight: window,
            window,
            mss: MSS,
        };
        let next = controller.acked(acked).window;
        if next != window {
            if now - since > LONG / 3 && !controller.is_starting() {
                stood.push(window as f64 / MSS as f64);
            }
            since = now;
        }
        window = next;
        now += LONG * MSS / window;
    }
    assert!(stood.len() > 20, "{stood:?}");
    for pair in stood.windows(2) {
        let w = pair[0];
        let model = (2.0 * w).min(0.5 * w + 0.5 * (100.0 / 115.0 * w + 200.0));
        assert!(
            (pair[1] - model).abs() < 0.01,
            "from {w} to {}, not {model}",
            pair[1]
        );
    }
}

/// A few of the acknowledgements are enough: the last of every ten milliseconds.
#[test]
fn fast_settles_alike_with_signals_every_ten_milliseconds() {
    let mut path = Path::new(200_000_000, 120_000_000, u64::MAX);
    let (mut controller, mut last) = (Fast::new(FastParams::default()), 0);
    path.run(&mut controller, 30, 167, |_, decision| last = decision.window);
    let theory = path.product() + 200 * MSS;
    assert!(
        (last as f64 / theory as f64 - 1.0).abs() < 0.02,
        "{last}, not {theory}"
    );
}

/// RFC 5681, 3.1: in congestion avoidance the window grows by a segment in each round trip.
#[test]
fn reno_adds_a_segment_in_a_round_trip() {
    let mut controller = Reno::new();
    let mut window = controller.established(0, false, MSS).window;
    controller.recovery_began(40 * MSS, MSS);
    controller.recovery_ended();
    window = window.max(20 * MSS);
    for round in 0..10 {
        assert_eq!(window, (20 + round) * MSS);
        for _ in 0..20 + round {
            let acked = Acked {
                now: Instant::ORIGIN,
                rtt: 1,
                bytes: MSS,
                flight: window,
                window,
                mss: MSS,
            };
            window = controller.acked(acked).window;
        }
    }
}
