//! Listeners under pressure: the accept queue and SYN cookies.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use hawser_time::Instant;
use hawser_engine::{Handle, Notice, RequestError};
use hawser_ir::abi::OPT_REUSE_PORT;

use crate::bench::{Bench, MS, SECOND, State};
use crate::segment::{HOST, Segment};

fn syn(port: u16, seq: u32) -> Segment {
    Segment {
        source: port,
        destination: 80,
        seq,
        syn: true,
        window: 2000,
        mss: Some(1400),
        scale: Some(7),
        timestamps: Some((5000, 0)),
        ..Segment::default()
    }
}

/// Returns the last ACK of a handshake.
fn last_ack(syn: &Segment, answer: &Segment) -> Segment {
    Segment {
        syn: false,
        seq: syn.seq.wrapping_add(1),
        ack: Some(answer.seq.wrapping_add(1)),
        mss: None,
        scale: None,
        timestamps: answer.timestamps.map(|(value, _)| (5001, value)),
        ..syn.clone()
    }
}

fn observed(bench: &mut Bench, listener: Handle) -> [u64; 4] {
    bench.settle();
    ["embryonic", "waiting", "dropped", "cookies"].map(|field| bench.observe(listener, field))
}

/// Creates a listener with room for two embryonic connections, both occupied by a peer that never answers.
fn flooded(params: &[&str]) -> (Bench, Handle) {
    let mut bench = Bench::new(&[&["SYN_BACKLOG=2"], params].concat());
    bench.advance(100 * SECOND);
    let listener = bench.listen(80, 5);
    bench.inject(&syn(1, 1));
    bench.inject(&syn(2, 1));
    assert_eq!(bench.sent().len(), 2);
    (bench, listener)
}

#[test]
fn a_cookie_keeps_the_offered_mss() {
    let (mut bench, listener) = flooded(&[]);
    let mut first = syn(3, 0xffff_ffff);
    first.mss = Some(1399);
    bench.inject(&first);
    let answer = bench.one();
    assert_eq!((answer.syn, answer.ack, answer.mss), (true, Some(0), Some(1460)));
    assert!(answer.scale.is_some());
    assert_eq!(bench.stack.contexts(), 3, "nothing is kept of it");
    assert_eq!(observed(&mut bench, listener), [2, 0, 0, 1]);

    bench.advance(30 * MS);
    let ack = last_ack(&first, &answer);
    bench.inject(&ack);
    let [Notice::Accepted(handle)] = bench.notices()[..] else { panic!("no connection") };
    bench.is(handle, State::Established);
    assert_eq!(bench.observe(handle, "snd_wnd"), 2000 << 7, "the scale came back with the timestamp");
    // 1360 is the largest size of a cookie below 1399; timestamps take 12 bytes.
    assert_eq!(bench.observe(handle, "smss"), 1348);
    assert_eq!(observed(&mut bench, listener), [2, 0, 0, 1]);
    bench.sent();
    bench.inject(&ack.clone().payload(*b"hello"));
    assert_eq!(bench.read(handle, 10), b"hello");
    bench.send(handle, 100);
    let data = bench.sent().pop().expect("data");
    assert_eq!((data.seq, data.ack, data.payload.len()), (answer.seq.wrapping_add(1), Some(5), 100));
}

/// Without timestamps the scale is lost. If the pure ACK is lost, the data after it opens the connection.
#[test]
fn data_with_a_cookie_opens_and_is_retransmitted() {
    let (mut bench, _) = flooded(&[]);
    let plain = Segment { timestamps: None, mss: None, ..syn(3, 10) };
    bench.inject(&plain);
    let answer = bench.one();
    assert_eq!((answer.timestamps, answer.scale), (None, None));
    let data = last_ack(&plain, &answer).payload(*b"hello");
    bench.inject(&data);
    let [Notice::Accepted(handle)] = bench.notices()[..] else { panic!("no connection") };
    assert_eq!((bench.observe(handle, "snd_wnd"), bench.observe(handle, "smss")), (2000, 536));
    assert_eq!(bench.read(handle, 10), b"");
    bench.inject(&data);
    assert_eq!(bench.read(handle, 10), b"hello");
}

/// Sizes are rounded down to those that a cookie can encode, so that no segment is too large.
#[test]
fn a_cookie_encodes_eight_segment_sizes() {
    let named = [(88, 88), (535, 88), (536, 536), (1219, 536), (1220, 1220), (1359, 1220), (1360, 1360)];
    let more = [(1399, 1360), (1400, 1400), (1439, 1400), (1440, 1440), (1459, 1440), (1460, 1460), (8939, 1460), (8940, 8940)];
    for (port, (offered, taken)) in (3..).zip(named.into_iter().chain(more)) {
        let (mut bench, _) = flooded(&[]);
        let first = Segment { timestamps: None, mss: Some(offered), ..syn(port, 10) };
        bench.inject(&first);
        let answer = bench.one();
        bench.inject(&last_ack(&first, &answer));
        let [Notice::Accepted(handle)] = bench.notices()[..] else { panic!("no connection") };
        assert_eq!(bench.observe(handle, "peer_mss"), taken, "{offered}");
    }
}

/// The agreed options come back with the timestamp, each on its own.
#[test]
fn a_cookie_remembers_scale_sack_and_ecn() {
    for bits in 0..8 {
        let (scale, sack, ecn) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let (mut bench, _) = flooded(&[]);
        let first = Segment {
            scale: scale.then_some(5),
            sack_permitted: sack,
            ece: ecn,
            cwr: ecn,
            ..syn(3, 10)
        };
        bench.inject(&first);
        let answer = bench.one();
        assert_eq!((answer.scale.is_some(), answer.sack_permitted, answer.ece), (scale, sack, ecn));
        let last = Segment { sack_permitted: false, ece: false, cwr: false, ..last_ack(&first, &answer) };
        bench.inject(&last);
        let [Notice::Accepted(handle)] = bench.notices()[..] else { panic!("no connection") };
        let seen = ["scaled", "sack.on", "ecn.on"].map(|field| bench.observe(handle, field) == 1);
        assert_eq!(seen, [scale, sack, ecn], "{bits}");
        assert_eq!(bench.observe(handle, "snd_wnd"), if scale { 2000 << 5 } else { 2000 });
    }
}

/// With cookies and a full accept queue, a client that sends at once is neither accepted nor rejected. It
/// sends its data again, and the data is accepted once there is a place. A later segment that overtakes the
/// one with the cookie does no harm.
#[test]
fn data_with_a_cookie_waits_for_a_place() {
    let mut bench = Bench::new(&["SYN_BACKLOG=1"]);
    bench.advance(100 * SECOND);
    let listener = bench.listen(80, 1);
    // One connection waits to be accepted, and one never answers. Now there are cookies, and no place.
    let full = syn(1, 1);
    bench.inject(&full);
    let answer = bench.one();
    bench.inject(&syn(2, 1));
    let cookie = bench.one();
    bench.inject(&last_ack(&full, &answer));
    assert_eq!(observed(&mut bench, listener), [0, 1, 0, 1]);

    let client = syn(2, 1);
    let data = [b"hello ", b"world!"].map(|word| last_ack(&client, &cookie).payload(*word));
    let data = [data[0].clone(), data[1].clone().at(data[1].seq.wrapping_add(6))];
    for _ in 0..3 {
        bench.inject(&data[0]);
        bench.inject(&data[1]);
        bench.expect_nothing_sent();
        bench.advance(SECOND);
    }
    assert_eq!(bench.stack.contexts(), 2, "nothing is kept of it");
    assert_eq!(observed(&mut bench, listener)[2], 3, "each ACK that brought the cookie was counted");

    bench.settle();
    assert!(matches!(bench.notices()[..], [Notice::Accepted(_)]), "the one that waited");
    bench.inject(&data[1]);
    bench.expect_nothing_sent();
    bench.inject(&data[0]);
    let [Notice::Accepted(handle)] = bench.notices()[..] else { panic!("no connection") };
    data.iter().for_each(|segment| bench.inject(segment));
    assert_eq!(bench.read(handle, 20), b"hello world!");
    // Once no cookie can come back, data to a listener belongs to no connection again.
    bench.advance(128 * SECOND);
    let _ = bench.sent();
    bench.inject(&Segment { source: 9, ..data[1].clone() });
    assert!(bench.one().rst);
}

/// With a listener for one address and one for all, a connection goes to the more specific one (RFC 9293,
/// 3.9.1.1, MUST-43).
#[test]
fn a_specific_listener_precedes_a_wildcard_listener() {
    for all in ["0.0.0.0:80", "[::]:80"] {
        let mut bench = Bench::new(&[]);
        let one = bench.listen(80, 5);
        let all = bench.stack.listen(Instant::from_nanos(bench.now), all.parse().expect("an address"), 5).expect("another id");
        let embryonic = |bench: &Bench| [one, all].map(|l| bench.observe(l, "embryonic"));
        bench.inject(&syn(1, 1));
        assert_eq!(embryonic(&bench), [1, 0]);
        bench.stack.close(Instant::from_nanos(bench.now), one);
        bench.inject(&syn(2, 1));
        assert_eq!(bench.observe(all, "embryonic"), 1);
    }
}

/// A client that has not seen the cookie, or comes late, gets the answer to a closed-port segment.
#[test]
fn a_wrong_or_old_cookie_is_reset() {
    let (mut bench, listener) = flooded(&[]);
    let first = syn(3, 77);
    bench.inject(&first);
    let answer = bench.one();
    let right = last_ack(&first, &answer);
    for bit in 0..32 {
        let forged = right.clone().acks(right.ack.expect("an ACK") ^ (1 << bit));
        bench.inject(&forged);
        let reset = bench.one();
        assert_eq!((reset.rst, reset.seq), (true, forged.ack.expect("an ACK")), "bit {bit}");
    }
    for wrong in [right.clone().at(right.seq + 1), Segment { source: 4, ..right.clone() }] {
        bench.inject(&wrong);
        assert!(bench.one().rst);
    }
    bench.advance(129 * SECOND);
    let _ = bench.sent();
    bench.inject(&right);
    assert!(bench.one().rst, "64 to 128 seconds");
    assert_eq!(observed(&mut bench, listener), [2, 0, 0, 1]);
}

#[test]
fn cookies_are_rejected_unless_some_were_sent() {
    let mut bench = Bench::new(&[]);
    bench.listen(80, 5);
    let mut seq = 1;
    for _ in 0..1000 {
        seq = u32::wrapping_mul(seq, 0x9e37_79b1) ^ 77;
        let ack = Segment { syn: false, seq, ack: Some(seq ^ 0x5555), ..syn(3, 0) };
        bench.inject(&ack);
        assert!(bench.one().rst);
    }
    let (mut bench, listener) = flooded(&["SYN_COOKIES=false"]);
    bench.inject(&syn(3, 77));
    bench.expect_nothing_sent();
    assert_eq!(observed(&mut bench, listener), [2, 0, 1, 0]);
}

/// As in Linux, the last ACK of a handshake counts as lost if the accept queue is full.
#[test]
fn the_backlog_is_checked_again_at_the_last_ack() {
    let mut bench = Bench::new(&[]);
    let listener = bench.listen(80, 1);
    let syns = [syn(1, 100), syn(2, 200)];
    let answers = syns.clone().map(|syn| {
        bench.inject(&syn);
        bench.one()
    });
    let acks = [0, 1].map(|i| last_ack(&syns[i], &answers[i]));
    acks.iter().for_each(|ack| bench.inject(ack));
    assert_eq!(observed(&mut bench, listener), [1, 1, 1, 0], "one waits, one is where it was");
    bench.settle();
    let mut accepted = Vec::new();
    while let Some((_, notice)) = bench.stack.next_notice() {
        accepted.push(notice);
    }
    assert_eq!(accepted.len(), 1);
    let _ = bench.sent();
    // The peer believes that it is connected and sends. The data is neither accepted nor acknowledged.
    let data = acks[1].clone().payload(*b"early");
    bench.inject(&data);
    assert!(bench.sent().iter().all(|s| s.ack == Some(201)));
    bench.advance(SECOND);
    let again = bench.one();
    assert_eq!((again.syn, again.seq, again.ack), (true, answers[1].seq, Some(201)), "<SYN,ACK> once more");
    // After the application accepts there is room, and the next segment is accepted.
    bench.stack.accept(listener);
    bench.settle();
    bench.inject(&data);
    let [Notice::Accepted(handle)] = bench.notices()[..] else { panic!("no connection") };
    bench.is(handle, State::Established);
    bench.inject(&data);
    assert_eq!(bench.read(handle, 10), b"early");
    assert_eq!(observed(&mut bench, listener), [0, 0, 2, 0]);
}

/// A handshake that waits for a place does not wait for ever. It holds only its place among the embryonic
/// connections.
#[test]
fn a_handshake_without_a_place_is_given_up() {
    let mut bench = Bench::new(&["SYN_TIMEOUT=20s"]);
    let listener = bench.listen(80, 1);
    let syns = [syn(1, 100), syn(2, 200)];
    let answers = syns.clone().map(|syn| {
        bench.inject(&syn);
        bench.one()
    });
    bench.inject(&last_ack(&syns[0], &answers[0]));
    let data = last_ack(&syns[1], &answers[1]);
    for _ in 0..40 {
        bench.inject(&data);
        bench.advance(SECOND);
    }
    assert_eq!(observed(&mut bench, listener)[..2], [0, 1]);
    assert_eq!(bench.stack.contexts(), 2);
}

/// Listeners that share a port: each connection belongs to one of them, from its SYN on.
#[test]
fn listeners_share_a_port() {
    let mut bench = Bench::new(&[]);
    let local = SocketAddr::new(IpAddr::V4(HOST), 80);
    let shared = [(OPT_REUSE_PORT, 1)];
    let open = |bench: &mut Bench| bench.stack.listen_with(Instant::from_nanos(bench.now), local, 500, &shared);
    let listeners: Vec<Handle> = (0..4).map(|_| open(&mut bench).expect("shared")).collect();
    let alone = bench.stack.listen(Instant::from_nanos(bench.now), local, 5).err();
    assert_eq!(alone, Some(RequestError::AddressInUse));
    assert_eq!(bench.stack.contexts(), 4);

    let connect = |bench: &mut Bench, port: u16| {
        let syn = syn(port, 100);
        bench.inject(&syn);
        let answer = bench.one();
        let embryonic: u64 = listeners.iter().filter_map(|l| bench.stack.observe(*l, "embryonic")).sum();
        assert_eq!((answer.syn, embryonic), (true, 1));
        bench.inject(&last_ack(&syn, &answer));
        let (listener, Notice::Accepted(_)) = bench.stack.next_notice().expect("accepted") else {
            panic!("no connection")
        };
        bench.stack.accept(listener);
        bench.settle();
        let waiting: u64 = listeners.iter().filter_map(|l| bench.stack.observe(*l, "waiting")).sum();
        assert_eq!(waiting, 0);
        listener
    };
    let mut share: HashMap<Handle, u32> = HashMap::new();
    (1000..1400).for_each(|port| *share.entry(connect(&mut bench, port)).or_default() += 1);
    // Four hundred over four: a hundred each, with a standard deviation below nine.
    assert!(listeners.iter().all(|l| (60..140).contains(&share[l])), "{share:?}");

    // The first listener closes. The others go on, and it may be opened again.
    bench.stack.finish(Instant::from_nanos(bench.now), listeners[0]);
    bench.settle();
    let left: Vec<Handle> = (2000..2100).map(|port| connect(&mut bench, port)).collect();
    assert!(left.iter().all(|listener| *listener != listeners[0]));
    listeners[1..].iter().for_each(|l| bench.stack.finish(Instant::from_nanos(bench.now), *l));
    bench.settle();
    bench.inject(&syn(3000, 1));
    assert!(bench.one().rst, "nobody listens");
    bench.listen(80, 5);
}

/// RFC 7323, 4.1 and 5.3: timestamps never go back, since the peer would drop later segments as old. A
/// cookie's timestamp holds the peer's options. It is never ahead of the clock, and less than 64 ms, the
/// options' range, behind it.
#[test]
fn the_timestamp_of_a_cookie_is_not_ahead() {
    let (mut bench, _) = flooded(&[]);
    for i in 0..100 {
        let first = Segment { sack_permitted: i % 2 == 0, scale: Some((i % 15) as u8), ..syn(3 + i, 10) };
        bench.inject(&first);
        let answer = bench.one();
        let reported = answer.timestamps.expect("timestamps").0;
        bench.inject(&last_ack(&first, &answer));
        let [Notice::Accepted(handle)] = bench.notices()[..] else { panic!("no connection") };
        let _ = bench.sent();
        bench.send(handle, 1);
        let now = bench.one().timestamps.expect("timestamps").0;
        assert!(now.wrapping_sub(reported) < 64, "{reported} {now}");
        bench.close(handle);
        let _ = bench.sent();
        bench.advance(7 * MS);
        let _ = bench.notices();
        let _ = bench.stack.recv(Instant::from_nanos(bench.now), handle, &mut [0; 1]);
        bench.inject(&last_ack(&first, &answer).rst());
        let _ = (bench.sent(), bench.notices());
    }
}
