//! Off-path attackers, who know the addresses and guess the rest: RFC 5961.

use std::time::Instant;

use fastrand::Rng;
use super::each;
use crate::bench::{Connection, SECOND, State};
use crate::segment::Segment;

const TRIES: u64 = 20_000;

/// Sends forgeries with random numbers over ten seconds and returns how many segments answered.
fn guess(c: &mut Connection, what: &str, forge: impl Fn(&Connection, u32, u32) -> Segment) -> usize {
    let mut rng = Rng::with_seed(4711);
    let began = Instant::now();
    for i in 0..TRIES {
        let segment = forge(c, rng.u32(..), rng.u32(..));
        c.bench.inject(&segment);
        if i % (TRIES / 10) == 0 {
            c.bench.advance(SECOND);
        }
    }
    let cost = each(began, TRIES);
    let sent = c.bench.sent();
    println!("{what}: {TRIES} guesses, {} answers; {cost}", sent.len());
    assert!(sent.iter().all(|s| !s.rst), "nothing of ours helps the attacker");
    c.bench.is(c.handle, State::Established);
    assert_eq!(c.bench.notices(), []);
    sent.len()
}

#[test]
fn blind_resets_do_not_end_a_connection() {
    let mut c = Connection::plain(&[]);
    let answers = guess(&mut c, "blind RST", |c, seq, _| c.segment().at(seq).rst());
    // One in 65,537 guesses lies within the window of 65,535 bytes and is challenged.
    assert!(answers <= 10);
    // All guesses lie within the window, except the right number. The budget limits the challenges (RFC 5961,
    // 7).
    let start = c.next;
    for offset in 1..5000 {
        let reset = c.segment().at(start.wrapping_add(offset)).rst();
        c.bench.inject(&reset);
    }
    let challenges = c.bench.sent().len();
    println!("blind RST within the window: 4999 guesses, {challenges} challenges");
    assert!((1..=10).contains(&challenges), "the true peer is asked, and not for ever: {challenges}");
    c.bench.is(c.handle, State::Established);
}

#[test]
fn blind_syns_do_not_end_a_connection() {
    let mut c = Connection::plain(&[]);
    let answers = guess(&mut c, "blind SYN", |c, seq, _| Segment { ack: None, ..c.segment().at(seq).syn() });
    // Ten challenges in five seconds within the window, and two a second outside it.
    assert!(answers <= 2 * 11 + 20 + 2, "{answers}");
    // All guesses lie within the window, with and without an acknowledgement: RFC 5961, 4.2 and 7.
    let start = c.next;
    for offset in 0..5000 {
        let syn = c.segment().at(start.wrapping_add(offset)).syn();
        let syn = if offset % 2 == 0 { syn } else { Segment { ack: None, ..syn } };
        c.bench.inject(&syn);
    }
    let challenges = c.bench.sent();
    println!("blind SYN within the window: 5000 guesses, {} challenges", challenges.len());
    assert!((1..=10).contains(&challenges.len()), "{challenges:?}");
    assert!(challenges.iter().all(|s| s.ack == Some(c.next) && !s.syn && !s.rst), "{challenges:?}");
    c.bench.is(c.handle, State::Established);
    c.peer_sends(5);
    assert_eq!(c.bench.read(c.handle, 100), b"ppppp", "the true peer goes on");
}

/// Returns a connection whose largest window was 65,535 bytes, with 2000 bytes under way, and the range of
/// acceptable acknowledgements. It reaches from the oldest unacknowledged number minus that window to the end
/// of the sent data (RFC 5961, 5.2).
fn under_way() -> (Connection, u32, u32) {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 3000);
    c.acknowledge(1000);
    let _ = c.bench.sent();
    let (oldest, latest) = (c.host.wrapping_sub(65_535), c.host.wrapping_add(2000));
    (c, oldest, latest)
}

/// The attacker knows the exact sequence number and guesses the acknowledgement, all around the number space.
/// If no acknowledgement is acceptable, no byte is accepted, at once or later, and the budget limits the
/// challenges. Before RFC 5961 half of the space was acceptable.
#[test]
fn blind_data_is_not_accepted() {
    const STEP: usize = 200_003;
    let (mut c, oldest, latest) = under_way();
    let wrong = u32::MAX - latest.wrapping_sub(oldest);
    let (mut tries, mut largest, began) = (0, 0, Instant::now());
    for offset in (0..wrong).step_by(STEP).chain([wrong - 1]) {
        let ack = latest.wrapping_add(1).wrapping_add(offset);
        // The forgeries are in order, behind a gap, and with a FIN.
        let forged = c.segment().acks(ack).payload(*b"forged");
        for segment in [forged.clone(), forged.clone().at(c.next.wrapping_add(10)), forged.fin()] {
            c.bench.inject(&segment);
            tries += 1;
        }
        if tries % 6000 == 0 {
            largest = largest.max(c.bench.sent().iter().filter(|s| s.payload.is_empty()).count());
            c.bench.is(c.handle, State::Established);
            c.bench.advance(5 * SECOND);
        }
    }
    println!(
        "blind data, number known: {tries} guesses over {wrong} acknowledgements, no byte taken, {largest} challenges \
         in 5 s; {}",
        each(began, tries),
    );
    assert!(tries > 60_000 && (1..=10).contains(&largest), "{tries} {largest}");
    assert_eq!(c.bench.observe(c.handle, "rcv_nxt") as u32, c.next);
    assert_eq!(c.bench.notices(), []);
    // No forged data waits behind the gap either.
    c.peer_sends(100);
    assert_eq!(c.bench.read(c.handle, 1000), [b'p'; 100], "the true peer goes on");
}

/// The attacker knows no number. One guess in 65,537 has a number within the window, and one in 64,000 of
/// those has an acceptable acknowledgement. The rest is answered (RFC 9293, 3.10.7.4), with fewer bytes than
/// were sent.
#[test]
fn guessed_data_is_answered_with_fewer_bytes() {
    let mut c = Connection::plain(&[]);
    let forged = c.segment().payload(*b"forged").packet().len();
    let answers = guess(&mut c, "blind data", |c, seq, ack| c.segment().at(seq).acks(ack).payload(*b"forged"));
    let answer = c.bench.last_packet.len();
    println!("blind data: guesses of {forged} bytes, answers of {answer} bytes");
    assert!(answers as u64 <= TRIES && answer < forged, "{answers} answers of {answer} bytes");
    assert_eq!(c.bench.read(c.handle, 100), b"");
    c.peer_sends(5);
    assert_eq!(c.bench.read(c.handle, 100), b"ppppp", "the true peer goes on");
}

/// CVE-2016-5696: with a common budget for challenges, one connection can learn how many another has used.
/// Here each connection has its own budget.
#[test]
fn challenge_acks_do_not_leak_between_connections() {
    let count = |disturb: bool| {
        let mut c = Connection::plain(&[]);
        c.bench.listen(80, 5);
        if disturb {
            let syn =
                Segment { source: 9, destination: 80, seq: 1, syn: true, window: 99, ..Segment::default() };
            c.bench.inject(&syn);
            let answer = c.bench.one();
            let ack = Segment { syn: false, seq: 2, ack: Some(answer.seq.wrapping_add(1)), ..syn.clone() };
            c.bench.inject(&ack);
            (0..500).for_each(|i| c.bench.inject(&Segment { seq: 3 + i % 90, rst: true, ..ack.clone() }));
            c.bench.notices();
            let _ = c.bench.sent();
        }
        let inside = c.segment().at(c.next.wrapping_add(1)).rst();
        (0..100).for_each(|_| c.bench.inject(&inside));
        c.bench.sent().len()
    };
    let (alone, beside) = (count(false), count(true));
    println!("challenges: {alone} alone, {beside} beside a connection that used its own up");
    assert_eq!(alone, beside);
}

/// In SYN-SENT, a reset counts only if it acknowledges exactly our SYN (RFC 9293, 3.10.7.3).
#[test]
fn blind_resets_do_not_keep_a_connection_from_opening() {
    let mut bench = crate::bench::Bench::new(&[]);
    let handle = bench.connect();
    let syn = bench.one();
    let mut rng = Rng::with_seed(5);
    for i in 0..TRIES {
        let ack = Some(rng.u32(..)).filter(|ack| i % 2 == 0 && *ack != syn.seq.wrapping_add(1));
        let reset = Segment { source: 4000, destination: 5000, seq: 1, ack, rst: true, ..Segment::default() };
        bench.inject(&reset);
    }
    bench.expect_nothing_sent();
    bench.is(handle, State::SynSent);
    println!("blind RST in SYN-SENT: {TRIES} guesses, no effect");
}
