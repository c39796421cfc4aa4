//! Receiving much data: gaps, windows, sequence numbers that wrap. RFC 9293, 3.8.6.2.2 and 3.10.7.4.

use std::net::{IpAddr, SocketAddr};

use hawser_engine::{StackLimits, RequestError};
use hawser_ir::abi::OPT_RECEIVE_BUFFER;
use hawser_time::Instant;

use crate::bench::{Bench, Connection, MS, Offer, SECOND};
use crate::segment::{HOST, PEER};
use crate::testbed::{Link, Testbed};

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

/// A stack keeps the promise of its window. Params that ask for more than a connection may hold are refused
/// when the first connection is opened or awaited. They must not stall it later.
#[test]
fn a_buffer_beyond_the_limit_is_refused() {
    let limit = StackLimits::default().rx_bytes;
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
        let took = carry(&mut Testbed::that_holds(bytes), 2_000_000);
        assert!(took < 10_000, "{bytes}: {took} ms");
    }
}

/// Fetches 100 MB at a round trip of 100 ms, over a link of 200 MB/s, and reads them on arrival. Returns the
/// time in milliseconds.
fn fetch(params: &[&str]) -> u64 {
    let link = Link { byte_time: 5, delay: 50 * MS, queue: 200 * MS, lost: 0 };
    carry(&mut Testbed::over(link, params), 100_000_000)
}

/// Returns the milliseconds until a client has read this many bytes of a server, on arrival.
fn carry(stage: &mut Testbed, length: usize) -> u64 {
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
