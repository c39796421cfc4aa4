//! Several listeners at a port, and numbers in SYN cookies that scripts do not see. The packet scripts about cookies and the accept
//! queue are in `transports/tcp/scripts/RFC4987` and `RFC9293`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use hawser_time::Instant;
use hawser_engine::{Handle, Notice, RequestError};
use hawser_ir::abi::OPT_REUSE_PORT;

use crate::bench::{Bench, MS, SECOND};
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

/// Creates a listener whose places for handshakes are occupied by peers that never answer.
fn flooded() -> Bench {
    let mut bench = Bench::new(&["SYN_BACKLOG=2"]);
    bench.advance(100 * SECOND);
    bench.listen(80, 5);
    bench.inject_all(&[syn(1, 1), syn(2, 1)]);
    assert_eq!(bench.sent().len(), 2);
    bench
}

/// A cookie from another port of the peer is reset, as the ACK of no connection.
#[test]
fn a_cookie_belongs_to_its_port() {
    let mut bench = flooded();
    let first = syn(3, 77);
    bench.inject(&first);
    let right = last_ack(&first, &bench.one());
    bench.inject(&Segment { source: 4, ..right.clone() });
    assert!(bench.one().rst);
    bench.inject(&right);
    assert!(matches!(bench.notices()[..], [Notice::Accepted(_)]));
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
    let mut bench = flooded();
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
