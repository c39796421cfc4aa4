//! Receiving: order, windows, timestamps. RFC 9293, 3.8.6.2.2 and 3.10.7.4; RFC 5681, 4.2; RFC 7323, 5.

use std::net::{IpAddr, SocketAddr};

use hawser_engine::{Limits, Notice, RequestError};
use hawser_ir::abi::OPT_RECEIVE_BUFFER;
use hawser_time::Instant;

use crate::bench::{Bench, Connection, MS, Offer, PEER_ISS, SECOND, State};
use crate::segment::{HOST, PEER, Segment};
use crate::stage::{Link, Stage};

#[test]
fn data_in_any_order_is_delivered_in_order() {
    let mut c = Connection::plain(&[]);
    let piece = |c: &Connection, at: u32, data: &[u8]| c.segment().at(c.next.wrapping_add(at)).payload(data);
    let third = piece(&c, 200, &[3; 100]);
    c.bench.inject(&third);
    assert_eq!(c.bench.one().ack, Some(c.next), "at once: a duplicate ACK");
    let second = piece(&c, 100, &[2; 100]);
    c.bench.inject(&second);
    assert_eq!(c.bench.one().ack, Some(c.next));
    assert_eq!(c.bench.notices(), []);
    let first = piece(&c, 0, &[1; 100]);
    c.bench.inject(&first);
    assert_eq!(c.bench.one().ack, Some(c.next.wrapping_add(300)), "at once: the gap is filled");
    assert_eq!(c.bench.notices(), [Notice::Readable]);
    let data = c.bench.read(c.handle, 1000);
    assert_eq!(data, [[1; 100], [2; 100], [3; 100]].concat());
}

#[test]
fn overlapping_and_old_data_is_cut() {
    let mut c = Connection::plain(&[]);
    c.peer_sends(100);
    let overlapping = c.segment().at(c.next.wrapping_sub(50)).payload([vec![b'x'; 50], vec![b'q'; 50]].concat());
    c.bench.inject(&overlapping);
    let _ = c.bench.sent();
    c.bench.inject(&overlapping);
    assert_eq!(c.bench.one().ack, Some(c.next.wrapping_add(50)), "old news are acknowledged at once");
    assert_eq!(c.bench.read(c.handle, 1000), [vec![b'p'; 100], vec![b'q'; 50]].concat());
}

/// More gaps than a connection remembers lose data, but never the expected segment.
#[test]
fn any_number_of_gaps_is_filled() {
    let mut c = Connection::plain(&[]);
    for i in (1..100).rev() {
        let segment = c.segment().at(c.next.wrapping_add(i * 20)).payload(vec![b'p'; 10]);
        c.bench.inject(&segment);
    }
    for i in 0..100 {
        for part in [0, 10] {
            let data = c.segment().at(c.next.wrapping_add(i * 20 + part)).payload(vec![b'p'; 10]);
            c.bench.inject(&data);
        }
    }
    assert_eq!(c.bench.read(c.handle, 10_000), vec![b'p'; 2000]);
}

/// The right edge never moves left. It advances in steps of at least a segment (or half the buffer).
#[test]
fn the_window_closes_and_opens_as_it_should() {
    for scale in [None, Some(0)] {
        let offer = Offer { mss: Some(1000), scale, timestamps: false };
        let mut c = Connection::open(&["RCV_BUF=100000"], offer, 65535);
        let shift = if scale.is_some() { 1 } else { 0 };
        let mut edge = c.next.wrapping_add(1);
        let mut check = |c: &mut Connection| {
            for segment in c.bench.sent() {
                let right = segment.ack.expect("an ACK").wrapping_add(u32::from(segment.window) << shift);
                assert!(right.wrapping_sub(edge) < 1 << 31, "the edge moved left");
                let step = right.wrapping_sub(edge);
                assert!(step <= 1 || step >= 1000, "a step of {step}");
                edge = right;
            }
        };
        // Odd sizes force scaling to round.
        for i in 0..150 {
            c.peer_sends(701 + i % 3);
            check(&mut c);
        }
        for i in 0..300 {
            let _ = c.bench.read(c.handle, 333 + i % 7);
            check(&mut c);
        }
    }
}

#[test]
fn a_full_buffer_closes_the_window_and_reading_opens_it() {
    let mut c = Connection::open(&["RCV_BUF=20000"], Offer { mss: Some(1000), ..Offer::default() }, 65535);
    (0..20).for_each(|_| c.peer_sends(1000));
    assert_eq!(c.bench.sent().last().expect("ACKs").window, 0);

    // A probe is acknowledged, and its data is not accepted.
    let probe = c.segment().payload(*b"?");
    c.bench.inject(&probe);
    let answer = c.bench.one();
    assert_eq!((answer.ack, answer.window), (Some(c.next), 0));

    let _ = c.bench.read(c.handle, 500);
    c.bench.expect_nothing_sent();
    let _ = c.bench.read(c.handle, 960);
    assert_eq!(c.bench.one().window, 1460, "a segment's worth");
    let _ = c.bench.read(c.handle, 20_000);
    assert_eq!(c.bench.one().window, 20_000);
}

/// A closed window takes no data, but it does take acknowledgements (RFC 9293, 3.10.7.4).
#[test]
fn a_closed_window_accepts_acks() {
    let mut c = Connection::open(&["RCV_BUF=2000"], Offer { mss: Some(1000), ..Offer::default() }, 65535);
    (0..2).for_each(|_| c.peer_sends(1000));
    c.bench.send(c.handle, 100);
    let _ = c.bench.sent();
    c.host = c.host.wrapping_add(100);
    let segment = c.segment().payload(*b"too much");
    c.bench.inject(&segment);
    assert_eq!(c.bench.observe(c.handle, "flight"), 0);
}

/// A sender that has filled the window sends its acknowledgements from the window's edge, one beyond the
/// numbers that RFC 9293, 3.10.7.4, accepts. If both ends have filled it and the first ACKs were lost,
/// neither would ever learn of its peer's progress (RFC 9293, A.2; Gont and Borman, On the Validation of TCP
/// Sequence Numbers).
#[test]
fn a_partial_ack_counts_at_the_edge_of_the_window() {
    let mut c = Connection::open(&["RCV_BUF=2000"], Offer { mss: Some(1000), ..Offer::default() }, 65535);
    c.bench.send(c.handle, 2000);
    let _ = c.bench.sent();
    let reset = c.segment().at(c.next.wrapping_add(2000)).rst();
    c.bench.inject(&reset);
    c.bench.expect_nothing_sent();
    c.host = c.host.wrapping_add(1000);
    let beyond = c.segment().at(c.next.wrapping_add(2001));
    c.bench.inject(&beyond);
    assert_eq!(c.bench.observe(c.handle, "flight"), 2000, "one beyond the edge is too far");
    let at_the_edge = c.segment().at(c.next.wrapping_add(2000));
    c.bench.inject(&at_the_edge);
    assert_eq!(c.bench.observe(c.handle, "flight"), 1000);
}

/// PAWS (RFC 7323, 5.3): a segment that is older than the last one is acknowledged and dropped.
#[test]
fn old_timestamps_betray_old_segments() {
    let offer = Offer { mss: Some(1000), scale: None, timestamps: true };
    let mut c = Connection::open(&[], offer, 65535);
    let mut segment = c.segment().payload(*b"old");
    segment.timestamps = Some((6, 0));
    c.bench.inject(&segment);
    let ack = c.bench.one();
    assert_eq!((ack.ack, ack.timestamps.map(|t| t.1)), (Some(c.next), Some(7)));
    segment.timestamps = None;
    c.bench.inject(&segment);
    c.bench.expect_nothing_sent();
    assert_eq!(c.bench.notices(), []);

    segment.timestamps = Some((9, 0));
    c.bench.inject(&segment);
    assert_eq!(c.bench.notices(), [Notice::Readable]);
    c.bench.send(c.handle, 10);
    assert_eq!(c.bench.one().timestamps.map(|t| t.1), Some(9), "and is echoed");
}

/// RFC 7323, 5.5: after 24 idle days the peer's clock may have wrapped, and the last timestamp proves
/// nothing.
#[test]
fn a_timestamp_older_than_24_days_is_ignored() {
    for (days, taken) in [(23, false), (24, true)] {
        let mut c = Connection::open(&[], Offer { mss: Some(1000), scale: None, timestamps: true }, 65535);
        c.bench.advance(days * 86_400 * SECOND);
        let mut segment = c.segment().payload(*b"wrapped");
        segment.timestamps = Some((7u32.wrapping_sub(1 << 30), 0));
        c.bench.inject(&segment);
        assert_eq!(c.bench.notices() == [Notice::Readable], taken, "{days}");
        c.bench.send(c.handle, 10);
        let echo = c.bench.sent().pop().expect("data").timestamps.map(|t| t.1);
        assert_eq!(echo == segment.timestamps.map(|t| t.0), taken, "and it is the one to be echoed");
    }
}

/// RFC 7323, 4.3: a delayed ACK echoes the earlier of the two segments.
#[test]
fn a_held_acknowledgement_echoes_the_first_segment() {
    let offer = Offer { mss: Some(1000), scale: None, timestamps: true };
    let mut c = Connection::open(&[], offer, 65535);
    for value in [20, 21] {
        let mut segment = c.segment().payload(vec![b'p'; 988]);
        segment.timestamps = Some((value, 0));
        c.next = c.next.wrapping_add(988);
        c.bench.inject(&segment);
    }
    assert_eq!(c.bench.one().timestamps.map(|t| t.1), Some(20));
}

/// After the loss of our ACK, its repetition echoes the retransmitted segment, not the first one.
#[test]
fn the_timestamp_of_a_repeated_segment_is_echoed() {
    let offer = Offer { mss: Some(1000), scale: None, timestamps: true };
    let mut c = Connection::open(&[], offer, 65535);
    let mut segment = c.segment().payload(vec![b'p'; 988]);
    segment.timestamps = Some((20, 0));
    c.bench.inject(&segment);
    c.bench.advance(SECOND);
    assert_eq!(c.bench.one().timestamps.map(|t| t.1), Some(20));
    segment.timestamps = Some((1020, 0));
    c.bench.inject(&segment);
    assert_eq!(c.bench.one().timestamps.map(|t| t.1), Some(1020));
}

/// A timestamp counts only on a segment with a plausible acknowledgement. Otherwise a blind attacker who only
/// hits the window's neighbourhood could make every honest segment look old (RFC 7323, 7).
#[test]
fn timestamps_on_implausible_segments_are_ignored() {
    let offer = Offer { mss: Some(1000), scale: None, timestamps: true };
    let mut c = Connection::open(&[], offer, 65535);
    let nowhere = c.host.wrapping_add(1 << 30);
    for blind in [
        c.segment().at(c.next.wrapping_sub(10)).acks(nowhere),
        c.segment().acks(nowhere),
        c.segment().at(c.next.wrapping_sub(10)).payload([0; 20]).rst(),
    ] {
        c.bench.inject(&Segment { timestamps: Some((1 << 30, 0)), ..blind });
        let _ = c.bench.sent();
    }
    c.peer_sends(100);
    assert_eq!(c.bench.read(c.handle, 1000).len(), 100, "not taken for old");
}

/// The peer's numbers wrap around after 255 bytes in all tests. Here its stream goes well beyond.
#[test]
fn sequence_numbers_wrap() {
    let mut c = Connection::plain(&[]);
    (0..5).for_each(|_| c.peer_sends(100));
    assert!(c.next < PEER_ISS);
    assert_eq!(c.bench.read(c.handle, 1000).len(), 500);
    c.bench.is(c.handle, State::Established);
}

/// The initial number comes from a clock, so that the time of the open determines it.
#[test]
fn sent_sequence_numbers_wrap() {
    let first = |wait: u64| {
        let mut bench = Bench::new(&[]);
        bench.advance(wait);
        bench.connect();
        bench.one().seq
    };
    let ticks = 0u32.wrapping_sub(2000).wrapping_sub(first(0));
    let wait = u64::from(ticks) * 4000;
    assert_eq!(first(wait), 0u32.wrapping_sub(2000));

    let mut c = Connection::open_at(wait, Offer { mss: Some(1000), ..Offer::default() });
    c.bench.send(c.handle, 5000);
    assert_eq!(c.ranges(), (0..5).map(|i| (i * 1000, 1000)).collect::<Vec<_>>());
    c.acknowledge(3500);
    assert_eq!(c.bench.observe(c.handle, "flight"), 1500);
    (0..3).for_each(|_| c.acknowledge(0));
    assert_eq!(c.ranges(), [(0, 1000)]);
    c.acknowledge(1500);
    assert_eq!(c.bench.observe(c.handle, "flight"), 0);
}

#[test]
fn flushed_data_outlives_the_connection() {
    let mut c = Connection::plain(&[]);
    let last = c.segment().payload(*b"bye").rst();
    let data = c.segment().payload(*b"bye");
    c.bench.inject(&data);
    c.next = c.next.wrapping_add(3);
    c.bench.inject(&last.at(c.next));
    assert_eq!(c.bench.stack.contexts(), 0);
    assert_eq!(c.bench.read(c.handle, 10), b"bye");
}

/// A stack keeps the promise of its window. Params that ask for more than a connection may hold are refused
/// when the first connection is opened or awaited. They must not stall it later.
#[test]
fn a_buffer_beyond_the_limit_is_refused() {
    let limit = Limits::default().rx_bytes;
    for size in ["RCV_BUF=8388608", "RCV_BUF=16777216", "RCV_BUF=4294967295"] {
        let mut bench = Bench::new(&[size]);
        let (now, at) = (Instant::from_nanos(bench.now), |ip| SocketAddr::new(IpAddr::V4(ip), 80));
        let refused = RequestError::ReceiveBuffer(limit);
        assert_eq!(bench.stack.connect(now, at(PEER), None), Err(refused), "{size}");
        assert_eq!(bench.stack.listen(now, at(HOST), 1), Err(refused), "{size}");
        bench.expect_nothing_sent();
        assert_eq!(bench.stack.contexts(), 0, "{size}");
    }
    assert_eq!(Connection::plain(&["RCV_BUF=8000000"]).bench.stack.counters().receive_limit, 0);
}

/// Like Linux with any SO_RCVBUF, a stack that holds less per connection than TCP's usual buffer has smaller
/// windows.
#[test]
fn small_buffers_give_small_windows() {
    for bytes in [128 << 10, 512 << 10, 1 << 20, 1_114_111] {
        let took = carry(&mut Stage::that_holds(bytes), 2_000_000);
        assert!(took < 10_000, "{bytes}: {took} ms");
    }
}

/// Fetches 100 MB at a round trip of 100 ms, over a link of 200 MB/s, and reads them on arrival. Returns the
/// time in milliseconds.
fn fetch(params: &[&str]) -> u64 {
    let link = Link { byte_time: 5, delay: 50 * MS, queue: 200 * MS, lost: 0 };
    carry(&mut Stage::over(link, params), 100_000_000)
}

/// Returns the milliseconds until a client has read this many bytes of a server, on arrival.
fn carry(stage: &mut Stage, length: usize) -> u64 {
    stage.listen(80);
    let client = stage.connect(80);
    let (begin, mut written, mut taken, mut end) = (stage.now, 0, 0, 0);
    let data = vec![0; 1 << 20];
    let mut buffer = vec![0; 1 << 20];
    while end == 0 && stage.now < begin + 60 * SECOND {
        stage.run(SECOND, |stage| {
            let now = Instant::from_nanos(stage.now);
            for server in stage.accepted() {
                let rest = &data[..data.len().min(length - written)];
                written += stage.stacks[0].send(now, server, rest).unwrap_or(0);
            }
            taken += stage.stacks[1].recv(now, client, &mut buffer).unwrap_or(0);
            if taken == length && end == 0 {
                end = stage.now;
            }
        });
    }
    (end - begin) / MS
}

/// With Linux's dynamic right-sizing, the window follows the application's reads. At 10 MB/s, which is 1 MiB
/// in 100 ms, 100 MB take 10 s.
#[test]
fn the_window_grows_with_the_applications_reads() {
    let (fixed, grown) = (fetch(&["MAX_RCV_BUF=0"]), fetch(&["MAX_RCV_BUF=1073725440"]));
    println!("100 MB at 100 ms: {fixed} ms with 1 MiB, {grown} ms where the window grows");
    assert!((9_500..12_000).contains(&fixed), "{fixed}");
    assert!(grown < 4_500, "{grown}");
}

/// A buffer that the application chose stays fixed (like SO_RCVBUF in Linux).
#[test]
fn a_chosen_buffer_does_not_grow() {
    let mut bench = Bench::new(&["MAX_RCV_BUF=8000000"]);
    let local = SocketAddr::new(IpAddr::V4(HOST), 5000);
    let remote = SocketAddr::new(IpAddr::V4(PEER), 80);
    let now = Instant::from_nanos(bench.now);
    for (options, scale) in [(&[][..], 7), (&[(OPT_RECEIVE_BUFFER, 100_000)][..], 1)] {
        let handle = bench.stack.connect_with(now, remote, Some(local), options).expect("a connection");
        assert_eq!(bench.one().scale, Some(scale));
        bench.stack.abort(now, handle);
        bench.stack.release(handle);
        bench.settle();
    }
}
