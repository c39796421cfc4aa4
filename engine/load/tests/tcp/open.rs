//! Opening a connection: RFC 9293, 3.5 and 3.10.7; RFC 7323; RFC 6528.

use hawser_engine::{Errno, Notice};

use crate::bench::{Bench, Connection, MS, Offer, PEER_ISS, PEER_PORT, SECOND, State};
use crate::segment::Segment;

fn syn_to(port: u16, from: u16) -> Segment {
    Segment {
        source: from,
        destination: port,
        seq: PEER_ISS,
        syn: true,
        window: 8000,
        mss: Some(1400),
        ..Segment::default()
    }
}

#[test]
fn active_open_offers_and_agrees() {
    let mut bench = Bench::new(&[]);
    let handle = bench.connect();
    let syn = bench.one();
    // MTU 1500 minus 40 bytes of headers. 1 MiB fits into 16 bits with a shift of 5 or more.
    assert_eq!((syn.syn, syn.ack, syn.mss, syn.scale, syn.window), (true, None, Some(1460), Some(5), 65535));
    let (value, echo) = syn.timestamps.expect("timestamps");
    assert_eq!(echo, 0);
    bench.is(handle, State::SynSent);

    let answer = Segment {
        source: PEER_PORT,
        destination: 5000,
        seq: PEER_ISS,
        ack: Some(syn.seq.wrapping_add(1)),
        syn: true,
        window: 1000,
        mss: Some(1000),
        scale: Some(7),
        timestamps: Some((777, value)),
        ..Segment::default()
    };
    bench.inject(&answer);
    let ack = bench.one();
    assert_eq!((ack.seq, ack.ack), (syn.seq.wrapping_add(1), Some(PEER_ISS.wrapping_add(1))));
    assert_eq!(ack.window, 32_768, "1 MiB, scaled from the first segment without SYN on");
    assert_eq!(ack.timestamps.map(|t| t.1), Some(777));
    assert_eq!(bench.notices(), [Notice::Connected]);
    bench.is(handle, State::Established);
    assert_eq!(bench.observe(handle, "smss"), 1000 - 12, "the timestamps take 12 bytes of each segment");
    assert_eq!(bench.observe(handle, "snd_wnd"), 1000, "a SYN's window is not scaled");
}

#[test]
fn a_peer_without_options_gets_the_defaults() {
    let mut connection = Connection::open(&[], Offer::default(), 8000);
    let handle = connection.handle;
    assert_eq!(connection.bench.observe(handle, "smss"), 536);
    connection.bench.send(handle, 600);
    let sent = connection.bench.sent();
    assert_eq!(sent[0].payload.len(), 536);
    assert_eq!((sent[0].timestamps, sent[0].window), (None, 65535));
}

#[test]
fn a_passive_open_mirrors_the_offered_options() {
    let mut bench = Bench::new(&[]);
    bench.listen(80, 10);
    bench.inject(&syn_to(80, 4000));
    let answer = bench.one();
    assert_eq!((answer.syn, answer.ack), (true, Some(PEER_ISS.wrapping_add(1))));
    assert_eq!((answer.mss, answer.scale, answer.timestamps), (Some(1460), None, None));
    assert_eq!(bench.notices(), [], "not yet");

    let mut ack = syn_to(80, 4000).at(PEER_ISS.wrapping_add(1)).acks(answer.seq.wrapping_add(1));
    (ack.syn, ack.mss) = (false, None);
    bench.inject(&ack);
    let Some(Notice::Accepted(child)) = bench.notices().pop() else { panic!("no connection") };
    bench.is(child, State::Established);
    assert_eq!(bench.observe(child, "smss"), 1400);
    bench.expect_nothing_sent();
}

#[test]
fn a_syn_that_comes_again_is_answered_again() {
    let mut bench = Bench::new(&[]);
    bench.listen(80, 10);
    bench.inject(&syn_to(80, 4000));
    let first = bench.one();
    bench.inject(&syn_to(80, 4000));
    assert_eq!(bench.one(), first);
}

/// RFC 6298: the timer starts at 1 s and doubles up to 60 s. After SYN_TIMEOUT (3 min) the attempt ends.
#[test]
fn a_syn_without_answer_is_sent_again_with_back_off() {
    let mut bench = Bench::new(&[]);
    bench.connect();
    let start = bench.now;
    bench.advance(180 * SECOND - 1);
    let times: Vec<u64> = bench.timed().iter().map(|(time, _)| (time - start) / MS).collect();
    assert_eq!(times, [0, 1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 123_000]);
    assert_eq!(bench.notices(), []);
    bench.advance(1);
    assert_eq!(bench.notices(), [Notice::Failed(Errno(110))]);
    bench.expect_nothing_sent();
    assert_eq!(bench.stack.contexts(), 0);
}

/// RFC 6298, 5.7.
#[test]
fn after_a_lost_syn_the_timeout_begins_at_three_seconds() {
    let mut bench = Bench::new(&["TIMESTAMPS=false"]);
    let handle = bench.connect();
    bench.advance(SECOND);
    let syn = bench.sent().pop().expect("a second SYN");
    let answer = Segment {
        source: PEER_PORT,
        destination: 5000,
        seq: PEER_ISS,
        ack: Some(syn.seq.wrapping_add(1)),
        syn: true,
        window: 8000,
        ..Segment::default()
    };
    bench.inject(&answer);
    assert_eq!(bench.observe(handle, "rto"), 3 * SECOND);
    assert_eq!(bench.observe(handle, "cc.cwnd"), 536, "one segment, RFC 5681, 3.1");
}

#[test]
fn refusal_ends_an_open() {
    let mut bench = Bench::new(&[]);
    bench.connect();
    let syn = bench.one();
    let refusal = Segment { source: PEER_PORT, destination: 5000, ..Segment::default() }.rst();
    bench.inject(&refusal.clone().acks(syn.seq));
    bench.inject(&refusal.clone());
    assert_eq!(bench.notices(), [], "neither acknowledges the SYN");
    bench.inject(&refusal.acks(syn.seq.wrapping_add(1)));
    assert_eq!(bench.notices(), [Notice::Failed(Errno(111))]);
    bench.expect_nothing_sent();
    assert_eq!(bench.stack.contexts(), 0);
}

#[test]
fn a_syn_ack_of_another_syn_is_reset() {
    let mut bench = Bench::new(&[]);
    bench.connect();
    let syn = bench.one();
    let wrong = syn.seq.wrapping_add(2);
    let answer = Segment { source: PEER_PORT, destination: 5000, syn: true, ..Segment::default() };
    bench.inject(&answer.acks(wrong));
    let reset = bench.one();
    assert_eq!((reset.rst, reset.seq, reset.ack), (true, wrong, None));
    assert_eq!(bench.notices(), []);
}

/// RFC 9293, 3.10.7.1.
#[test]
fn segments_to_closed_ports_are_reset() {
    let mut bench = Bench::new(&[]);
    bench.inject(&syn_to(81, 4000));
    let reset = bench.one();
    assert_eq!((reset.rst, reset.seq, reset.ack), (true, 0, Some(PEER_ISS.wrapping_add(1))));
    assert_eq!((reset.source, reset.destination), (81, 4000));

    let ack = Segment { source: 4000, destination: 81, seq: 5, ..Segment::default() }.acks(4711);
    bench.inject(&ack);
    let reset = bench.one();
    assert_eq!((reset.rst, reset.seq, reset.ack), (true, 4711, None));

    bench.inject(&ack.rst());
    bench.expect_nothing_sent();
}

/// RFC 9293, 3.10.7.2.
#[test]
fn a_listener_resets_acknowledgements_and_ignores_resets() {
    let mut bench = Bench::new(&[]);
    bench.listen(80, 10);
    let ack = Segment { source: 4000, destination: 80, seq: 5, ..Segment::default() }.acks(4711);
    bench.inject(&ack);
    assert_eq!(bench.one().seq, 4711);
    bench.inject(&ack.clone().rst());
    bench.expect_nothing_sent();
}

#[test]
fn syns_beyond_the_backlog_are_dropped() {
    let mut bench = Bench::new(&["SYN_COOKIES=false", "SYN_BACKLOG=2"]);
    bench.listen(80, 1);
    (0..3).for_each(|i| bench.inject(&syn_to(80, 4000 + i)));
    let answers = bench.sent();
    assert_eq!(answers.iter().map(|s| s.destination).collect::<Vec<_>>(), [4000, 4001]);

    let mut ack = syn_to(80, 4000).at(PEER_ISS.wrapping_add(1)).acks(answers[0].seq.wrapping_add(1));
    (ack.syn, ack.mss) = (false, None);
    bench.inject(&ack);
    bench.inject(&syn_to(80, 4002));
    bench.expect_nothing_sent();
    assert!(matches!(bench.notices()[..], [Notice::Accepted(_)]));
    bench.inject(&syn_to(80, 4002));
    assert_eq!(bench.one().destination, 4002, "the application took the one that waited");
}

#[test]
fn a_reset_frees_a_place_in_the_backlog() {
    let mut bench = Bench::new(&["SYN_BACKLOG=1"]);
    bench.listen(80, 5);
    bench.inject(&syn_to(80, 4000));
    let _ = bench.one();
    bench.inject(&Segment { seq: PEER_ISS.wrapping_add(1), syn: false, ..syn_to(80, 4000) }.rst());
    bench.inject(&syn_to(80, 4001));
    assert_eq!(bench.one().destination, 4001);
    assert_eq!(bench.notices(), []);
}

/// RFC 9293, figure 8.
#[test]
fn both_ends_open_at_once() {
    let mut bench = Bench::new(&[]);
    let handle = bench.connect();
    let syn = bench.one();
    let theirs = Segment {
        source: PEER_PORT,
        destination: 5000,
        seq: PEER_ISS,
        syn: true,
        window: 8000,
        ..Segment::default()
    };
    bench.inject(&theirs);
    let answer = bench.one();
    assert_eq!((answer.syn, answer.seq, answer.ack), (true, syn.seq, Some(PEER_ISS.wrapping_add(1))));
    bench.is(handle, State::SynReceived);
    bench.inject(&theirs.acks(syn.seq.wrapping_add(1)));
    bench.is(handle, State::Established);
    assert_eq!(bench.notices(), [Notice::Connected]);
}

/// RFC 6528; RFC 9293, 3.4.1 (MUST-8, SHLD-1): the clock ticks every 4 µs, and each connection has its own offset.
#[test]
fn initial_sequence_numbers_combine_clock_and_secret() {
    let first = |seed: u64, wait: u64| {
        let mut bench = Bench::seeded(&[], seed);
        bench.advance(wait);
        bench.connect();
        bench.one().seq
    };
    assert_eq!(first(1, 400 * MS).wrapping_sub(first(1, 0)), 100_000);
    assert_ne!(first(1, 0), first(2, 0));

    let mut bench = Bench::new(&[]);
    bench.listen(80, 10);
    bench.inject_all(&[syn_to(80, 4000), syn_to(80, 4001), syn_to(80, 4002)]);
    let [a, b, c] = bench.sent().iter().map(|s| s.seq).collect::<Vec<_>>()[..] else {
        panic!("three answers")
    };
    assert!(a.wrapping_sub(b) != b.wrapping_sub(c), "no pattern from port to port");
}

/// A hard ICMP error ends an open. A quoted sequence number that is not in flight is a forgery (RFC 5927,
/// 4.1).
#[test]
fn an_unreachable_port_refuses() {
    let mut bench = Bench::new(&[]);
    bench.connect();
    let _ = bench.one();
    let about = bench.last_packet.clone();
    let mut forged = about.clone();
    forged[24] ^= 1;
    bench.deliver(crate::segment::icmp_error(3, 3, 0, &forged));
    assert_eq!(bench.notices(), []);
    bench.deliver(crate::segment::icmp_error(3, 3, 0, &about));
    assert_eq!(bench.notices(), [Notice::Failed(Errno(111))]);
}
