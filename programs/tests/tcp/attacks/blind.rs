//! Attackers off the path, who know the addresses and guess the rest: RFC 5961.

use crate::stage::Dice;
use crate::bench::{Connection, SECOND, State};
use crate::segment::Segment;

const TRIES: u64 = 20_000;

/// Sends forgeries at random numbers over ten seconds and returns how many segments answered.
fn guess(c: &mut Connection, forge: impl Fn(&Connection, u32, u32) -> Segment) -> usize {
    let mut dice = Dice(4711);
    for i in 0..TRIES {
        let segment = forge(c, dice.roll() as u32, dice.roll() as u32);
        c.bench.inject(&segment);
        if i % (TRIES / 10) == 0 {
            c.bench.advance(SECOND);
        }
    }
    let sent = c.bench.sent();
    assert!(sent.iter().all(|s| !s.rst), "nothing of ours helps the attacker");
    c.bench.is(c.handle, State::Established);
    assert_eq!(c.bench.notices(), []);
    sent.len()
}

#[test]
fn blind_resets_end_nothing() {
    let mut c = Connection::plain(&[]);
    let answers = guess(&mut c, |c, seq, _| c.segment().at(seq).rst());
    // One in 65,537 guesses lies in the window of 65,535 bytes and is challenged.
    println!("blind RST: {TRIES} guesses, {answers} answers");
    assert!(answers <= 10);
    // All guesses within the window, but the right one: the budget bounds the challenges (RFC 5961, 7).
    let start = c.next;
    for offset in 1..5000 {
        let reset = c.segment().at(start.wrapping_add(offset)).rst();
        c.bench.inject(&reset);
    }
    let challenges = c.bench.sent().len();
    println!("blind RST within the window: 4999 guesses, {challenges} challenges");
    assert!(challenges <= 10);
    c.bench.is(c.handle, State::Established);
}

#[test]
fn blind_syns_end_nothing() {
    let mut c = Connection::plain(&[]);
    let answers = guess(&mut c, |c, seq, _| Segment { ack: None, ..c.segment().at(seq).syn() });
    println!("blind SYN: {TRIES} guesses, {answers} answers");
    // Ten in five seconds within the window; two a second outside of it.
    assert!(answers <= 2 * 11 + 20 + 2, "{answers}");
}

/// Text needs a number within the window and an acknowledgement that is plausible (RFC 5961, 5.2).
#[test]
fn blind_text_is_not_taken() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 1000);
    c.acknowledge(1000);
    let _ = c.bench.sent();
    let answers = guess(&mut c, |c, seq, ack| c.segment().at(seq).acks(ack).text(*b"forged"));
    println!("blind text: {TRIES} guesses, {answers} answers");
    assert!(answers as u64 <= TRIES, "at most one for each");
    assert_eq!(c.bench.read(c.handle, 100), b"");
    // The number known, the acknowledgement not: no byte, few challenges.
    let mut dice = Dice(99);
    for _ in 0..TRIES {
        let ack = c.host.wrapping_add(70_000).wrapping_add((dice.roll() % 2_000_000_000) as u32);
        let forged = c.segment().acks(ack).text(*b"forged");
        c.bench.inject(&forged);
    }
    let challenges = c.bench.sent().len();
    println!("blind text, number known: {TRIES} guesses, {challenges} challenges");
    assert!(challenges <= 10, "{challenges}");
    assert_eq!(c.bench.read(c.handle, 100), b"");
    c.peer_sends(5);
    assert_eq!(c.bench.read(c.handle, 100), b"ppppp", "the true peer goes on");
}

/// CVE-2016-5696: where challenges have a budget in common, one connection learns how many others used. Here
/// each has its own.
#[test]
fn challenges_of_one_connection_tell_nothing_of_another() {
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

/// In SYN-SENT a reset counts only with the acknowledgement of our very SYN (RFC 9293, 3.10.7.3).
#[test]
fn blind_resets_do_not_keep_a_connection_from_opening() {
    let mut bench = crate::bench::Bench::new(&[]);
    let handle = bench.connect();
    let syn = bench.one();
    let mut dice = Dice(5);
    for _ in 0..TRIES {
        let ack = Some(dice.roll() as u32).filter(|ack| *ack != syn.seq.wrapping_add(1));
        let reset = Segment { source: 4000, destination: 5000, seq: 1, ack, rst: true, ..Segment::default() };
        bench.inject(&reset);
    }
    bench.silent();
    bench.is(handle, State::SynSent);
    println!("blind RST in SYN-SENT: {TRIES} guesses, no effect");
}
