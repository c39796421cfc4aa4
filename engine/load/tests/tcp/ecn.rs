//! Explicit congestion notification, RFC 3168.

use crate::bench::{Bench, Connection, MS, NEWRENO, SECOND};
use crate::segment::Segment;

const OFFER: [&str; 3] = [NEWRENO, "OFFER_ECN=true", "PROBES=false"];
const NOT_ECT: u8 = 0;
const ECT: u8 = 2;
const CE: u8 = 3;

/// Opens a connection that agreed on ECN; its segments have 1000 bytes.
fn marking(params: &[&str]) -> Connection {
    let params = &[&OFFER[..], params].concat();
    Connection::agreed(params, false, |syn| Segment { ece: true, sack_permitted: true, ..syn })
}

/// Lets the peer send a segment, marked or not.
fn peer_sends(c: &mut Connection, ecn: u8, cwr: bool) {
    let segment = Segment { ecn, cwr, ..c.segment().payload(vec![b'p'; 1000]) };
    c.next = c.next.wrapping_add(1000);
    c.bench.inject(&segment);
}

/// RFC 3168, 6.1.1: ECE and CWR offer ECN, and ECE alone agrees. A repeated SYN makes no offer (6.1.1.1).
#[test]
fn ecn_is_used_only_if_both_ends_agree() {
    let mut bench = Bench::new(&[]);
    bench.connect();
    let syn = bench.one();
    assert_eq!((syn.ece, syn.cwr), (false, false), "as Linux: the default offers nothing");
    let mut bench = Bench::new(&OFFER);
    bench.connect();
    let syn = bench.one();
    assert_eq!((syn.ece, syn.cwr, syn.ecn), (true, true, NOT_ECT));
    bench.advance(SECOND);
    let syn = bench.one();
    assert_eq!((syn.ece, syn.cwr), (false, false));

    for (params, offered, agreed) in [
        (&[][..], (true, true), true),
        (&[], (true, false), false),
        (&[], (false, false), false),
        (&["ECN=false"], (true, true), false),
    ] {
        let mut bench = Bench::new(params);
        bench.listen(80, 5);
        let syn = Segment { source: 4000, destination: 80, seq: 1, window: 1000, ..Segment::default() }.syn();
        bench.inject(&Segment { ece: offered.0, cwr: offered.1, ..syn });
        let answer = bench.one();
        assert_eq!((answer.ece, answer.cwr, answer.ecn), (agreed, false, NOT_ECT), "{offered:?}");
    }
}

/// RFC 3168, 6.1.2, 6.1.4, 6.1.5, 6.1.6: data that is sent for the first time may be marked. ACKs,
/// retransmissions and probes may not.
#[test]
fn only_new_data_is_sent_as_ecn_capable() {
    let mut c = marking(&[]);
    c.bench.send(c.handle, 3000);
    assert!(c.bench.sent().iter().all(|s| s.ecn == ECT && s.payload.len() == 1000));
    peer_sends(&mut c, NOT_ECT, false);
    peer_sends(&mut c, NOT_ECT, false);
    assert_eq!(c.bench.one().ecn, NOT_ECT, "an ACK");
    c.bench.advance(SECOND);
    assert!(c.bench.sent().iter().all(|s| s.ecn == NOT_ECT), "what goes again");
    c.window = 0;
    c.acknowledge(3000);
    c.bench.send(c.handle, 3000);
    c.bench.advance(3 * SECOND);
    let probe = c.bench.sent().remove(0);
    assert_eq!((probe.payload.len(), probe.ecn), (1, NOT_ECT), "a probe");

    let mut c = Connection::agreed(&OFFER, false, |syn| syn);
    c.bench.send(c.handle, 3000);
    assert!(c.bench.sent().iter().all(|s| s.ecn == NOT_ECT), "not agreed");
}

/// RFC 3168, 6.1.3: after a CE mark, every ACK echoes it until a CWR has arrived.
#[test]
fn ce_marks_are_echoed_until_the_peer_has_reduced() {
    let mut c = marking(&[]);
    peer_sends(&mut c, ECT, false);
    c.bench.expect_nothing_sent();
    peer_sends(&mut c, CE, false);
    assert!(c.bench.one().ece, "at once");
    c.bench.send(c.handle, 1000);
    assert!(c.bench.one().ece, "on data, too");
    peer_sends(&mut c, ECT, false);
    peer_sends(&mut c, ECT, false);
    assert!(c.bench.one().ece);
    peer_sends(&mut c, ECT, true);
    peer_sends(&mut c, ECT, false);
    assert!(!c.bench.one().ece);
    peer_sends(&mut c, CE, true);
    assert!(c.bench.one().ece, "a CE mark on the segment that carries CWR is a new one");
    let ack = Segment { ecn: CE, ..c.segment() };
    peer_sends(&mut c, ECT, true);
    c.bench.inject(&ack);
    c.bench.advance(40 * MS);
    assert!(!c.bench.one().ece, "pure ACKs do not count");
}

/// RFC 3168, 6.1.2: an echo halves the window, once in a window of data. Only the next new segment carries
/// CWR.
#[test]
fn an_echo_halves_the_window_once_per_round() {
    let mut c = marking(&[]);
    c.bench.send(c.handle, 100_000);
    let _ = c.bench.sent();
    let echo = |c: &mut Connection, len: u32| {
        c.host = c.host.wrapping_add(len);
        let ack = Segment { ece: true, ..c.segment() };
        c.bench.inject(&ack);
    };
    c.bench.advance(100 * MS);
    echo(&mut c, 1000);
    assert_eq!(c.windows(), (5000, 5000));
    echo(&mut c, 5000);
    assert_eq!(c.windows().0, 5000, "once");
    let sent = c.bench.sent();
    assert!(!sent.is_empty() && sent[0].cwr && sent[1..].iter().all(|s| !s.cwr), "{sent:#?}");
    echo(&mut c, 4000);
    assert_eq!(c.windows().1, 5000, "all that was under way then");
    assert!(c.bench.sent().iter().all(|s| !s.cwr));
    let flight = c.bench.observe(c.handle, "flight");
    echo(&mut c, 1000);
    assert_eq!(c.windows().1, (flight / 2).max(2000), "and again in the next window");
    let sent = c.bench.sent();
    assert!(sent.is_empty() || sent[0].cwr);
}

/// RFC 3168, 6.1.2: CWR reports reductions for any reason. A loss in a window that was reduced for a CE mark
/// does not reduce it again.
#[test]
fn losses_and_ce_marks_reduce_the_window_once() {
    let mut c = marking(&[]);
    c.bench.send(c.handle, 100_000);
    c.bench.advance(100 * MS);
    let _ = c.bench.sent();
    c.sacks(&[(1000, 4000)]);
    assert_eq!(c.windows().1, 5000);
    let sent = c.bench.sent();
    assert!(!sent[0].cwr && sent[0].ecn == NOT_ECT, "the retransmission");
    c.acknowledge(10_000);
    let new = c.bench.sent();
    assert!(new[0].cwr && new[0].ecn == ECT);

    let mut c = marking(&[]);
    c.bench.send(c.handle, 100_000);
    c.bench.advance(100 * MS);
    c.host = c.host.wrapping_add(1000);
    let ack = Segment { ece: true, ..c.segment() };
    c.bench.inject(&ack);
    assert_eq!(c.windows().1, 5000);
    c.sacks(&[(1000, 4000)]);
    assert_eq!(c.windows().1, 5000);
    assert!(c.ranges().contains(&(0, 1000)), "but what is lost goes again");
}
