//! Options of individual connections, keepalive, and the user timeout.

use std::net::{IpAddr, SocketAddr};

use hawser_time::Instant;
use hawser_engine::{Errno, Handle, Notice, RequestError};
use hawser_ir::abi::*;

use crate::bench::{Bench, Connection, MS, Offer, PEER_ISS, PEER_PORT, SECOND, State};
use crate::segment::{HOST, PEER, Segment};

fn set(c: &mut Connection, option: u32, value: u64) {
    assert_eq!(c.bench.stack.set_option(Instant::from_nanos(c.bench.now), c.handle, option, value), Ok(()));
    c.bench.settle();
}

fn connect_with(bench: &mut Bench, options: &[(u32, u64)]) -> Handle {
    let remote = SocketAddr::new(IpAddr::V4(PEER), PEER_PORT);
    let local = SocketAddr::new(IpAddr::V4(HOST), 5000);
    bench.stack.connect_with(Instant::from_nanos(bench.now), remote, Some(local), options).expect("a connection")
}

/// Returns the times of the host's segments, in milliseconds since `from`.
fn times(c: &mut Connection, from: u64) -> Vec<u64> {
    c.bench.timed().iter().map(|(time, _)| (time - from) / MS).collect()
}

#[test]
fn unknown_options_and_values_without_sense_are_refused() {
    let mut c = Connection::plain(&[]);
    let (now, handle) = (c.bench.now, c.handle);
    let mut outcome = |option, value| c.bench.stack.set_option(Instant::from_nanos(now), handle, option, value).err();
    for option in [0, 999] {
        assert_eq!(outcome(option, 1), Some(RequestError::Refused(Errno::UNKNOWN_OPTION)));
    }
    let senseless = [
        (OPT_NODELAY, 2),
        (OPT_CORK, 2),
        (OPT_QUICK_ACK, 7),
        (OPT_KEEPALIVE, 32_768 * SECOND),
        (OPT_KEEPALIVE_INTERVAL, 0),
        (OPT_KEEPALIVE_COUNT, 0),
        (OPT_KEEPALIVE_COUNT, 128),
        (OPT_MAX_SEGMENT, 87),
        (OPT_MAX_SEGMENT, 32_768),
        (OPT_RECEIVE_BUFFER, 0),
        (OPT_TOS, 256),
        (OPT_TTL, 256),
    ];
    for (option, value) in senseless {
        assert_eq!(outcome(option, value), Some(RequestError::Refused(Errno::INVALID)), "{option} {value}");
    }
    c.bench.expect_nothing_sent();
}

/// RFC 9293, 3.7.4 (MUST-17): an application can disable Nagle's algorithm, with immediate effect.
#[test]
fn no_delay_sends_data_held_by_nagle() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 100);
    c.bench.send(c.handle, 100);
    assert_eq!(c.ranges(), [(0, 100)], "Nagle");
    set(&mut c, OPT_NODELAY, 1);
    assert_eq!(c.ranges(), [(100, 100)]);
    c.bench.send(c.handle, 100);
    assert_eq!(c.ranges(), [(200, 100)]);
}

#[test]
fn a_cork_holds_small_segments_until_uncorked_or_timed_out() {
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_CORK, 1);
    c.bench.send(c.handle, 1100);
    assert_eq!(c.ranges(), [(0, 1000)], "full segments pass");
    c.acknowledge(1000);
    c.bench.advance(199 * MS);
    c.bench.expect_nothing_sent();
    set(&mut c, OPT_CORK, 0);
    assert_eq!(c.ranges(), [(0, 100)]);
    c.acknowledge(100);
    set(&mut c, OPT_CORK, 1);
    c.bench.send(c.handle, 100);
    c.bench.advance(199 * MS);
    c.bench.expect_nothing_sent();
    c.bench.advance(MS);
    assert_eq!(c.ranges(), [(0, 100)], "Linux's ceiling: 200 ms");
    c.acknowledge(100);
    c.bench.send(c.handle, 100);
    c.bench.close(c.handle);
    assert_eq!(c.ranges(), [(0, 101)], "closing draws it");
}

#[test]
fn quick_acks_are_immediate() {
    let mut c = Connection::plain(&[]);
    c.peer_sends(500);
    c.bench.expect_nothing_sent();
    set(&mut c, OPT_QUICK_ACK, 1);
    assert_eq!(c.bench.one().ack, Some(c.next));
    c.peer_sends(500);
    assert_eq!(c.bench.one().ack, Some(c.next));
}

/// Values that the first segment states must be known before it leaves.
#[test]
fn first_options_shape_the_syn() {
    let mut bench = Bench::new(&[]);
    let options = [(OPT_MAX_SEGMENT, 500), (OPT_RECEIVE_BUFFER, 4_000_000), (OPT_TOS, 0xb8), (OPT_TTL, 9)];
    let handle = connect_with(&mut bench, &options);
    let syn = bench.one();
    // 4,000,000 < 2^22 fits into 16 bits with a shift of 6.
    assert_eq!((syn.mss, syn.scale, syn.window), (Some(500), Some(6), 65535));
    assert_eq!(bench.last_packet[1], 0xb8, "expedited forwarding (RFC 3246)"); // RFC 9293, 3.9.1.9 (MUST-48, SHLD-22)
    assert_eq!(bench.last_packet[8], 9, "the time to live (RFC 9293, 3.9.2, MUST-49)");
    let answer = Segment {
        source: PEER_PORT,
        destination: 5000,
        seq: PEER_ISS,
        ack: Some(syn.seq.wrapping_add(1)),
        syn: true,
        window: 65535,
        mss: Some(1460),
        scale: Some(0),
        ..Segment::default()
    };
    bench.inject(&answer);
    assert_eq!(u32::from(bench.one().window) << 6, 4_000_000);
    bench.send(handle, 1000);
    let sizes: Vec<usize> = bench.sent().iter().map(|s| s.payload.len()).collect();
    assert_eq!(sizes, [500, 500], "and bounds what is sent, whatever the peer takes");
    assert_eq!((bench.last_packet[1], bench.last_packet[8]), (0xb8, 9));
}

/// RFC 9293, 3.8.6 (SHLD-14): the window does not shrink, however small the buffer becomes.
#[test]
fn a_smaller_receive_buffer_does_not_shrink_the_window() {
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_RECEIVE_BUFFER, 3000);
    let mut edges = Vec::new();
    for _ in 0..30 {
        c.peer_sends(1000);
        c.peer_sends(1000);
        let ack = c.bench.one();
        edges.push(ack.ack.expect("an ACK").wrapping_sub(PEER_ISS) + u32::from(ack.window));
    }
    assert!(edges.is_sorted(), "{edges:?}");
    assert_eq!(edges[0], *edges.last().expect("thirty"), "nothing was read, nothing is opened");
}

#[test]
fn connections_inherit_the_options_of_their_listener() {
    let mut bench = Bench::new(&[]);
    let local = SocketAddr::new(IpAddr::V4(HOST), 80);
    let options = [(OPT_MAX_SEGMENT, 600), (OPT_KEEPALIVE, 10 * SECOND)];
    let listener = bench.stack.listen_with(Instant::from_nanos(bench.now), local, 5, &options).expect("a listener");
    assert_eq!(bench.stack.set_option(Instant::from_nanos(bench.now), listener, OPT_TOS, 0x20), Ok(()));
    let syn = Segment {
        source: PEER_PORT,
        destination: 80,
        seq: 100,
        syn: true,
        window: 1000,
        mss: Some(1460),
        ..Segment::default()
    };
    bench.inject(&syn);
    let answer = bench.one();
    assert_eq!((answer.mss, bench.last_packet[1]), (Some(600), 0x20));
    let ack = Segment { syn: false, seq: 101, ack: Some(answer.seq.wrapping_add(1)), mss: None, ..syn };
    bench.inject(&ack);
    bench.expect_nothing_sent();
    bench.advance(10 * SECOND);
    assert_eq!(bench.one().seq, answer.seq, "a keepalive probe");
}

/// RFC 9293, 3.8.4: keepalive is off by default (MUST-25). Its probes have SEG.SEQ = SND.NXT-1 and no data
/// (SHLD-12). A single unanswered probe proves nothing (MUST-29).
#[test]
fn keepalive_asks_and_gives_up() {
    let mut c = Connection::plain(&[]);
    c.bench.advance(100_000 * SECOND);
    c.bench.expect_nothing_sent();

    let options = [(OPT_KEEPALIVE_INTERVAL, SECOND), (OPT_KEEPALIVE_COUNT, 3), (OPT_KEEPALIVE, 10 * SECOND)];
    let mut c = Connection::plain(&[]);
    let start = c.bench.now;
    options.into_iter().for_each(|(option, value)| set(&mut c, option, value));
    c.bench.advance(10 * SECOND);
    let probe = c.bench.one();
    assert_eq!((probe.seq, probe.ack, probe.numbers()), (c.host.wrapping_sub(1), Some(c.next), 0));
    c.bench.advance(2 * SECOND);
    assert_eq!(times(&mut c, start), [11_000, 12_000]);
    c.acknowledge(0);
    c.bench.is(c.handle, State::Established);
    // 12 s: a segment of the peer arrived. The next probe is sent ten seconds later and remains unanswered.
    c.bench.advance(20 * SECOND);
    let sent = c.bench.timed();
    let at: Vec<u64> = sent.iter().map(|(time, _)| (time - start) / MS).collect();
    assert_eq!(at, [22_000, 23_000, 24_000, 25_000]);
    assert!(sent[3].1.rst && !sent[2].1.rst);
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))]);
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// RFC 9293, 3.8.4 (MUST-26): no probe is sent while sent data is outstanding, or if data arrived within the
/// interval.
#[test]
fn keepalive_waits_until_the_connection_is_idle() {
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_KEEPALIVE, 5 * SECOND);
    for _ in 0..4 {
        c.bench.advance(4 * SECOND);
        c.peer_sends(10);
        c.bench.advance(0);
    }
    assert!(c.bench.sent().iter().all(|s| s.seq == c.host), "ACKs, no probes");
    c.bench.send(c.handle, 10);
    c.bench.advance(8 * SECOND);
    let sent = c.bench.sent();
    assert!(sent.iter().all(|s| s.seq == c.host), "retransmissions, no probes: {sent:?}");
    c.acknowledge(10);
    set(&mut c, OPT_KEEPALIVE, 0);
    c.bench.advance(100 * SECOND);
    c.bench.expect_nothing_sent();
}

/// The peer answers our probe, and we answer the peer's.
#[test]
fn a_probe_of_the_peer_is_answered() {
    let mut c = Connection::plain(&[]);
    let probe = c.segment().at(c.next.wrapping_sub(1));
    c.bench.inject(&probe);
    assert_eq!(c.bench.one().ack, Some(c.next));
}

/// RFC 5482, 3: the local user timeout of one connection.
#[test]
fn a_user_timeout_ends_one_connection() {
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_USER_TIMEOUT, 5 * SECOND);
    c.bench.send(c.handle, 10);
    let start = c.bench.now;
    c.bench.advance(30 * SECOND);
    // RFC 6298: 1 s, doubled. The third would be due after 7 s, when the five seconds are over.
    assert_eq!(times(&mut c, start), [0, 1_000, 3_000]);
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))]);
}

/// RFC 5482, 3: the timeout limits how long data may stay unacknowledged. A timer that has backed off never
/// runs past it.
#[test]
fn a_user_timeout_comes_when_it_was_asked_for() {
    // Set before, and set while a timer runs that would be too late.
    for early in [true, false] {
        let mut c = Connection::plain(&[]);
        if early {
            set(&mut c, OPT_USER_TIMEOUT, 5 * SECOND);
        }
        c.bench.send(c.handle, 10);
        c.bench.advance(4 * SECOND);
        set(&mut c, OPT_USER_TIMEOUT, 5 * SECOND);
        c.bench.advance(SECOND - 1);
        assert_eq!(c.bench.notices(), []);
        c.bench.advance(1);
        assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))], "{early}");
    }
    // The timeout is shorter than the first retransmission timeout, so that no segment is sent again.
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_USER_TIMEOUT, 300 * MS);
    c.bench.send(c.handle, 10);
    c.bench.advance(300 * MS);
    assert_eq!((c.bench.sent().len(), c.bench.notices()), (1, vec![Notice::Failed(Errno(110))]));
    // After an acknowledgement the time counts anew. A peer that opens its window slightly is not gone.
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_USER_TIMEOUT, 150 * MS);
    for _ in 0..20 {
        c.bench.send(c.handle, 10);
        c.bench.advance(100 * MS);
        c.acknowledge(10);
    }
    c.window = 300;
    c.acknowledge(0);
    c.bench.send(c.handle, 5000);
    let _ = c.bench.sent();
    c.bench.advance(200 * MS);
    assert_eq!(c.ranges(), [(0, 300)]);
    c.bench.is(c.handle, State::Established);
}

/// RFC 9293, 3.10.8: "for any state". MUST-21 and MUST-22: the application's own limit also holds for its SYN
/// if SYN_TIMEOUT is shorter.
#[test]
fn a_user_timeout_ends_a_handshake() {
    for (timeout, end) in [(5 * SECOND, 5), (1000 * SECOND, 1000)] {
        let mut bench = Bench::new(&[]);
        let _ = connect_with(&mut bench, &[(OPT_USER_TIMEOUT, timeout)]);
        bench.advance(end * SECOND - 1);
        assert_eq!(bench.notices(), []);
        bench.advance(1);
        assert_eq!(bench.notices(), [Notice::Failed(Errno(110))]);
    }
}

/// RFC 9293, 3.8.6.1 (MUST-37): a peer that answers window probes is alive, however short the user timeout.
#[test]
fn a_short_user_timeout_does_not_end_a_closed_window() {
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_USER_TIMEOUT, 3 * SECOND);
    c.window = 0;
    c.acknowledge(0);
    c.bench.send(c.handle, 5000);
    for _ in 0..600 {
        c.bench.advance(100 * MS);
        if !c.bench.sent().is_empty() {
            c.acknowledge(0);
        }
    }
    c.bench.is(c.handle, State::Established);
    // The peer stops answering.
    c.bench.advance(5 * SECOND);
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))]);
}

/// SO_LINGER with a time of zero: close sends a reset.
#[test]
fn a_hard_close_resets() {
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_LINGER, 0);
    c.bench.send(c.handle, 100);
    let _ = c.bench.one();
    c.bench.stack.finish(Instant::from_nanos(c.bench.now), c.handle);
    let reset = c.bench.one();
    assert_eq!((reset.rst, reset.fin, reset.seq), (true, false, c.host.wrapping_add(100)));
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// RFC 9293, 3.6.1 (SHLD-3), RFC 2525, 2.17: data that no application will read is answered with a reset.
#[test]
fn data_after_a_close_is_reset() {
    let mut c = Connection::plain(&[]);
    c.peer_sends(100);
    c.bench.advance(SECOND);
    let _ = c.bench.one();
    c.bench.stack.finish(Instant::from_nanos(c.bench.now), c.handle);
    let reset = c.bench.one();
    assert_eq!((reset.rst, reset.fin), (true, false), "unread at the end");
    assert_eq!(c.bench.stack.contexts(), 0);

    let mut c = Connection::plain(&[]);
    c.bench.stack.finish(Instant::from_nanos(c.bench.now), c.handle);
    assert!(c.bench.one().fin);
    c.acknowledge(1);
    c.bench.expect_nothing_sent();
    let late = c.segment().payload(*b"too late");
    c.bench.inject(&late);
    let reset = c.bench.one();
    assert_eq!((reset.rst, reset.seq, reset.ack), (true, c.host, None), "SEG.ACK (RFC 9293, 3.5.2)");
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// Two ends that disagree do not exchange ACKs for ever. Data is always answered.
#[test]
fn answers_to_dropped_segments_are_few() {
    let mut c = Connection::open(&[], Offer { mss: Some(1000), timestamps: true, ..Offer::default() }, 65535);
    let stray = c.segment().at(c.next.wrapping_sub(1));
    (0..20).for_each(|_| c.bench.inject(&stray));
    assert_eq!(c.bench.one().ack, Some(c.next), "one within half a second");
    c.bench.advance(500 * MS);
    let old = Segment { timestamps: Some((3, 0)), ..c.segment() };
    (0..20).for_each(|_| c.bench.inject(&old));
    assert_eq!(c.bench.one().ack, Some(c.next), "PAWS drops count alike");
    let again = c.segment().at(c.next.wrapping_sub(10)).payload([0; 10]);
    (0..20).for_each(|_| c.bench.inject(&again));
    assert_eq!(c.bench.sent().len(), 20, "the peer has missed our ACKs");
}

/// RFC 9293, 3.8.4 (MUST-26): the interval counts from the last received segment, not from the start of the
/// timer.
#[test]
fn keepalive_counts_from_the_last_segment() {
    let mut c = Connection::plain(&[]);
    let start = c.bench.now;
    set(&mut c, OPT_KEEPALIVE, 10 * SECOND);
    c.bench.advance(6 * SECOND);
    c.acknowledge(0);
    c.bench.advance(9 * SECOND);
    c.bench.expect_nothing_sent();
    c.bench.advance(SECOND);
    assert_eq!(times(&mut c, start), [16_000]);
}

/// RFC 5482, 3: an explicit user timeout ends keepalive's probes, but not before the first probe (RFC 9293,
/// 3.8.4, MUST-29: one missing answer is no proof). A default user timeout does not.
#[test]
fn a_user_timeout_ends_keepalive() {
    for (timeout, end) in [(Some(12 * SECOND), 15), (Some(5 * SECOND), 15), (Some(22 * SECOND), 25), (None, 460)] {
        let mut c = Connection::plain(&[]);
        let options = [(OPT_KEEPALIVE_INTERVAL, 5 * SECOND), (OPT_KEEPALIVE_COUNT, 90), (OPT_KEEPALIVE, 10 * SECOND)];
        options.into_iter().for_each(|(option, value)| set(&mut c, option, value));
        timeout.into_iter().for_each(|timeout| set(&mut c, OPT_USER_TIMEOUT, timeout));
        c.bench.advance(end * SECOND - 1);
        assert_eq!(c.bench.notices(), [], "{timeout:?}");
        c.bench.advance(1);
        assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))], "{timeout:?}");
    }
}

/// RFC 9293, 3.8.3 (MUST-21): the application chooses how long a SYN is repeated, here as a count.
#[test]
fn a_syn_is_repeated_as_often_as_asked_for() {
    let mut bench = Bench::new(&[]);
    let _ = connect_with(&mut bench, &[(OPT_OPEN_REPEATS, 2)]);
    bench.advance(7 * SECOND - 1);
    assert_eq!((bench.sent().len(), bench.notices()), (3, vec![]));
    bench.advance(1);
    assert_eq!(bench.notices(), [Notice::Failed(Errno(110))]);
    // The limit applies only to SYNs.
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_OPEN_REPEATS, 2);
    c.bench.send(c.handle, 10);
    c.bench.advance(10 * SECOND);
    c.bench.is(c.handle, State::Established);
}

/// Options set on an open connection take effect at once. The tests cover the segment size (RFC 9293, 3.7.1),
/// and quick ACKs when an ACK waits (RFC 9293, 3.8.6.3).
#[test]
fn options_take_effect_on_open_connections() {
    let mut c = Connection::plain(&[]);
    set(&mut c, OPT_MAX_SEGMENT, 500);
    c.bench.send(c.handle, 1000);
    assert_eq!(c.ranges(), [(0, 500), (500, 500)]);
    c.acknowledge(1000);
    set(&mut c, OPT_QUICK_ACK, 1);
    c.bench.expect_nothing_sent();
    set(&mut c, OPT_QUICK_ACK, 0);
    c.peer_sends(10);
    set(&mut c, OPT_QUICK_ACK, 0);
    set(&mut c, OPT_TOS, 0);
    c.bench.expect_nothing_sent();
    set(&mut c, OPT_QUICK_ACK, 1);
    assert_eq!(c.bench.one().ack, Some(c.next));
}

/// RFC 7413, 6: a request for Fast Open is refused if the param disables it.
#[test]
fn fast_open_is_refused_where_it_is_off() {
    let mut c = Connection::plain(&["FAST_OPEN=false"]);
    let (now, handle) = (c.bench.now, c.handle);
    let mut outcome = |option, value| c.bench.stack.set_option(Instant::from_nanos(now), handle, option, value);
    assert_eq!(outcome(OPT_FAST_OPEN, 1), Err(RequestError::Refused(Errno(95))));
    assert_eq!(outcome(OPT_FAST_OPEN, 0), Ok(()));
    assert_eq!(outcome(OPT_TOS, 4), Ok(()));
}
