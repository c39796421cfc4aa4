//! Attacks by unauthenticated peers, forgers and hostile peers. Each is refused and counted, and no byte of
//! it reaches an application.

use std::time::Duration;

use bytes::Bytes;
use hawser_carriers::Statistics;
use hawser_time::Instant;

use crate::scheduler::{EarliestCompletion, Redundant, Scheduler};
use crate::secret::Secret;
use crate::segment::{Ack, Close, Join, Segment, data_header, encode};
use crate::{
    Acceptor, AcceptorConfig, Candidate, CarrierDecision, CarrierId, Config, Exporter, Instruction, Loss,
    Notice, PathStatus, ReadError, Refusal, Security, Session, SessionEnd, SessionId,
};

const NOW: Instant = Instant::after(Duration::from_secs(1));
const FIRST: CarrierId = CarrierId(0);
const EXPORTER: Exporter = [7; 32];

fn scheduler() -> Box<dyn Scheduler> {
    Box::<EarliestCompletion>::default()
}

fn config() -> Config {
    Config {
        candidates: vec![Candidate::new(0), Candidate::new(1)],
        ..Config::default()
    }
}

/// A client and a server that have agreed on a session over one carrier, and the server's acceptor.
struct Pair {
    client: Session,
    server: Session,
    acceptor: Acceptor<u32>,
    hello: Bytes,
    accept: Bytes,
}

fn sent(session: &mut Session) -> Bytes {
    let mut bytes = Vec::new();
    while let Some(instruction) = session.poll() {
        if let Instruction::Send { head, body, .. } = instruction {
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(&body);
        }
    }
    bytes.into()
}

fn notices(session: &mut Session) -> Vec<Notice> {
    let mut notices = Vec::new();
    while let Some(instruction) = session.poll() {
        if let Instruction::Notify(notice) = instruction {
            notices.push(notice);
        }
    }
    notices
}

fn reports_loss(notices: &[Notice], of: CarrierId, why: &Loss) -> bool {
    let meant = |notice: &Notice| matches!(notice, Notice::PathLost { carrier, reason, .. } if *carrier == of && reason == why);
    notices.iter().any(meant)
}

fn pair() -> Pair {
    pair_with(Config::default(), AcceptorConfig::default())
}

fn pair_with(server: Config, acceptor: AcceptorConfig) -> Pair {
    pair_by(scheduler, server, acceptor)
}

fn pair_by(scheduler: fn() -> Box<dyn Scheduler>, server: Config, acceptor: AcceptorConfig) -> Pair {
    let mut client = Session::client(config(), scheduler(), [3; 16], NOW);
    sent(&mut client);
    client.connected(FIRST, Some(EXPORTER), NOW);
    let hello = sent(&mut client);
    let mut acceptor = Acceptor::new(AcceptorConfig { session: server, ..acceptor });
    acceptor
        .accepted(0, Some(EXPORTER), [1; 28], NOW)
        .expect("a place");
    let CarrierDecision::Begin { mut session, carrier, answer, .. } =
        acceptor.received(0, hello.clone(), scheduler, NOW)
    else {
        panic!("the acceptor is open");
    };
    session.admitted(carrier, false, NOW);
    sent(&mut session);
    client.received(FIRST, answer.clone(), NOW);
    sent(&mut client);
    Pair { client, server: *session, acceptor, hello, accept: answer }
}

impl Pair {
    fn secret(&self) -> Secret {
        Secret::secured(&EXPORTER, &self.hello, &self.accept)
    }

    fn join(&self, number: u32, exporter: &Exporter, secret: &Secret) -> Join {
        let proof = secret.join(exporter, self.client.id(), false, number);
        Join {
            number,
            backup: false,
            session: self.client.id(),
            received: 0,
            nonce: [0; 16],
            proof,
        }
    }

    /// Returns the acceptor's decision about a new carrier whose first bytes are `bytes`.
    fn knock(&mut self, key: u32, exporter: Exporter, bytes: Bytes) -> CarrierDecision {
        self.acceptor
            .accepted(key, Some(exporter), [9; 28], NOW)
            .expect("a place");
        self.acceptor.received(key, bytes, scheduler, NOW)
    }

    fn is_refused(&mut self, exporter: Exporter, bytes: Bytes, why: Refusal) {
        let before = self.acceptor.refused();
        match self.knock(99, exporter, bytes) {
            CarrierDecision::Refuse { refusal, .. } => assert_eq!(refusal, why),
            verdict => panic!("not refused: {verdict:?}"),
        }
        assert_eq!(self.acceptor.refused(), before + 1, "it is counted");
    }
}

#[test]
fn a_join_with_a_right_proof_is_let_in() {
    let mut pair = pair();
    let join = pair.join(1, &[8; 32], &pair.secret());
    let verdict = pair.knock(1, [8; 32], encode(&Segment::Join(join)));
    assert!(
        matches!(verdict, CarrierDecision::Join { carrier: CarrierId(1), .. }),
        "{verdict:?}"
    );
}

#[test]
fn a_join_with_a_wrong_proof_is_refused() {
    let mut pair = pair();
    let right = pair.join(1, &[8; 32], &pair.secret());
    for byte in 0..32 {
        let mut join = right.clone();
        join.proof[byte] ^= 1;
        pair.is_refused([8; 32], encode(&Segment::Join(join)), Refusal::Unknown);
    }
    // The proof covers the carrier's number and its role.
    let other = Join { number: 2, ..right.clone() };
    pair.is_refused([8; 32], encode(&Segment::Join(other)), Refusal::Unknown);
    let other = Join { backup: true, ..right.clone() };
    pair.is_refused([8; 32], encode(&Segment::Join(other)), Refusal::Unknown);
    // An unknown session gets the same answer.
    let mut session = right.session;
    session.0[15] ^= 1;
    pair.is_refused(
        [8; 32],
        encode(&Segment::Join(Join { session, ..right })),
        Refusal::Unknown,
    );
}

#[test]
fn a_replayed_join_is_refused() {
    let mut pair = pair();
    let join = encode(&Segment::Join(pair.join(1, &[8; 32], &pair.secret())));
    assert!(matches!(
        pair.knock(1, [8; 32], join.clone()),
        CarrierDecision::Join { .. }
    ));
    // Another connection has another exporter.
    pair.is_refused([5; 32], join.clone(), Refusal::Unknown);
    // A number cannot be used twice, even with the same proof.
    pair.is_refused([8; 32], join, Refusal::Unknown);
}

/// If someone on the path changes HELLO or ACCEPT, to force an older version or less security, no carrier can
/// join the session.
#[test]
fn a_downgrade_breaks_every_join() {
    for byte in 8..52 {
        let mut pair = pair();
        let mut hello = pair.hello.to_vec();
        hello[byte] ^= 1;
        let forged = Secret::secured(&EXPORTER, &hello, &pair.accept);
        let join = encode(&Segment::Join(pair.join(1, &[8; 32], &forged)));
        pair.is_refused([8; 32], join, Refusal::Unknown);
        let mut accept = pair.accept.to_vec();
        accept[byte] ^= 1;
        let forged = Secret::secured(&EXPORTER, &pair.hello, &accept);
        let join = encode(&Segment::Join(pair.join(1, &[8; 32], &forged)));
        pair.is_refused([8; 32], join, Refusal::Unknown);
    }
}

/// A session without security begins only where it is allowed. A client does not take an ACCEPT that offers
/// less security than it asked for.
#[test]
fn less_security_than_asked_for_is_refused() {
    let mut pair = pair();
    let mut hello = pair.hello.to_vec();
    hello[10] = 1;
    pair.is_refused([8; 32], hello.into(), Refusal::Security);
    let mut client = Session::client(config(), scheduler(), [3; 16], NOW);
    client.connected(FIRST, Some(EXPORTER), NOW);
    let mut accept = pair.accept.to_vec();
    accept[10] = 1;
    client.received(FIRST, accept.into(), NOW);
    let lost = notices(&mut client);
    assert!(reports_loss(&lost, FIRST, &Loss::Proof), "{lost:?}");
    // Without TLS 1.3, the client sends nothing at all.
    let mut client = Session::client(config(), scheduler(), [3; 16], NOW);
    client.connected(FIRST, None, NOW);
    assert_eq!(sent(&mut client), Bytes::new());
}

/// The version check fails for a server that speaks only later versions, and for such a client.
#[test]
fn an_unknown_version_is_refused() {
    let mut pair = pair();
    let mut hello = pair.hello.to_vec();
    (hello[8], hello[9]) = (9, 2);
    pair.is_refused([8; 32], hello.into(), Refusal::Version);
}

/// CLOSE, data, acknowledgements and path status have no effect on carriers that have not proved that they
/// belong to the session.
#[test]
fn segments_before_joining_have_no_effect() {
    let words = [
        encode(&Segment::Close(Close { code: 300, finals: Vec::new() })),
        encode(&Segment::Closed),
        [&data_header(1, 0, 5, false)[..], b"false"].concat().into(),
        encode(&Segment::Reset { stream: 1, code: 0, end: 0 }),
        encode(&Segment::PathStatus { number: 0, status: PathStatus::Failing, sequence: 9 }),
        encode(&Segment::Ping { token: 1 }),
    ];
    for word in words {
        // At the acceptor.
        let mut pair = pair();
        pair.is_refused([8; 32], word.clone(), Refusal::Protocol);
        // At the client, on a carrier whose server has not proved that it knows the secret.
        let second = CarrierId(1);
        pair.client.connected(second, Some([8; 32]), NOW);
        sent(&mut pair.client);
        pair.client.received(second, word.clone(), NOW);
        let reported = notices(&mut pair.client);
        assert!(
            reports_loss(&reported, second, &Loss::Proof),
            "{word:?}: {reported:?}"
        );
        assert_eq!(pair.client.counters().unproven, 1);
        assert_eq!(pair.client.counters().delivered, 0);
        assert!(!pair.client.is_closed());
        assert!(pair.client.paths().all(|path| path.status == PathStatus::Active));
    }
}

/// The server, too, must prove that it knows the secret.
#[test]
fn a_client_leaves_a_server_without_the_secret() {
    let mut pair = pair();
    let second = CarrierId(1);
    pair.client.connected(second, Some([8; 32]), NOW);
    sent(&mut pair.client);
    pair.client.received(
        second,
        encode(&Segment::Joined { number: 1, proof: [0; 24] }),
        NOW,
    );
    assert!(reports_loss(&notices(&mut pair.client), second, &Loss::Proof));
}

/// A peer cannot use its own session's secret to get segments into another session.
#[test]
fn segments_of_another_session_are_refused() {
    let mut one = pair();
    let mut other = pair_with(Config::default(), AcceptorConfig::default());
    let secret = other.secret();
    let session = SessionId([1, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]);
    let proof = secret.join(&[8; 32], session, false, 1);
    let join = Join { number: 1, backup: false, session, received: 0, nonce: [0; 16], proof };
    one.is_refused([8; 32], encode(&Segment::Join(join)), Refusal::Unknown);
    // Streams that were not opened, and offsets that were not sent.
    other.client.open().expect("a stream");
    for word in [
        encode(&Segment::Reset { stream: 4, code: 0, end: 0 }),
        encode(&Segment::Ack(Ack {
            stream: 0,
            delay: Duration::ZERO,
            cumulative: 1,
            stream_credit: 0,
            session_credit: 0,
            end: false,
            gone: false,
            ranges: Vec::new(),
        })),
    ] {
        let mut pair = pair_with(Config::default(), AcceptorConfig::default());
        pair.client.open().expect("a stream");
        pair.client.received(FIRST, word, NOW);
        assert_eq!(pair.client.counters().violations, 1);
        assert!(pair.client.is_closed());
    }
}

/// Data beyond the granted credit ends the session, and no byte of it is delivered.
#[test]
fn offsets_out_of_the_window_are_refused() {
    let small = Config { session_credit: 131_072, stream_credit: 65_536, ..Config::default() };
    // Beyond the stream's credit; beyond the session's credit, over three streams; at the end of the number
    // space.
    for offsets in [
        vec![(0, 65_536)],
        vec![(0, 65_535), (2, 65_535), (4, 1)],
        vec![(0, 1 << 60)],
    ] {
        let mut pair = pair_with(small.clone(), AcceptorConfig::default());
        let last = offsets.len() - 1;
        for (index, (stream, offset)) in offsets.into_iter().enumerate() {
            let bytes = [&data_header(stream, offset, 1, false)[..], b"x"].concat();
            assert_eq!(pair.server.counters().violations, 0);
            pair.server.received(FIRST, bytes.into(), NOW);
            let reported = notices(&mut pair.server);
            let closed = reported.contains(&Notice::Closed(SessionEnd::Violation(1)));
            assert_eq!(closed, index == last, "{reported:?}");
            assert_eq!(pair.server.read(stream, 1, NOW).ok(), None);
        }
        assert_eq!(pair.server.counters().violations, 1);
    }
}

#[test]
fn contradicting_stream_ends_are_refused() {
    for (first, second) in [
        ((3, true), (4, true)),
        ((3, true), (4, false)),
        ((5, false), (2, true)),
    ] {
        let mut pair = pair();
        for (offset, end) in [first, second] {
            let bytes = [&data_header(0, offset, 1, end)[..], b"x"].concat();
            pair.server.received(FIRST, bytes.into(), NOW);
        }
        assert_eq!(pair.server.counters().violations, 1, "{first:?} {second:?}");
        assert_eq!(pair.server.read(0, 1, NOW), Err(ReadError::Closed));
    }
}

/// If a peer opens a million streams, the session closes at the first one beyond the limit.
#[test]
fn a_million_streams_are_too_many() {
    let mut pair = pair();
    let all_at_once = [&data_header(2_000_000, 0, 1, false)[..], b"x"].concat();
    pair.server.received(FIRST, all_at_once.into(), NOW);
    assert_eq!(pair.server.counters().violations, 1);
    let mut pair = pair_with(Config::default(), AcceptorConfig::default());
    let mut opened = 0;
    for stream in 0..1_000_000 {
        let one = [&data_header(2 * stream, 0, 1, true)[..], b"x"].concat();
        pair.server.received(FIRST, one.into(), NOW);
        let reported = notices(&mut pair.server);
        opened += reported
            .iter()
            .filter(|notice| matches!(notice, Notice::StreamOpened(_)))
            .count();
        if pair.server.is_closed() {
            break;
        }
    }
    assert_eq!((opened, pair.server.counters().violations), (1_024, 1));
}

/// Returns the number of bytes that wait to be written to a carrier whose peer does not read.
fn waiting(session: &mut Session) -> usize {
    let mut bytes = 0;
    while let Some(instruction) = session.poll() {
        if let Instruction::Send { head, body, .. } = instruction {
            bytes += head.len() + body.len();
        }
    }
    bytes
}

/// The peer never reads. The session takes data from the application only up to the stated limits, and hands
/// the transport only the bytes that it has room for.
#[test]
fn a_peer_that_never_reads_costs_a_stated_amount() {
    let mut pair = pair();
    pair.client.room(FIRST, 65_536, NOW);
    let (mut taken, mut handed_over) = (0, 0);
    for _ in 0..100 {
        let stream = pair.client.open().expect("a stream");
        taken += pair
            .client
            .write(stream, vec![0; 16 << 20].into(), NOW)
            .expect("an open session");
        handed_over += waiting(&mut pair.client);
    }
    assert_eq!(taken as u64, Config::default().send_memory);
    assert!(handed_over < 4 * 65_536, "{handed_over}");
}

/// The peer keeps sending and never reads. Pings and repeated data are answered only until the transport's
/// overdraft is used up.
#[test]
fn answers_to_a_peer_that_never_reads_are_bounded() {
    let mut pair = pair();
    let mut flood = Vec::new();
    for token in 0..500 {
        flood.extend_from_slice(&encode(&Segment::Ping { token }));
        flood.extend_from_slice(&data_header(0, 0, 1, true));
        flood.push(0);
    }
    let flood = Bytes::from(flood);
    let mut answered = 0;
    for _ in 0..1_000 {
        pair.server.received(FIRST, flood.clone(), NOW);
        answered += waiting(&mut pair.server);
    }
    assert!(answered > 65_536 && answered < 3 * 65_536, "{answered}");
    assert!(!pair.server.is_closed());
    // The peer is answered again when the transport has room.
    pair.server.room(FIRST, 65_536, NOW);
    pair.server
        .received(FIRST, encode(&Segment::Ping { token: 7 }), NOW);
    assert!(waiting(&mut pair.server) > 0);
}

/// Ranges out of order cost memory that credit does not cover. Beyond the limit the session ends.
#[test]
fn pieces_out_of_order_are_bounded() {
    let grown = Config { session_credit: 1 << 20, stream_credit: 1 << 20, ..Config::default() };
    for (accept, limit) in [(false, 1_024), (true, 65_536)] {
        let mut pair = pair_with(grown.clone(), AcceptorConfig::default());
        if accept {
            pair.server.accept();
        }
        let kept = pieces_until_closed(&mut pair);
        // The initial credit or the limit on pieces applies, whichever is reached first.
        assert!(kept == limit.min(65_536), "{kept}");
    }
}

/// Sends single bytes with gaps between them until the session ends, and returns how many were kept.
fn pieces_until_closed(pair: &mut Pair) -> u64 {
    for piece in 0..100_000 {
        let one = [&data_header(0, 2 * piece + 1, 1, false)[..], b"x"].concat();
        pair.server.received(FIRST, one.into(), NOW);
        waiting(&mut pair.server);
        if pair.server.is_closed() {
            return piece;
        }
    }
    panic!("a hundred thousand pieces were kept");
}

/// A carrier that sends little or nothing before its proof is closed after five seconds. The number of such
/// carriers is limited.
#[test]
fn unauthenticated_peers_are_bounded_in_number_and_time() {
    let config = AcceptorConfig { unauthenticated: 3, ..AcceptorConfig::default() };
    let mut acceptor: Acceptor<u32> = Acceptor::new(config);
    for key in 0..3 {
        acceptor
            .accepted(key, Some(EXPORTER), [0; 28], NOW)
            .expect("a place");
        let verdict = acceptor.received(key, Bytes::from_static(&[1]), scheduler, NOW);
        assert!(matches!(verdict, CarrierDecision::More));
    }
    assert_eq!(
        acceptor.accepted(3, Some(EXPORTER), [0; 28], NOW),
        Err(Refusal::Limit)
    );
    assert!(acceptor.sweep(NOW + Duration::from_millis(4_999)).is_empty());
    assert_eq!(acceptor.sweep(NOW + Duration::from_secs(5)), [0, 1, 2]);
    assert_eq!(acceptor.refused(), 4);
    // More than 1 KiB arrived without a complete first segment.
    acceptor
        .accepted(4, Some(EXPORTER), [0; 28], NOW)
        .expect("a place");
    let long = [&[1, 52, 0, 0, 0, 1, 0, 0][..], &[0; 1_100]].concat();
    assert!(matches!(
        acceptor.received(4, long.into(), scheduler, NOW),
        CarrierDecision::Refuse { .. }
    ));
}

/// A join that reaches the wrong server behind a balancer is refused with that reason, and makes no session.
#[test]
fn a_join_at_the_wrong_server_makes_no_session() {
    let mut pair = pair_with(
        Config::default(),
        AcceptorConfig { server: 7, ..AcceptorConfig::default() },
    );
    assert_eq!(
        pair.client.id().0[..4],
        [1, 0, 0, 7],
        "a balancer can route by the id"
    );
    let join = encode(&Segment::Join(pair.join(1, &[8; 32], &pair.secret())));
    let mut other: Acceptor<u32> = Acceptor::new(AcceptorConfig { server: 8, ..AcceptorConfig::default() });
    other.accepted(0, Some([8; 32]), [0; 28], NOW).expect("a place");
    let CarrierDecision::Refuse { refusal, answer } = other.received(0, join.clone(), scheduler, NOW) else {
        panic!("it belongs elsewhere");
    };
    assert_eq!((refusal, other.sessions()), (Refusal::WrongServer, 0));
    // The client keeps its session, and the right server still accepts a join.
    let second = CarrierId(1);
    pair.client.connected(second, Some([8; 32]), NOW);
    sent(&mut pair.client);
    pair.client.received(second, answer, NOW);
    let reported = notices(&mut pair.client);
    assert!(
        reports_loss(&reported, second, &Loss::Refused(Refusal::WrongServer)),
        "{reported:?}"
    );
    assert!(!pair.client.is_closed());
    assert!(matches!(
        pair.knock(1, [8; 32], join),
        CarrierDecision::Join { .. }
    ));
}

/// The acceptor answers late joins to an ended session for a minute, and then forgets the session.
#[test]
fn a_tombstone_answers_late_joins() {
    let mut pair = pair();
    let session = pair.client.id();
    pair.acceptor.ended(session, NOW);
    let join = encode(&Segment::Join(pair.join(1, &[8; 32], &pair.secret())));
    pair.is_refused([8; 32], join.clone(), Refusal::Gone);
    pair.acceptor.sweep(NOW + Duration::from_secs(60));
    pair.is_refused([8; 32], join, Refusal::Unknown);
}

/// In a session without TLS, the server's challenge takes the exporter's place. A join cannot be replayed by
/// an attacker who does not see the next challenge.
#[test]
fn an_insecure_join_answers_the_challenge() {
    let config = Config { security: Security::None, ..config() };
    let acceptor = AcceptorConfig { insecure: true, ..AcceptorConfig::default() };
    let mut acceptor: Acceptor<u32> = Acceptor::new(acceptor);
    let mut client = Session::client(config, scheduler(), [3; 16], NOW);
    acceptor.accepted(0, None, [1; 28], NOW).expect("a place");
    client.connected(FIRST, None, NOW);
    let CarrierDecision::Begin { answer, .. } = acceptor.received(0, sent(&mut client), scheduler, NOW)
    else {
        panic!()
    };
    client.received(FIRST, answer, NOW);
    sent(&mut client);
    let challenge = acceptor
        .accepted(1, None, [2; 28], NOW)
        .expect("a place")
        .expect("a challenge");
    client.connected(CarrierId(1), None, NOW);
    assert_eq!(
        sent(&mut client),
        Bytes::new(),
        "nothing is sent before the challenge"
    );
    client.received(CarrierId(1), challenge, NOW);
    let join = sent(&mut client);
    acceptor.accepted(2, None, [4; 28], NOW).expect("a place");
    assert!(
        matches!(
            acceptor.received(2, join.clone(), scheduler, NOW),
            CarrierDecision::Refuse { .. }
        ),
        "a replay"
    );
    assert!(matches!(
        acceptor.received(1, join, scheduler, NOW),
        CarrierDecision::Join { .. }
    ));
}

/// Returns how many streams a server visits for 500 acknowledgements, given `streams` streams that each have
/// data outstanding. With `closing`, the server has also closed the session.
fn visits_of_acks(scheduler: fn() -> Box<dyn Scheduler>, streams: u32, closing: bool) -> u64 {
    let mut pair = pair_by(
        scheduler,
        Config { streams: 4_096, ..Config::default() },
        AcceptorConfig::default(),
    );
    let open: Vec<u8> = (0..streams)
        .flat_map(|stream| [&data_header(2 * stream, 0, 1, false)[..], b"x"].concat())
        .collect();
    pair.server.received(FIRST, open.into(), NOW);
    pair.server.room(FIRST, 1 << 24, NOW);
    pair.server.admitted(CarrierId(1), false, NOW);
    pair.server.room(CarrierId(1), 1 << 24, NOW);
    for stream in 0..streams {
        pair.server
            .write(2 * stream, Bytes::from_static(&[0; 501]), NOW)
            .expect("an open stream");
    }
    sent(&mut pair.server);
    let ack = |cumulative: u64| {
        encode(&Segment::Ack(Ack {
            stream: 0,
            delay: Duration::ZERO,
            cumulative,
            stream_credit: 0,
            session_credit: 0,
            end: false,
            gone: false,
            ranges: Vec::new(),
        }))
    };
    let acks: Vec<u8> = (1..=500).flat_map(ack).collect();
    if closing {
        pair.server.close(0, NOW);
    }
    let before = pair.server.streams_visited();
    pair.server.received(FIRST, acks.into(), NOW);
    pair.server.streams_visited() - before
}

/// If there are more than 16 streams, at most 16 are examined for a second copy.
#[test]
fn acks_with_4096_streams_visit_as_many_streams_as_with_16() {
    let schedulers: [fn() -> Box<dyn Scheduler>; 2] = [scheduler, || Box::new(Redundant)];
    for (scheduler, closing) in schedulers.into_iter().flat_map(|of| [(of, false), (of, true)]) {
        assert_eq!(
            visits_of_acks(scheduler, 4_096, closing),
            visits_of_acks(scheduler, 16, closing),
            "{:?}, closing: {closing}",
            scheduler()
        );
    }
}

#[test]
fn session_credit_grows_as_the_application_reads() {
    let mut pair = pair();
    // ACCEPT's session credit, a u64 at offset 40, which also applies to each stream
    // (docs/session-protocol.md).
    let credit = |at: usize| u64::from_be_bytes(pair.accept[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(credit(40), 128 << 10);
    let round_trip = Duration::from_millis(50);
    pair.server.statistics(
        FIRST,
        Statistics { srtt: round_trip, ..Statistics::default() },
        NOW,
    );
    let mut offset = 0;
    let mut piece = |server: &mut Session| {
        let bytes = [&data_header(0, offset, 16_384, false)[..], &[0; 16_384]].concat();
        offset += 16_384;
        server.received(FIRST, bytes.into(), NOW);
        sent(server);
    };
    for _ in 0..1_000 {
        piece(&mut pair.server);
        while pair.server.read(0, usize::MAX, NOW).is_ok() {}
    }
    // The application no longer reads. The grown credit bounds the bytes that are kept.
    while !pair.server.is_closed() {
        piece(&mut pair.server);
    }
    let unread = pair.server.held().unread;
    assert!((8 << 20..=32 << 20).contains(&unread), "{unread} bytes unread");
}

#[test]
fn an_unaccepted_session_ends_with_its_last_carrier() {
    for accepted in [false, true] {
        let mut pair = pair();
        if accepted {
            pair.server.accept();
        }
        pair.server
            .lost(FIRST, Loss::Transport("end of file".into()), NOW);
        assert!(
            pair.server
                .next_timeout(NOW)
                .is_some_and(|at| accepted || at <= NOW)
        );
        pair.server.timeout(NOW);
        assert_eq!(pair.server.is_closed(), !accepted);
    }
}

#[test]
fn a_rejected_session_frees_memory_and_notifies_its_peer() {
    let mut pair = pair();
    let bytes = [&data_header(0, 0, 5, false)[..], b"hello"].concat();
    pair.server.received(FIRST, bytes.into(), NOW);
    assert!(pair.server.memory() > 65_536 + 5);
    sent(&mut pair.server);
    pair.server.reject(NOW);
    let close = encode(&Segment::Close(Close { code: 3, finals: Vec::new() }));
    assert_eq!(sent(&mut pair.server), close);
    assert_eq!((pair.server.memory(), pair.server.is_closed()), (0, true));
    pair.client.received(FIRST, close, NOW);
    assert!(notices(&mut pair.client).contains(&Notice::Closed(SessionEnd::ByPeer(3))));
}
