//! Tests of queues behind pipes: the times at which frames leave, and the fate of frames that find no room.

use super::*;
use crate::frame::samples::{ipv4, plain};
use crate::link::Pipe;
use hawser_testing::internet_checksum;

const SECOND: u64 = 1_000_000_000;

const fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn line(rate: u64) -> Profile {
    Profile { rate: Some(rate), ..Profile::default() }
}

/// Sends frames at the given times. Returns the frames that leave with their times, in order, and the lost
/// ones.
fn through(pipe: &mut Pipe, frames: Vec<(u64, Frame)>) -> (Vec<(u64, Frame)>, Vec<usize>) {
    let (mut left, mut lost) = (Vec::new(), Vec::new());
    let mut collect = |pipe: &mut Pipe, until: u64| {
        while let Some(next) = pipe.next_deadline().filter(|next| *next <= at(until)) {
            let now = if next == Instant::ORIGIN { at(until) } else { next };
            while let Some(frame) = pipe.pop(now, &mut |_, _, _| {}) {
                left.push((now.as_nanos(), frame));
            }
        }
    };
    for (number, (time, mut frame)) in frames.into_iter().enumerate() {
        collect(pipe, time);
        frame.number = number as u64;
        pipe.push(at(time), frame, &mut |_, rule, frame| {
            assert_eq!(rule, "queue");
            lost.push(frame.number as usize);
        });
    }
    collect(pipe, u64::MAX - 1);
    (left, lost)
}

/// Returns the time at which each frame, given by its time in nanoseconds and its bytes, has left; `None` for
/// lost ones.
fn departures(profile: &Profile, frames: &[(u64, usize)]) -> Vec<Option<u64>> {
    let mut pipe = Pipe::new(profile, 1, "queue");
    let sent = frames.iter().map(|(time, len)| (*time, plain(*len))).collect();
    let (left, lost) = through(&mut pipe, sent);
    assert_eq!(left.len() + lost.len(), frames.len());
    let mut times = vec![None; frames.len()];
    left.iter()
        .for_each(|(time, frame)| times[frame.number as usize] = Some(*time));
    times
}

/// Returns a packet of this many bytes with this precedence.
fn packet(precedence: u8, bytes: usize) -> Frame {
    let mut frame = ipv4(253, &vec![precedence; bytes - 28]);
    frame.head[1] = precedence << 5;
    checksum::fill_ipv4(&mut frame.head[..20]);
    frame
}

/// Returns an IPv6 packet with this traffic class.
fn packet_v6(class: u8) -> Frame {
    let mut frame = plain(40);
    frame.head[0] = 0x60 | class >> 4;
    frame.head[1] = class << 4;
    frame
}

fn switch(priorities: u8, trim_to: Option<u64>, pool: Option<Arc<Pool>>) -> Port {
    Port { priorities, trim_to, pool, ..Port::default() }
}

#[test]
fn a_frame_takes_bits_over_rate() {
    let sent = [(0, 1000), (0, 500), (5_000_000, 1)];
    let expected = [1_000_000, 1_500_000, 5_001_000].map(Some);
    assert_eq!(departures(&line(8_000_000), &sent), expected);
}

#[test]
fn the_waiting_count_includes_frames_not_yet_sent() {
    let mut pipe = Pipe::new(&line(8_000_000), 1, "queue");
    for _ in 0..3 {
        pipe.push(at(0), plain(1000), &mut |_, _, _| {});
    }
    // A frame takes 1 ms.
    assert_eq!(pipe.waiting(at(999_999)), (3, 3000));
    assert_eq!(pipe.waiting(at(1_000_000)), (2, 2000));
    assert_eq!(pipe.under_way(), 3);
    while pipe.pop(at(3_000_000), &mut |_, _, _| {}).is_some() {}
    assert_eq!((pipe.waiting(at(3_000_000)), pipe.under_way()), ((0, 0), 0));
}

#[test]
fn a_busy_line_keeps_its_rate_exactly() {
    // 8 bits are not a multiple of 7 bit/s, but 7,000 bytes take exactly 8,000 s.
    let profile = Profile { queue_packets: u64::MAX, ..line(7) };
    let times = departures(&profile, &vec![(0, 1); 7000]);
    assert_eq!(times.last(), Some(&Some(8_000 * SECOND)));
}

#[test]
fn the_tail_is_dropped_at_either_limit() {
    let packets = Profile { queue_packets: 2, ..line(8000) };
    let times = departures(&packets, &[(0, 1), (0, 1), (0, 1), (1_000_000, 1)]);
    assert_eq!(times, [Some(1_000_000), Some(2_000_000), None, Some(3_000_000)]);

    let bytes = |queue_bytes| Profile { queue_bytes, ..line(8000) };
    let has_left = |profile: &Profile, sent: &[usize]| -> Vec<bool> {
        let sent: Vec<(u64, usize)> = sent.iter().map(|len| (0, *len)).collect();
        departures(profile, &sent).iter().map(Option::is_some).collect()
    };
    assert_eq!(has_left(&bytes(100), &[60, 41, 40]), [true, false, true]);
    assert_eq!(
        has_left(&bytes(10), &[60]),
        [true],
        "an empty queue takes any frame"
    );
}

#[test]
fn only_ecn_capable_packets_behind_a_queue_are_marked() {
    let profile = Profile { ecn_bytes: Some(1), ..line(8000) };
    let mut pipe = Pipe::new(&profile, 1, "queue");
    let marked = |bits: u8| {
        let mut frame = ipv4(17, b"x");
        frame.head[1] = bits;
        checksum::fill_ipv4(&mut frame.head[..20]);
        (0, frame)
    };
    let (left, _) = through(&mut pipe, [2, 2, 1, 0, 3].map(marked).into());
    let bits: Vec<u8> = left.iter().map(|(_, frame)| frame.head[1] & 3).collect();
    assert_eq!(bits, [2, 3, 3, 0, 3], "nothing waits when the first comes");
    for (_, frame) in &left {
        let sum = internet_checksum(&[&frame.head[..20]]);
        assert_eq!(sum, [0, 0], "the header checksum stays right");
    }
    let queue = pipe.stage_counters().find(|stage| stage.name == "queue");
    assert_eq!(queue.map(|queue| queue.changed), Some(2));
}

#[test]
fn marks_the_traffic_class_of_ipv6() {
    let mut frame = packet_v6(0x02);
    assert!(mark_ce(&mut frame));
    assert_eq!(frame.head[1], 0x30);
    assert!(!mark_ce(&mut frame), "once is enough");
}

/// RFC 2474, 4.2.2: the precedence is bits 0 to 2 of the octet, in both families.
#[test]
fn the_precedence_is_the_top_three_bits_of_the_octet() {
    for class in 0..=255u8 {
        let mut frame = packet(0, 28);
        frame.head[1] = class;
        assert_eq!(frame.precedence(), class / 32);
        assert_eq!(packet_v6(class).precedence(), class / 32);
    }
    assert_eq!(plain(40).precedence(), 0);
}

/// Computes the time at which each packet has left, with a plain list. Whenever the line becomes free, the
/// first packet of the highest priority among those that have arrived begins. An idle line begins with the
/// next arrival.
fn expected(arrivals: &[(u64, u8, u64)], queue_of: impl Fn(u8) -> u64) -> Vec<(u64, usize)> {
    let mut waiting: Vec<usize> = Vec::new();
    let (mut next, mut now, mut left) = (0, 0, Vec::new());
    while left.len() < arrivals.len() {
        while next < arrivals.len() && arrivals[next].0 < now {
            waiting.push(next);
            next += 1;
        }
        let best = waiting
            .iter()
            .copied()
            .max_by_key(|number| (queue_of(arrivals[*number].1), std::cmp::Reverse(*number)));
        let number = best.unwrap_or_else(|| {
            now = now.max(arrivals[next].0);
            next += 1;
            next - 1
        });
        waiting.retain(|other| *other != number);
        now += arrivals[number].2;
        left.push((now, number));
    }
    left
}

#[test]
fn the_highest_priority_leaves_first_without_preemption() {
    for (priorities, levels) in [
        (1u8, [0, 0, 0, 0, 0, 0, 0, 0]),
        (2, [0, 0, 0, 0, 1, 1, 1, 1]),
        (3, [0, 0, 0, 1, 1, 1, 2, 2]),
        (8, [0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "arrivals");
            let mut time = 0;
            let arrivals: Vec<(u64, u8, u64)> = (0..60)
                .map(|_| {
                    time += rng.between(0, 60);
                    (time, rng.below(8) as u8, rng.between(28, 90))
                })
                .collect();
            // At 8 Gbit/s a byte takes a nanosecond.
            let mut pipe = Pipe::behind(switch(priorities, None, None), &line(8 * SECOND), 1, "queue");
            let sent = arrivals
                .iter()
                .map(|(time, precedence, len)| (*time, packet(*precedence, *len as usize)));
            let (left, lost) = through(&mut pipe, sent.collect());
            let left: Vec<(u64, usize)> = left
                .iter()
                .map(|(time, frame)| (*time, frame.number as usize))
                .collect();
            assert_eq!(
                left,
                expected(&arrivals, |precedence| levels[usize::from(precedence)])
            );
            assert!(lost.is_empty());
        }
    }
}

#[test]
fn marking_depends_on_the_bytes_that_leave_first() {
    let profile = Profile { ecn_bytes: Some(1500), ..line(8000) };
    let mut pipe = Pipe::behind(switch(8, None, None), &profile, 1, "queue");
    let capable = |precedence: u8, len: usize| {
        let mut frame = packet(precedence, len);
        frame.head[1] |= 2;
        (0, frame)
    };
    // Bytes ahead of each frame: none, it is on the line; 1,000; 2,000; 1,000, as those of precedence 3 leave
    // later; 1,500.
    let sent = [(3, 1000), (3, 1000), (3, 500), (7, 500), (7, 100)]
        .map(|(precedence, len)| capable(precedence, len));
    let (left, _) = through(&mut pipe, sent.into());
    let mut marked: Vec<u64> = left
        .iter()
        .filter(|(_, frame)| frame.head[1] & 3 == 3)
        .map(|(_, frame)| frame.number)
        .collect();
    marked.sort_unstable();
    assert_eq!(marked, [2, 4]);
}

/// Between the thresholds the share of marked frames rises linearly.
#[test]
fn frames_are_marked_at_random_between_two_thresholds() {
    let profile = Profile {
        ecn_bytes: Some(100_000),
        ecn_all: Some((300_000, 0.2)),
        queue_packets: u64::MAX,
        ..line(8000)
    };
    let mut pipe = Pipe::new(&profile, 1, "queue");
    let sent = (0..40_000).map(|_| {
        let mut frame = packet(0, 40);
        frame.head[1] |= 2;
        (0, frame)
    });
    let (left, _) = through(&mut pipe, sent.collect());
    let marked = |range: std::ops::Range<usize>| {
        let frames = left[range].iter();
        frames.filter(|(_, frame)| frame.head[1] & 3 == 3).count()
    };
    let len = left[0].1.len();
    let [from, all] = [100_000, 300_000].map(|bytes| bytes / len);
    assert_eq!(
        (marked(0..from), marked(all + 1..left.len())),
        (0, left.len() - all - 1)
    );
    // The average is a tenth, with a twentieth in the lower half and three twentieths in the upper, to within
    // five standard deviations.
    let middle = from + (all - from) / 2;
    for (range, share) in [(from..middle, 0.05), (middle..all, 0.15)] {
        let (count, marked) = (range.len() as f64, marked(range) as f64);
        let deviation = (count * share * (1.0 - share)).sqrt();
        assert!(
            (marked - count * share).abs() < 5.0 * deviation,
            "{marked} of {count}"
        );
    }
}

#[test]
fn ports_share_the_memory_of_their_pool() {
    let pool = Arc::new(Pool::new(3000));
    let port = || Pipe::behind(switch(1, None, Some(Arc::clone(&pool))), &line(8000), 1, "queue");
    let (mut one, mut other) = (port(), port());
    let mut lost = Vec::new();
    let mut send = |pipe: &mut Pipe, time: u64, len: usize| {
        let before = lost.len();
        pipe.push(at(time), plain(len), &mut |_, _, frame| lost.push(frame.len()));
        lost.len() == before
    };
    assert!(send(&mut one, 0, 1000) && send(&mut one, 0, 1000) && send(&mut other, 0, 1000));
    assert!(!send(&mut other, 0, 1), "3,000 bytes wait");
    // After a second one frame of each pipe has left.
    assert!(one.pop(at(SECOND), &mut |_, _, _| {}).is_some());
    assert!(other.pop(at(SECOND), &mut |_, _, _| {}).is_some());
    assert!(!send(&mut other, SECOND, 2001) && send(&mut other, SECOND, 2000));
    // Frames that are lost with their link free their memory.
    other.set_up(at(SECOND), false, &mut |_, _, _| {});
    assert!(send(&mut one, SECOND, 2000) && !send(&mut one, SECOND, 1));
}

#[test]
fn a_packet_that_finds_its_queue_full_is_cut_and_leaves_first() {
    let profile = Profile { queue_bytes: 3000, ..line(8000) };
    let mut pipe = Pipe::behind(switch(2, Some(100), None), &profile, 1, "queue");
    let sent = (0..5).map(|_| (0, packet(0, 1500))).collect();
    let (left, lost) = through(&mut pipe, sent);
    // Two packets fill the queue: one is on the line, and three trimmed headers leave before the other one.
    let left: Vec<(u64, usize, u64)> = left
        .iter()
        .map(|(time, frame)| (*time / 1_000_000, frame.len(), frame.number))
        .collect();
    assert_eq!(
        left,
        [
            (1500, 1500, 0),
            (1600, 100, 2),
            (1700, 100, 3),
            (1800, 100, 4),
            (3300, 1500, 1)
        ]
    );
    assert_eq!((lost.len(), pipe.trimmed()), (0, 3));
}

/// One packet on the line and one header behind it fill both rooms. Further packets return to the sender,
/// once, and a packet that is no longer than a header is lost.
#[test]
fn a_packet_without_room_as_a_header_returns_to_its_sender() {
    let profile = Profile { queue_bytes: 1600, queue_packets: u64::MAX, ..line(8_000_000) };
    let port = Port { return_to_sender: true, ..switch(2, Some(1600), None) };
    let mut pipe = Pipe::behind(port, &profile, 1, "queue");
    let mut lost = 0;
    let mut push = |pipe: &mut Pipe, frame: Frame| {
        pipe.push(Instant::ORIGIN, frame, &mut |_, _, _| lost += 1);
        pipe.take_returned()
    };
    assert!(push(&mut pipe, packet(0, 1500)).is_empty());
    assert!(push(&mut pipe, packet(0, 1700)).is_empty(), "it is cut");
    let sent = packet(0, 1800);
    let returned = push(&mut pipe, sent.clone());
    let (from, to) = (&sent.head[12..16], &sent.head[16..20]);
    assert_eq!(returned.len(), 1);
    assert_eq!((&returned[0].head[12..16], &returned[0].head[16..20]), (to, from));
    assert_eq!((returned[0].len(), returned[0].is_cut()), (1600, true));
    let mut summed = returned[0].clone();
    checksum::fill_ipv4(&mut summed.head[..20]);
    assert_eq!(summed.head, returned[0].head, "the checksum holds");
    assert!(
        push(&mut pipe, returned[0].clone()).is_empty(),
        "twice is too often"
    );
    assert!(push(&mut pipe, packet(0, 1600)).is_empty(), "it was whole");
    assert_eq!((lost, pipe.counters().returned, pipe.trimmed()), (2, 1, 2));
}

#[test]
fn a_trimmed_packet_keeps_its_length_and_gets_top_priority() {
    let profile = Profile { queue_bytes: 1000, ..line(8000) };
    let port = || Pipe::behind(switch(2, Some(64), None), &profile, 1, "queue");
    let (mut first, mut second) = (port(), port());
    let whole = packet(0, 900);
    let sent = vec![(0, packet(0, 900)), (0, whole.clone())];
    let (left, _) = through(&mut first, sent);
    let cut = left[1].1.clone();
    assert!(cut.is_cut() && !whole.is_cut() && cut.len() == 64);
    let bytes = |frame: &Frame| {
        let mut frame = frame.clone();
        frame.flatten();
        frame.head
    };
    assert_eq!(bytes(&cut), bytes(&whole)[..64]);
    let more = vec![(0, packet(0, 100)), (0, packet(0, 100)), (0, cut)];
    let (left, _) = through(&mut second, more);
    let order: Vec<u64> = left.iter().map(|(_, frame)| frame.number).collect();
    assert_eq!(order, [0, 2, 1]);
}

#[test]
fn headers_that_find_no_room_are_lost() {
    let profile = Profile { queue_bytes: 300, ..line(8000) };
    let mut pipe = Pipe::behind(switch(2, Some(100), None), &profile, 1, "queue");
    // One packet is on the line, and three headers wait. Another header finds no room. Neither do a packet of
    // the highest priority and a short one of the lowest, which is not trimmed.
    let lens = [300, 300, 300, 300, 300];
    let mut sent: Vec<(u64, Frame)> = lens.map(|len| (0, packet(0, len))).into();
    sent.extend([(0, packet(7, 50)), (0, packet(0, 90))]);
    let (left, lost) = through(&mut pipe, sent);
    assert_eq!((left.len(), lost), (4, vec![4, 5, 6]));
    assert_eq!(pipe.trimmed(), 3);
}

#[test]
fn depths_are_the_most_that_waited_and_for_how_long() {
    let mut pipe = Pipe::new(&line(8000), 1, "queue");
    // 1,000 bytes wait for a second, and 500 for one and a half; the queue is then empty until 9 s.
    through(
        &mut pipe,
        vec![(0, plain(1000)), (0, plain(500)), (9 * SECOND, plain(10))],
    );
    let depth = pipe.depth().expect("it has a line");
    assert_eq!((depth.max_bytes, depth.max_packets), (1500, 2));
    let expected = 1000 * SECOND + 500 * SECOND * 3 / 2 + 10 * SECOND / 100;
    assert_eq!(depth.byte_nanos, u128::from(expected));
    assert_eq!(Pipe::new(&Profile::default(), 1, "none").depth(), None);
}
