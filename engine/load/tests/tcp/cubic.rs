//! CUBIC, RFC 9438, compared with its formulas in floating point; HyStart++, RFC 9406.

use crate::bench::{Connection, MS, SECOND};
use crate::segment::Segment;

const BETA: f64 = 0.7;
const C: f64 = 0.4;
/// The round-trip time, in seconds.
const RTT: f64 = 0.1;

/// Opens a connection over 100 ms whose segments have 1000 bytes and whose window has grown to this many
/// segments in slow start.
fn grown(segments: u64) -> Connection {
    grown_with(segments, false)
}

fn grown_with(segments: u64, timestamps: bool) -> Connection {
    let params = ["HYSTART=false", "SLOW_START_LIMIT=1", "PROBES=false", "RCV_BUF=100000"];
    let mut c = Connection::agreed(&params, timestamps, |syn| Segment { sack_permitted: true, ..syn });
    fill(&mut c);
    while c.windows().0 < segments * 1000 {
        c.acknowledge(1000);
        fill(&mut c);
    }
    let _ = c.ranges();
    c
}

/// Ensures that there is always data to send.
fn fill(c: &mut Connection) {
    while c.bench.stack.writable(c.handle) > 1_000_000 {
        c.bench.send(c.handle, 500_000);
    }
}

/// Three segments arrive out of order, then all of them: a whole recovery.
fn lose(c: &mut Connection) {
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 4000)]);
    let _ = c.ranges();
    c.bench.advance(100 * MS);
    let flight = c.bench.observe(c.handle, "flight");
    c.acknowledge(flight as u32);
    let _ = c.ranges();
}

/// RFC 9438, 4.2 to 4.7, for each ACK of a segment. Windows are in segments, times in seconds.
struct Model {
    cwnd: f64,
    prior: f64,
    w_max: f64,
    w_est: f64,
    /// The time when congestion avoidance began, with its first ACK.
    epoch: Option<f64>,
    k: f64,
}

impl Model {
    /// Creates the model after a loss at `prior`, where `last` was the window before the previous loss.
    fn new(prior: f64, last: f64, cwnd: f64) -> Model {
        let w_max = if prior < last { prior * (1.0 + BETA) / 2.0 } else { prior };
        Model { cwnd, prior, w_max, w_est: cwnd, epoch: None, k: ((w_max - cwnd) / C).cbrt() }
    }

    fn w_cubic(&self, t: f64) -> f64 {
        C * (t - self.k).powi(3) + self.w_max
    }

    fn acked(&mut self, now: f64) {
        let t = now - *self.epoch.get_or_insert(now);
        let alpha = if self.w_est < self.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.w_est += alpha / self.cwnd;
        if self.w_cubic(t) < self.w_est {
            self.cwnd = self.cwnd.max(self.w_est);
        } else {
            let target = self.w_cubic(t + RTT).clamp(self.cwnd, 1.5 * self.cwnd);
            self.cwnd += (target - self.cwnd) / self.cwnd;
        }
    }
}

/// Runs one round trip of ACKs, one for each segment, in the connection and in the model. Their windows never
/// differ by more than a hundredth.
fn round(c: &mut Connection, model: &mut Model) {
    c.bench.advance(100 * MS);
    let flight = c.bench.observe(c.handle, "flight") / 1000;
    for _ in 0..flight {
        model.acked(c.bench.now as f64 / SECOND as f64);
        c.acknowledge(1000);
        let cwnd = c.windows().0 as f64 / 1000.0;
        assert!((cwnd / model.cwnd - 1.0).abs() < 0.01, "{cwnd} segments, not {}", model.cwnd);
    }
    fill(c);
    let _ = c.ranges();
}

/// RFC 9438, 4.6: the window becomes seven tenths of the data under way.
#[test]
fn a_loss_reduces_the_window_by_three_tenths() {
    let mut c = grown(100);
    lose(&mut c);
    assert_eq!(c.windows(), (70_000, 70_000));
}

/// RFC 9438, 4.2 and 4.4: concave up to the earlier window, then convex; as fast as Reno wherever Reno would
/// be faster (4.3). 100 segments: K = ∛(30 / 0.4) = 4.2 s.
#[test]
fn the_window_follows_the_cubic_function() {
    let mut c = grown(100);
    lose(&mut c);
    let mut model = Model::new(100.0, 0.0, 70.0);
    assert!((model.k - 4.217).abs() < 0.001);
    let mut plateau = 0.0;
    for rounds in 0..70 {
        round(&mut c, &mut model);
        if rounds == 42 {
            plateau = c.windows().0 as f64;
        }
    }
    assert!((plateau / 100_000.0 - 1.0).abs() < 0.02, "at K it is where it was: {plateau}");
    assert!(c.windows().0 > 105_000, "and then beyond: {:?}", c.windows());
}

/// RFC 9438, 4.3: with a small window the cubic function is slower than Reno.
#[test]
fn cubic_is_no_slower_than_reno() {
    let mut c = grown(20);
    lose(&mut c);
    assert_eq!(c.windows().0, 14_000);
    let mut model = Model::new(20.0, 0.0, 14.0);
    for _ in 0..30 {
        round(&mut c, &mut model);
    }
    // α = 9/17 segments in a round trip; 0.4 · (3 - 2.47)³ + 20 would be 20.06.
    assert!(c.windows().0 > 20_100, "{:?}", c.windows());
}

/// RFC 9438, 4.7: a flow that loses before it reaches its earlier window leaves room for others.
#[test]
fn fast_convergence_lowers_w_max() {
    let mut c = grown(100);
    lose(&mut c);
    let mut model = Model::new(100.0, 0.0, 70.0);
    (0..10).for_each(|_| round(&mut c, &mut model));
    let before = c.windows().0 as f64 / 1000.0;
    assert!(before < 95.0);
    lose(&mut c);
    let after = c.windows().0 as f64 / 1000.0;
    let mut model = Model::new(before, 100.0, after);
    assert!(model.w_max < before);
    (0..30).for_each(|_| round(&mut c, &mut model));
}

/// RFC 9438, 4.9.2: a spurious loss leaves no trace. The window continues from its earlier value on the same
/// curve. Here that is beyond the inflection, where a new curve would begin flat.
#[test]
fn after_a_spurious_loss_the_curve_continues() {
    let mut c = grown_with(100, true);
    let echo = |c: &mut Connection, len: u32, stamp: u32| {
        c.host = c.host.wrapping_add(len);
        let ack = Segment { timestamps: Some((7, stamp)), ..c.segment() };
        c.bench.inject(&ack);
        fill(c);
    };
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 4000)]);
    let again = c.bench.sent()[0].timestamps.expect("timestamps").0;
    c.bench.advance(100 * MS);
    let flight = c.bench.observe(c.handle, "flight");
    echo(&mut c, flight as u32, again);
    assert_eq!(c.windows(), (70_000, 70_000));
    let mut model = Model::new(100.0, 0.0, 70.0);
    (0..60).for_each(|_| round(&mut c, &mut model));

    let before = c.windows();
    c.bench.advance(100 * MS);
    c.sacks(&[(1000, 4000)]);
    assert!(c.windows().1 < 80_000, "taken for lost: {:?}", c.windows());
    let again = c.bench.sent()[0].timestamps.expect("timestamps").0;
    echo(&mut c, 4000, again.wrapping_sub(100));
    assert_eq!(c.windows().0, before.0);
    (0..40).for_each(|_| round(&mut c, &mut model));
    assert!(c.windows().0 > 170_000, "{:?}", c.windows());
}

/// RFC 9438, 4.8: a timeout starts again from one segment, up to seven tenths.
#[test]
fn a_timeout_restarts_cubic_from_one_segment() {
    let mut c = grown(50);
    c.bench.advance(2 * SECOND);
    assert_eq!(c.windows(), (1000, 35_000));
    // Then K is 0, and W_max is the window at the start of congestion avoidance.
    while c.windows().0 < 35_000 {
        c.bench.advance(100 * MS);
        let flight = c.bench.observe(c.handle, "flight").min(c.windows().0);
        (0..flight / 1000).for_each(|_| c.acknowledge(1000));
    }
    let left = c.bench.observe(c.handle, "flight") as u32;
    c.acknowledge(left);
    fill(&mut c);
    let _ = c.ranges();
    let cwnd = c.windows().0 as f64 / 1000.0;
    let mut model = Model { w_max: cwnd, k: 0.0, ..Model::new(50.0, 0.0, cwnd) };
    for _ in 0..30 {
        round(&mut c, &mut model);
    }
}

/// RFC 9438, 5.8: a window that is not used does not grow.
#[test]
fn a_window_not_in_use_stays() {
    let mut c = grown(20);
    lose(&mut c);
    let flight = c.bench.observe(c.handle, "flight") as u32;
    c.window = 500; // × 16: 8,000 bytes
    c.acknowledge(flight);
    let cwnd = c.windows().0;
    for _ in 0..50 {
        c.bench.advance(100 * MS);
        c.acknowledge(8000);
    }
    assert_eq!(c.windows().0, cwnd);
}

/// RFC 9406, 4.2: when round trips have grown by an eighth in slow start, the window grows only a quarter as
/// fast. After five rounds slow start is over. If the round trips shrink again, slow start continues.
#[test]
fn slow_start_ends_when_delay_grows() {
    for jitter in [false, true] {
        let params = ["SLOW_START_LIMIT=1", "PROBES=false"];
        let mut c = Connection::agreed(&params, false, |syn| Segment { sack_permitted: true, ..syn });
        fill(&mut c);
        let mut growth = Vec::new();
        for rounds in 0..9 {
            let delay = if rounds < 2 || jitter && rounds > 3 { 100 * MS } else { 100 * MS + 13 * MS };
            c.bench.advance(delay);
            let before = c.windows().0;
            let flight = c.bench.observe(c.handle, "flight") / 1000;
            (0..flight).for_each(|_| c.acknowledge(1000));
            fill(&mut c);
            let _ = c.ranges();
            growth.push(c.windows().0 as f64 / before as f64);
        }
        assert!(growth[..3].iter().all(|g| *g > 1.9), "{growth:?}");
        assert!((growth[3] - 1.25).abs() < 0.05, "{growth:?}");
        if jitter {
            // Eight samples show the shorter round trip (N_RTT_SAMPLE). At most these ACKs still add a
            // quarter.
            assert!(growth[4] > 1.9, "{growth:?}");
            assert!(growth[5..8].iter().all(|g| *g > 1.9), "{growth:?}");
        } else {
            assert!(growth[4..7].iter().all(|g| (*g - 1.25).abs() < 0.05), "{growth:?}");
            assert!(c.windows().1 < 1 << 30 && growth[8] < 1.1, "{growth:?}");
        }
    }
}

/// RFC 9406, 4.2: with fewer than eight samples in a round, the minimum is accidental and does not end slow
/// start.
#[test]
fn few_samples_do_not_end_slow_start() {
    // A quarter of the acknowledged bytes once ten samples have shown it, and all of them with only five
    // samples.
    for (samples, last) in [(10, 80 / 4), (5, 40)] {
        let mut c = Connection::agreed(&["PROBES=false"], false, |syn| Segment { sack_permitted: true, ..syn });
        fill(&mut c);
        let mut growth = Vec::new();
        for (delay, count) in [(100, 10), (100, 10), (120, samples), (120, samples), (120, samples)] {
            c.bench.advance(delay * MS);
            let before = c.windows().0;
            let flight = c.bench.observe(c.handle, "flight") as u32 / 1000;
            (0..count).for_each(|_| c.acknowledge(flight / count * 1000));
            fill(&mut c);
            let _ = c.ranges();
            growth.push((c.windows().0 - before) / 1000);
        }
        assert_eq!((&growth[..3], growth[4]), (&[10, 20, 40][..], last), "{samples} samples: {growth:?}");
    }
}
