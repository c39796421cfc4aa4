//! Tests of a pipe itself, and of rules whose effect shows only within a pipe.

use std::time::Duration;

use hawser_time::Instant;

use super::*;
use crate::frame::samples::plain;

const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Sends `n` frames, numbered by their length (1, 2, …), `gap` apart. Returns pairs of arrival and length, in
/// order of arrival. Times are in nanoseconds.
fn through(profile: &Profile, n: usize, gap: u64) -> (Vec<(u64, usize)>, Pipe) {
    let mut pipe = Pipe::new(profile, 9, "test");
    let mut lost = |_: Instant, _: &'static str, _: &Frame| {};
    let mut arrived = Vec::new();
    let mut collect = |pipe: &mut Pipe, until: Instant| {
        while let Some(at) = pipe.next_deadline()
            && at <= until
        {
            // The origin means that a frame is ready now, at the time at which it was pushed.
            let at = if at == Instant::ORIGIN { until } else { at };
            while let Some(frame) = pipe.pop(at, &mut lost) {
                arrived.push((at.as_nanos(), frame.len()));
            }
        }
    };
    for i in 0..n {
        let now = at(i as u64 * gap);
        collect(&mut pipe, now);
        pipe.push(now, plain(i + 1), &mut |_, _, _| {});
    }
    collect(&mut pipe, at(u64::MAX - 1));
    (arrived, pipe)
}

#[test]
fn delay_is_exact() {
    let (arrived, _) = through(
        &Profile { delay: Duration::from_nanos(70), ..Profile::default() },
        100,
        10,
    );
    let expected: Vec<(u64, usize)> = (0..100).map(|i| (i * 10 + 70, i as usize + 1)).collect();
    assert_eq!(arrived, expected);
}

#[test]
fn rate_and_delay_add_up() {
    // 1 Gbit/s is 8 ns a byte. Frames of 1 to 50 bytes are sent at once: the k-th ends at 8 · k(k+1)/2.
    let profile = Profile {
        rate: Some(1_000_000_000),
        delay: Duration::from_nanos(1000),
        ..Profile::default()
    };
    let (arrived, _) = through(&profile, 50, 0);
    let expected: Vec<(u64, usize)> = (1..=50).map(|k| (4 * k * (k + 1) + 1000, k as usize)).collect();
    assert_eq!(arrived, expected);
}

#[test]
fn held_frames_are_overtaken() {
    let profile = Profile {
        reorder: 0.1,
        hold: Duration::from_nanos(35),
        delay: Duration::from_nanos(5),
        ..Profile::default()
    };
    let (arrived, pipe) = through(&profile, 10_000, 10);
    let late = arrived
        .iter()
        .filter(|(at, k)| *at == (*k as u64 - 1) * 10 + 40)
        .count();
    let on_time = arrived
        .iter()
        .filter(|(at, k)| *at == (*k as u64 - 1) * 10 + 5)
        .count();
    assert_eq!(late + on_time, 10_000);
    assert!((late as f64 - 1000.0).abs() < 5.0 * 900f64.sqrt(), "{late} late");
    let inversions = arrived.windows(2).filter(|w| w[0].1 > w[1].1).count();
    assert!(inversions > 500, "{inversions} inversions");
    let reorder = pipe.stage_counters().find(|s| s.name == "reorder").unwrap();
    assert_eq!(reorder.delayed, late as u64);
}

#[test]
fn copies_of_a_frame_follow_at_once() {
    let (arrived, pipe) = through(
        &Profile { duplicate: 0.3, delay: Duration::from_nanos(1), ..Profile::default() },
        10_000,
        10,
    );
    let copies = arrived.len() - 10_000;
    assert!(
        (copies as f64 - 3000.0).abs() < 5.0 * 2100f64.sqrt(),
        "{copies} copies"
    );
    let mut counts = vec![0; 10_001];
    arrived.iter().for_each(|(_, k)| counts[*k] += 1);
    assert!(counts[1..].iter().all(|c| *c == 1 || *c == 2));
    assert_eq!(pipe.counters().delivered, arrived.len() as u64);
}

#[test]
fn a_cut_loses_frames_in_flight_and_later_ones() {
    let mut pipe = Pipe::new(
        &Profile { delay: Duration::from_nanos(100), ..Profile::default() },
        1,
        "cut",
    );
    let mut losses = Vec::new();
    let mut lost =
        |at: Instant, name: &'static str, frame: &Frame| losses.push((at.as_nanos(), name, frame.len()));
    pipe.push(at(0), plain(1), &mut lost);
    pipe.push(at(60), plain(2), &mut lost);
    pipe.set_up(at(110), false, &mut lost);
    pipe.push(at(120), plain(3), &mut lost);
    pipe.set_up(at(130), true, &mut lost);
    pipe.push(at(140), plain(4), &mut lost);
    let out: Vec<usize> = std::iter::from_fn(|| pipe.pop(at(1000), &mut lost))
        .map(|f| f.len())
        .collect();
    assert_eq!(out, [1, 4], "the first had arrived before the cut");
    assert_eq!(losses, [(110, "down", 2), (120, "down", 3)]);
    assert_eq!(pipe.counters().down, 2);
}

#[test]
fn an_added_rule_leaves_other_rules_random_numbers_unchanged() {
    let lengths = |profile: &Profile| {
        let (arrived, _) = through(profile, 2000, 10);
        let mut lengths: Vec<usize> = arrived.iter().map(|(_, k)| *k).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    };
    let alone = lengths(&Profile { loss: 0.2, ..Profile::default() });
    let beside = lengths(&Profile {
        loss: 0.2,
        corrupt: 0.3,
        duplicate: 0.3,
        jitter: Duration::from_nanos(50),
        reorder: 0.2,
        ..Profile::default()
    });
    assert_eq!(alone, beside, "the same frames are lost");
}

#[test]
fn tuning_affects_only_later_frames() {
    let mut pipe = Pipe::new(&Profile { loss: 1.0, ..Profile::default() }, 1, "tune");
    let mut lost = |_: Instant, _: &'static str, _: &Frame| {};
    pipe.push(at(0), plain(1), &mut lost);
    pipe.tune(at(1), &Profile::default(), &mut lost);
    pipe.push(at(1), plain(2), &mut lost);
    assert_eq!(pipe.pop(at(1), &mut lost).map(|f| f.len()), Some(2));
    assert!(pipe.pop(at(1), &mut lost).is_none());
}

/// 1,000 bytes take a second at 8 kbit/s. Half of the first frame has left when the rate changes.
#[test]
fn a_new_rate_holds_for_frames_that_wait() {
    const SECOND: u64 = 1_000_000_000;
    for (rate, expected) in [
        (
            Some(80_000),
            [SECOND / 2 + SECOND / 20, SECOND / 2 + SECOND * 3 / 20],
        ),
        (Some(4_000), [SECOND * 3 / 2, SECOND * 7 / 2]),
        (None, [SECOND / 2, SECOND / 2]),
    ] {
        let line = |rate| Profile { rate, delay: Duration::from_nanos(7), ..Profile::default() };
        let mut pipe = Pipe::new(&line(Some(8_000)), 1, "rate");
        let mut lost = |_: Instant, _: &'static str, _: &Frame| panic!("nothing is lost");
        pipe.push(at(0), plain(1_000), &mut lost);
        pipe.push(at(0), plain(1_000), &mut lost);
        pipe.tune(at(SECOND / 2), &line(rate), &mut lost);
        let (mut now, mut arrived) = (at(SECOND / 2), Vec::new());
        while let Some(next) = pipe.next_deadline() {
            now = now.max(next);
            arrived.extend(pipe.pop(now, &mut lost).map(|_| now.as_nanos() - 7));
        }
        assert_eq!(arrived, expected, "{rate:?}");
        pipe.push(at(4 * SECOND), plain(1_000), &mut lost);
        let takes = rate.map_or(0, |rate| 8_000 * SECOND / rate);
        assert!(
            pipe.pop(at(4 * SECOND + takes + 7), &mut lost).is_some(),
            "{rate:?}: an idle line has its rate"
        );
    }
}

#[test]
fn frames_of_one_instant_keep_their_order() {
    let (arrived, _) = through(
        &Profile {
            delay: Duration::from_nanos(5),
            jitter: Duration::from_nanos(3),
            ..Profile::default()
        },
        500,
        0,
    );
    let order: Vec<usize> = arrived.iter().map(|(_, k)| *k).collect();
    assert_eq!(order, (1..=500).collect::<Vec<usize>>());
}

/// A rule that lets frames pass and records its first random number.
struct Probe(&'static str, std::sync::mpsc::Sender<u64>);

impl Rule for Probe {
    fn name(&self) -> &'static str {
        self.0
    }

    fn apply(&mut self, _now: Instant, _frame: &mut Frame, rng: &mut Rng) -> Verdict {
        self.1.send(rng.bits()).expect("the test listens");
        Verdict::Pass
    }
}

#[test]
fn every_rule_of_every_direction_has_its_own_random_numbers() {
    let (report, reported) = std::sync::mpsc::channel();
    for (seed, label) in [(1, "there"), (1, "back"), (2, "there")] {
        let rules: Vec<Box<dyn Rule>> = vec![
            Box::new(Probe("x", report.clone())),
            Box::new(Probe("y", report.clone())),
        ];
        Pipe::with_rules(rules, seed, label).push(at(0), plain(1), &mut |_, _, _| {});
    }
    drop(report);
    let shown: Vec<u64> = reported.into_iter().collect();
    let different: std::collections::BTreeSet<&u64> = shown.iter().collect();
    assert_eq!((shown.len(), different.len()), (6, 6));
}

#[test]
fn hostile_bytes_pass_all_rules_and_captures() {
    let mut rng = Rng::new(11, "hostile");
    let profile = Profile {
        rate: Some(1_000_000_000),
        ecn_bytes: Some(0),
        corrupt: 0.5,
        duplicate: 0.5,
        ..Profile::default()
    };
    let mut pipe = Pipe::new(&profile, 1, "hostile");
    for round in 0..20_000u64 {
        let mut frame = plain(rng.below(80) as usize);
        rng.fill(&mut frame.head);
        frame.link_header = [0, 14][rng.below(2) as usize];
        // Most frames look like IP up to some offset.
        let at = usize::from(frame.link_header);
        if let Some(first) = frame.head.get_mut(at) {
            *first = [0x45, 0x46, 0x60, *first][rng.below(4) as usize];
        }
        if let Some(protocol) = frame.head.get_mut(at + 9) {
            *protocol = [6, 17, 58, *protocol][rng.below(4) as usize];
        }
        frame.seg_size = rng.below(40) as u16;
        frame.partial = rng
            .chance(0.3)
            .then(|| (rng.below(90) as u16, rng.below(90) as u16));
        for mut packet in crate::segment::cut(frame.clone()) {
            packet.complete();
        }
        let now = Instant::from_nanos(round * 1000);
        pipe.push(now, frame, &mut |_, _, _| {});
        while pipe.pop(now, &mut |_, _, _| {}).is_some() {}
    }
    assert!(pipe.counters().delivered > 10_000);
}
