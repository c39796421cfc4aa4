//! Bugs that were found by reading the code. Each has the test that proved it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hawser_time::Instant;

use crate::scheduler::{Cheapest, EarliestCompletion, Scheduler};
use crate::*;

const NOW: Instant = Instant::after(Duration::from_secs(1));

/// Returns the time `milliseconds` after the beginning.
fn after(milliseconds: u64) -> Instant {
    NOW + Duration::from_millis(milliseconds)
}

fn ecf() -> Box<dyn Scheduler> {
    Box::<EarliestCompletion>::default()
}

fn cheap() -> Box<dyn Scheduler> {
    Box::<Cheapest>::default()
}

fn config(paths: u32) -> Config {
    Config {
        candidates: (0..paths).map(Candidate::new).collect(),
        opening: Opening::Parallel,
        ..Config::default()
    }
}

/// Returns the bytes sent on each carrier, and the other instructions.
fn drain(session: &mut Session) -> (BTreeMap<CarrierId, Vec<u8>>, Vec<Instruction>) {
    let (mut sent, mut rest) = (BTreeMap::<CarrierId, Vec<u8>>::new(), Vec::new());
    while let Some(instruction) = session.poll() {
        match instruction {
            Instruction::Send { carrier, head, body } => {
                let all = sent.entry(carrier).or_default();
                all.extend_from_slice(&head);
                all.extend_from_slice(&body);
            }
            other => rest.push(other),
        }
    }
    (sent, rest)
}

fn exporter(number: u32) -> Exporter {
    [number as u8 + 1; 32]
}

struct Pair {
    client: Session,
    server: Session,
}

/// Returns both sides with `paths` joined carriers.
fn joined(client: Config, server: Config, paths: u32, scheduler: Box<dyn Scheduler>) -> Pair {
    let mut client = Session::client(client, scheduler, [3; 16], NOW);
    drain(&mut client);
    let mut acceptor = Acceptor::new(AcceptorConfig { session: server, ..AcceptorConfig::default() });
    let mut server: Option<Session> = None;
    for n in 0..paths {
        client.connected(CarrierId(n), Some(exporter(n)), NOW);
        let (mut sent, _) = drain(&mut client);
        let bytes: Bytes = sent.remove(&CarrierId(n)).expect("a first segment").into();
        acceptor
            .accepted(n, Some(exporter(n)), [n as u8; 28], NOW)
            .unwrap();
        match acceptor.received(n, bytes, ecf, NOW) {
            CarrierDecision::Begin { mut session, carrier, answer, rest } => {
                session.admitted(carrier, false, NOW);
                session.received(carrier, rest, NOW);
                client.received(carrier, answer, NOW);
                server = Some(*session);
            }
            CarrierDecision::Join { carrier, answer, rest, .. } => {
                let session = server.as_mut().unwrap();
                session.admitted(carrier, false, NOW);
                session.received(carrier, rest, NOW);
                client.received(carrier, answer, NOW);
            }
            verdict => panic!("{verdict:?}"),
        }
    }
    let mut pair = Pair { client, server: server.unwrap() };
    for n in 0..paths {
        pair.client.room(CarrierId(n), 65_536, NOW);
        pair.server.room(CarrierId(n), 65_536, NOW);
    }
    pair.exchange(NOW);
    pair
}

impl Pair {
    fn exchange(&mut self, now: Instant) {
        for _ in 0..20 {
            for (id, bytes) in drain(&mut self.client).0 {
                self.server.received(id, bytes.into(), now);
            }
            for (id, bytes) in drain(&mut self.server).0 {
                self.client.received(id, bytes.into(), now);
            }
        }
    }
}

/// CLOSE overtakes the first DATA of a stream.
#[test]
fn close_may_overtake_data() {
    let mut pair = joined(config(2), Config::default(), 2, ecf());
    let id = pair.client.open().unwrap();
    pair.client.write(id, Bytes::from_static(b"hello"), NOW).unwrap();
    pair.client.close(0, NOW);
    let (sent, _) = drain(&mut pair.client);
    let data_on = *sent.iter().max_by_key(|(_, b)| b.len()).unwrap().0;
    let other = *sent.keys().find(|k| **k != data_on).expect("CLOSE went on both");
    pair.server.received(other, sent[&other].clone().into(), after(1));
    pair.server
        .received(data_on, sent[&data_on].clone().into(), after(2));
    let read = pair.server.read(id, 100, after(3));
    assert_eq!(
        read,
        Ok(Bytes::from_static(b"hello")),
        "violations: {}",
        pair.server.counters().violations
    );
}

/// Both sides close in order while one has data that was not sent.
#[test]
fn both_sides_close_in_order() {
    let mut pair = joined(config(1), Config::default(), 1, ecf());
    let id = pair.client.open().unwrap();
    pair.client.write(id, Bytes::from_static(b"x"), NOW).unwrap();
    pair.exchange(NOW);
    // There is no room, so the rest waits.
    pair.client.room(CarrierId(0), 1, after(1));
    pair.client
        .write(id, Bytes::from(vec![7; 1 << 20]), after(1))
        .unwrap();
    pair.client.close(0, after(1));
    pair.server.close(0, after(1));
    for turn in 2..2_000 {
        let now = after(turn);
        pair.client.room(CarrierId(0), 65_536, now);
        pair.server.room(CarrierId(0), 65_536, now);
        pair.exchange(now);
        while pair.server.read(id, 1 << 20, now).is_ok_and(|b| !b.is_empty()) {}
    }
    assert_eq!(
        pair.server.counters().delivered,
        1 + (1 << 20),
        "client closed: {}",
        pair.client.is_closed()
    );
}

/// The client calls close(0) with pending data while no path leads to the server.
#[test]
fn closing_before_reaching_the_server_ends_the_session() {
    let mut client = Session::client(config(1), ecf(), [3; 16], NOW);
    let id = client.open().unwrap();
    client.write(id, Bytes::from_static(b"x"), NOW).unwrap();
    client.close(0, NOW);
    drain(&mut client);
    client.lost(CarrierId(0), Loss::Transport("refused".into()), NOW);
    let mut now = NOW;
    let mut connects = 0;
    while let Some(at) = client.next_timeout(now) {
        now = at.max(now);
        client.timeout(now);
        connects += drain(&mut client)
            .1
            .iter()
            .filter(|i| matches!(i, Instruction::Connect { .. }))
            .count();
        assert!(
            now < NOW + Duration::from_secs(86_400),
            "still closing after a day; {connects} attempts"
        );
    }
    assert!(client.is_closed());
}

/// The only carrier dies while the session closes in order.
#[test]
fn a_closing_session_opens_new_carriers() {
    let mut pair = joined(config(1), Config::default(), 1, ecf());
    let id = pair.client.open().unwrap();
    pair.client.write(id, Bytes::from(vec![7; 1 << 20]), NOW).unwrap();
    pair.client.close(0, NOW);
    drain(&mut pair.client);
    pair.client
        .lost(CarrierId(0), Loss::Transport("reset".into()), after(1));
    let mut now = after(1);
    let mut connects = 0;
    loop {
        let (_, rest) = drain(&mut pair.client);
        connects += rest
            .iter()
            .filter(|i| matches!(i, Instruction::Connect { .. }))
            .count();
        let Some(at) = pair.client.next_timeout(now) else {
            break;
        };
        now = at.max(now);
        pair.client.timeout(now);
    }
    assert!(connects > 0, "no carrier was opened; ended after {:?}", now - NOW);
}

/// A server's handler answers and does not read to the end. The next stream used to kill the session.
#[test]
fn streams_at_once_are_counted_alike_by_both_sides() {
    let mut pair = joined(config(1), Config { streams: 1, ..Config::default() }, 1, ecf());
    let a = pair.client.open().unwrap();
    pair.client
        .write(a, Bytes::from_static(b"question"), NOW)
        .unwrap();
    pair.client.finish(a, NOW).unwrap();
    pair.exchange(NOW);
    assert_eq!(pair.server.read(a, 8, NOW).unwrap().len(), 8);
    pair.server.write(a, Bytes::from_static(b"answer"), NOW).unwrap();
    pair.server.finish(a, NOW).unwrap();
    pair.exchange(NOW);
    pair.client.read(a, 100, NOW).unwrap();
    assert!(pair.client.read(a, 100, NOW).unwrap().is_empty());
    let b = pair
        .client
        .open()
        .expect("the client thinks that there is a place");
    pair.client
        .write(b, Bytes::from_static(b"question"), NOW)
        .unwrap();
    pair.exchange(after(30));
    assert_eq!(pair.server.counters().violations, 0);
}

/// The client opens more streams before ACCEPT than the server allows.
#[test]
fn streams_opened_before_accept_are_not_a_violation() {
    let mut client = Session::client(config(1), ecf(), [3; 16], NOW);
    for _ in 0..5 {
        let id = client.open().unwrap();
        client.write(id, Bytes::from_static(b"x"), NOW).unwrap();
    }
    drain(&mut client);
    client.connected(CarrierId(0), Some(exporter(0)), NOW);
    client.room(CarrierId(0), 65_536, NOW);
    let bytes: Bytes = drain(&mut client).0.remove(&CarrierId(0)).unwrap().into();
    let server = Config { streams: 4, ..Config::default() };
    let mut acceptor = Acceptor::new(AcceptorConfig { session: server, ..AcceptorConfig::default() });
    acceptor.accepted(0, Some(exporter(0)), [1; 28], NOW).unwrap();
    let CarrierDecision::Begin { mut session, carrier, rest, .. } = acceptor.received(0, bytes, ecf, NOW)
    else {
        panic!()
    };
    session.admitted(carrier, false, NOW);
    session.received(carrier, rest, NOW);
    assert_eq!(session.counters().violations, 0);
}

/// A slow HELLO arrives after the one that counts.
#[test]
fn a_late_hello_does_not_replace_the_secret() {
    let mut client = Session::client(config(2), ecf(), [3; 16], NOW);
    drain(&mut client);
    let mut acceptor = Acceptor::new(AcceptorConfig::default());
    client.connected(CarrierId(0), Some(exporter(0)), NOW);
    let late: Bytes = drain(&mut client).0.remove(&CarrierId(0)).unwrap().into();
    client.lost(CarrierId(0), Loss::Transport("reset".into()), after(1));
    client.connected(CarrierId(1), Some(exporter(1)), after(1));
    let good: Bytes = drain(&mut client).0.remove(&CarrierId(1)).unwrap().into();
    acceptor.accepted(1, Some(exporter(1)), [1; 28], NOW).unwrap();
    let CarrierDecision::Begin { answer, .. } = acceptor.received(1, good, ecf, NOW) else {
        panic!()
    };
    client.received(CarrierId(1), answer, after(2));
    // The old HELLO arrives only now.
    acceptor.accepted(0, Some(exporter(0)), [2; 28], NOW).unwrap();
    let verdict = acceptor.received(0, late, ecf, NOW);
    assert!(matches!(verdict, CarrierDecision::Refuse { .. }), "{verdict:?}");
    // The client joins with another carrier.
    client.timeout(after(300));
    let (_, rest) = drain(&mut client);
    let Some(Instruction::Connect { carrier, .. }) = rest
        .iter()
        .find(|i| matches!(i, Instruction::Connect { .. }))
        .cloned()
    else {
        panic!("{rest:?}")
    };
    client.connected(carrier, Some(exporter(2)), after(300));
    let join: Bytes = drain(&mut client).0.remove(&carrier).unwrap().into();
    acceptor.accepted(2, Some(exporter(2)), [3; 28], NOW).unwrap();
    let verdict = acceptor.received(2, join, ecf, NOW);
    assert!(matches!(verdict, CarrierDecision::Join { .. }), "{verdict:?}");
}

/// Two HELLOs have the same number. The instruction to close the old carrier used to name the new one.
#[test]
fn a_second_hello_with_the_same_number_keeps_the_new_carrier() {
    let mut pair = joined(config(1), Config::default(), 1, ecf());
    drain(&mut pair.server);
    pair.server.admitted(CarrierId(0), false, after(1));
    let (_, rest) = drain(&mut pair.server);
    assert!(
        !rest
            .iter()
            .any(|i| matches!(i, Instruction::Close { carrier: CarrierId(0), .. })),
        "{rest:?}"
    );
}

/// The cheapest scheduler used to pay for copies.
#[test]
fn the_cheapest_scheduler_makes_no_paid_copies() {
    let mut client = config(2);
    client.candidates[1].cost = 100;
    let mut pair = joined(client, Config::default(), 2, cheap());
    for (n, rtt) in [(0, 60), (1, 20)] {
        let s = hawser_carriers::Statistics {
            srtt: Duration::from_millis(rtt),
            window: 1 << 20,
            mss: 1_400,
            rate: 5_000_000,
            ..Default::default()
        };
        pair.client.statistics(CarrierId(n), s, NOW);
    }
    let id = pair.client.open().unwrap();
    for n in 0..100 {
        pair.client
            .write(id, Bytes::from(vec![7; 1_000]), after(n))
            .unwrap();
        pair.client.room(CarrierId(0), 131_072, after(n));
        pair.client.room(CarrierId(1), 131_072, after(n));
    }
    let counts: Vec<_> = pair
        .client
        .paths()
        .map(|p| (p.carrier, p.counts.fresh, p.counts.again))
        .collect();
    assert_eq!(counts[1].1 + counts[1].2, 0, "{counts:?}");
}

/// After close(0), an application can still abort.
#[test]
fn an_orderly_close_can_be_aborted() {
    let mut pair = joined(config(1), Config::default(), 1, ecf());
    let id = pair.client.open().unwrap();
    pair.client.write(id, Bytes::from(vec![7; 1 << 20]), NOW).unwrap();
    pair.client.close(0, NOW);
    pair.client.close(300, after(10));
    let mut now = after(10);
    for _ in 0..1000 {
        let Some(at) = pair.client.next_timeout(now) else {
            break;
        };
        now = at.max(now);
        pair.client.timeout(now);
        drain(&mut pair.client);
        if now > NOW + Duration::from_secs(20) {
            break;
        }
    }
    assert!(pair.client.is_closed());
}

/// Small pieces in order take no more memory than on the wire.
#[test]
fn small_pieces_in_order_do_not_keep_buffers() {
    let mut pair = joined(config(1), Config::default(), 1, ecf());
    let mut buffers = Vec::new();
    for n in 0..100u64 {
        let mut buffer = bytes::BytesMut::with_capacity(65_536);
        buffer.extend_from_slice(&segment::data_header(0, n, 1, false));
        buffer.extend_from_slice(&[9]);
        let shared = buffer.split().freeze();
        buffers.push(shared.clone());
        pair.server.received(CarrierId(0), shared, NOW);
    }
    let pinned = buffers.iter().filter(|b| !b.is_unique()).count();
    assert_eq!(pinned, 0, "read buffers of 64 KiB pinned by a byte each");
}

/// A download fills the queue of its path. The client's own data, a few acknowledgements, takes longer there
/// and back than any measured round trip, while the download continues.
#[test]
fn a_path_with_a_full_queue_is_not_suspected() {
    let mut pair = joined(config(1), Config::default(), 1, ecf());
    let stream = pair.client.open().unwrap();
    pair.client
        .write(stream, Bytes::from_static(b"GET"), NOW)
        .unwrap();
    pair.exchange(NOW);
    let round_trip = Duration::from_millis(60);
    let waiting = hawser_carriers::Statistics {
        srtt: round_trip,
        in_flight: 40,
        ..hawser_carriers::Statistics::default()
    };
    // 60 ms + 10 ms + 40 ms (docs/session-protocol.md): the time that a carrier may go without a sign of
    // life.
    let (timeout, mut suspected) = (Duration::from_millis(110), Vec::new());
    for millisecond in (0..1_000).step_by(10) {
        pair.server
            .write(stream, Bytes::from_static(&[0; 1_000]), after(millisecond))
            .unwrap();
        if millisecond < 500 {
            for (id, bytes) in drain(&mut pair.server).0 {
                pair.client.received(id, bytes.into(), after(millisecond));
            }
        }
        pair.client.statistics(CarrierId(0), waiting, after(millisecond));
        pair.client.timeout(after(millisecond));
        let suspects = |one: &Instruction| *one == Instruction::Notify(Notice::PathSuspect(CarrierId(0)));
        if drain(&mut pair.client).1.iter().any(suspects) {
            suspected.push(after(millisecond));
        }
    }
    assert_eq!(
        suspected,
        [after(490) + timeout],
        "once nothing comes any more, and not before"
    );
}

/// After an outage, the first acknowledgement is for a packet from before it. The carrier lives, but its
/// transport, whose timeouts are seconds by then, has not repaired the outage's losses. The next carrier
/// takes all of that data.
#[test]
fn data_lost_in_an_outage_moves_to_the_next_carrier() {
    let mut pair = joined(config(1), Config::default(), 1, ecf());
    let stream = pair.server.open().unwrap();
    pair.server.room(CarrierId(0), 131_072, NOW);
    pair.server
        .write(stream, Bytes::from(vec![7; 50_000]), NOW)
        .unwrap();
    let sent = drain(&mut pair.server).0[&CarrierId(0)].len() as u64;
    let mut figures = hawser_carriers::Statistics {
        srtt: Duration::from_millis(50),
        in_flight: sent,
        ..hawser_carriers::Statistics::default()
    };
    for millisecond in (0..3_000).step_by(20) {
        pair.server.statistics(CarrierId(0), figures, after(millisecond));
        pair.server.timeout(after(millisecond));
    }
    (figures.acked, figures.in_flight) = (5_000, sent - 5_000);
    (figures.srtt, figures.rttvar) = (Duration::from_millis(420), Duration::from_millis(760));
    pair.server.statistics(CarrierId(0), figures, after(3_000));
    let notices = drain(&mut pair.server).1;
    let lives = Instruction::Notify(Notice::PathLive(CarrierId(0)));
    assert!(notices.contains(&lives), "{notices:?}");

    pair.server.admitted(CarrierId(1), false, after(3_013));
    pair.server.room(CarrierId(1), 131_072, after(3_013));
    let again = drain(&mut pair.server)
        .0
        .remove(&CarrierId(1))
        .map_or(0, |bytes| bytes.len());
    assert!(again >= 50_000, "{again} bytes of 50,000 went again");

    // After the repair, both carriers take data.
    (figures.acked, figures.in_flight) = (sent, 0);
    pair.server.statistics(CarrierId(0), figures, after(3_500));
    pair.server.statistics(CarrierId(1), figures, after(3_500));
    pair.server.room(CarrierId(0), 131_072, after(3_500));
    pair.server.room(CarrierId(1), 0, after(3_500));
    pair.server
        .write(stream, Bytes::from(vec![7; 1_000]), after(3_500))
        .unwrap();
    assert!(drain(&mut pair.server).0.contains_key(&CarrierId(0)));
}
