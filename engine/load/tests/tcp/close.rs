//! Closing and resetting: RFC 9293, 3.6 and 3.5.2; RFC 5961.

use hawser_time::Instant;
use hawser_engine::{Errno, Notice};

use crate::bench::{Connection, MS, SECOND, State};

#[test]
fn active_close_passes_all_states() {
    let mut c = Connection::plain(&["MSL=5s"]);
    c.bench.close(c.handle);
    let fin = c.bench.one();
    assert_eq!((fin.fin, fin.seq), (true, c.host));
    c.bench.is(c.handle, State::FinWait1);
    c.acknowledge(1);
    c.bench.is(c.handle, State::FinWait2);

    let theirs = c.segment().payload(*b"last words").fin();
    c.bench.inject(&theirs);
    assert_eq!(c.bench.one().ack, Some(c.next.wrapping_add(11)));
    c.bench.is(c.handle, State::TimeWait);
    assert_eq!(c.bench.notices(), [Notice::Readable, Notice::Eof, Notice::Closed]);
    assert_eq!(c.bench.read(c.handle, 100), b"last words");

    c.bench.advance(10 * SECOND - 1);
    assert_eq!(c.bench.stack.contexts(), 1);
    c.bench.advance(1);
    assert_eq!(c.bench.stack.contexts(), 0, "after 2 MSL");
    c.bench.expect_nothing_sent();
}

#[test]
fn passive_close_passes_all_states() {
    let mut c = Connection::plain(&[]);
    let fin = c.segment().fin();
    c.bench.inject(&fin);
    c.next = c.next.wrapping_add(1);
    assert_eq!(c.bench.one().ack, Some(c.next));
    c.bench.is(c.handle, State::CloseWait);
    assert_eq!(c.bench.notices(), [Notice::Eof]);
    c.bench.send(c.handle, 100);
    assert_eq!(c.bench.one().payload.len(), 100, "the other direction is open");
    c.acknowledge(100);
    c.bench.close(c.handle);
    assert!(c.bench.one().fin);
    c.bench.is(c.handle, State::LastAck);
    c.acknowledge(1);
    assert_eq!(c.bench.notices(), [Notice::Closed]);
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// RFC 9293, figure 13.
#[test]
fn both_ends_close_at_once() {
    let mut c = Connection::plain(&[]);
    c.bench.close(c.handle);
    assert!(c.bench.one().fin);
    let fin = c.segment().fin();
    c.bench.inject(&fin);
    c.next = c.next.wrapping_add(1);
    let ack = c.bench.one();
    assert_eq!((ack.ack, ack.seq), (Some(c.next), c.host.wrapping_add(1)));
    c.bench.is(c.handle, State::Closing);
    c.acknowledge(1);
    c.bench.is(c.handle, State::TimeWait);
    assert_eq!(c.bench.notices(), [Notice::Eof, Notice::Closed]);
}

#[test]
fn the_fin_follows_the_last_byte_and_is_sent_again() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 1500);
    c.bench.close(c.handle);
    let sent = c.bench.sent();
    let (data, fin): (usize, usize) =
        (sent.iter().map(|s| s.payload.len()).sum(), sent.iter().filter(|s| s.fin).count());
    assert_eq!((data, fin), (1500, 1));
    assert!(sent.last().expect("segments").fin, "on the last alone");
    c.acknowledge(1500);
    c.bench.advance(SECOND);
    let again = c.bench.one();
    assert_eq!((again.fin, again.seq, again.payload.len()), (true, c.host, 0));
}

/// A segment that waits to leave does not carry the fields that the segmentation rules set.
#[test]
fn an_ack_does_not_replace_a_waiting_fin() {
    let mut c = Connection::plain(&[]);
    c.bench.stack.close(Instant::from_nanos(c.bench.now), c.handle);
    // The segments arrive before the FIN has left.
    let first = c.segment().payload(vec![1; 1460]);
    let second = c.segment().at(c.next.wrapping_add(1460)).payload(vec![2; 1460]);
    c.bench.inject_all(&[first, second]);
    let sent = c.bench.sent();
    let fins: Vec<u32> = sent.iter().filter(|segment| segment.fin).map(|segment| segment.seq).collect();
    assert_eq!(fins, [c.host], "{sent:#?}");
    assert_eq!(c.bench.observe(c.handle, "retransmissions"), 0);
}

#[test]
fn a_fin_waits_for_the_data_before_it() {
    let mut c = Connection::plain(&[]);
    let fin = c.segment().at(c.next.wrapping_add(100)).fin();
    c.bench.inject(&fin);
    assert_eq!(c.bench.one().ack, Some(c.next));
    c.bench.is(c.handle, State::Established);
    c.acknowledge(0);
    c.bench.expect_nothing_sent();
    c.peer_sends(100);
    assert_eq!(c.bench.one().ack, Some(c.next.wrapping_add(1)));
    c.bench.is(c.handle, State::CloseWait);
}

#[test]
fn time_wait_begins_again_with_a_fin_that_comes_again() {
    let mut c = Connection::plain(&["MSL=5s"]);
    c.bench.close(c.handle);
    let _ = c.bench.one();
    c.acknowledge(1);
    let fin = c.segment().fin();
    c.bench.inject(&fin);
    let ack = c.bench.one();
    c.bench.advance(9 * SECOND);
    c.bench.inject(&fin);
    assert_eq!(c.bench.one().ack, ack.ack);
    c.bench.advance(9 * SECOND);
    assert_eq!(c.bench.stack.contexts(), 1);
    c.bench.advance(SECOND);
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// RFC 9293, 3.10.7.4, lets an exact reset end TIME-WAIT (RFC 5961, 3.2). RFC 1337, 3 (F1), ignores it.
#[test]
fn a_reset_ends_time_wait_unless_configured_otherwise() {
    for (params, ends) in [(&[][..], true), (&["TIME_WAIT_RESETS=false"], false)] {
        let mut c = Connection::plain(params);
        c.bench.close(c.handle);
        c.acknowledge(1);
        let fin = c.segment().fin();
        c.bench.inject(&fin);
        c.next = c.next.wrapping_add(1);
        let _ = c.bench.sent();
        for (offset, left) in [(1, 1), (0, usize::from(!ends))] {
            let reset = c.segment().at(c.next.wrapping_add(offset)).rst();
            c.bench.inject(&reset);
            let challenged = usize::from(ends && offset == 1); // RFC 5961, 3.2: in the window, not exact
            assert_eq!(c.bench.sent().len(), challenged, "{params:?} {offset}");
            assert_eq!(c.bench.stack.contexts(), left, "{params:?} {offset}");
        }
        c.bench.advance(60 * SECOND);
        assert_eq!(c.bench.stack.contexts(), 0, "after 2 MSL in any case");
    }
}

/// Linux's tcp_fin_timeout: a connection that its application has released does not wait for a FIN for ever.
/// It does wait while its own data is under way.
#[test]
fn a_released_connection_waits_for_the_fin_and_not_for_ever() {
    for released_first in [true, false] {
        let mut c = Connection::plain(&[]);
        c.bench.close(c.handle);
        if released_first {
            c.bench.stack.release(c.handle);
        }
        c.acknowledge(1);
        if !released_first {
            c.bench.stack.release(c.handle);
        }
        c.bench.advance(60 * SECOND - 1);
        assert_eq!(c.bench.stack.contexts(), 1);
        c.bench.advance(1);
        assert_eq!(c.bench.stack.contexts(), 0, "{released_first}");
    }
    // A slow peer: data, then the FIN, one segment every ten seconds.
    let mut c = Connection::plain(&[]);
    c.window = 1000;
    c.acknowledge(0);
    c.bench.send(c.handle, 20_000);
    c.bench.close(c.handle);
    c.bench.stack.release(c.handle);
    for _ in 0..19 {
        c.bench.advance(10 * SECOND);
        assert_eq!(c.bench.stack.contexts(), 1);
        c.acknowledge(1000);
    }
    assert!(c.bench.sent().last().expect("segments").fin);
}

#[test]
fn an_abort_sends_a_reset() {
    let mut c = Connection::plain(&[]);
    c.bench.send(c.handle, 500);
    let _ = c.bench.one();
    c.bench.stack.abort(Instant::from_nanos(c.bench.now), c.handle);
    let reset = c.bench.one();
    assert_eq!((reset.rst, reset.seq), (true, c.host.wrapping_add(500)));
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// RFC 5961, 3.2: only a reset with exactly the expected number resets the connection.
#[test]
fn a_reset_has_to_be_exact() {
    let mut c = Connection::plain(&[]);
    for beyond in [70_000, u32::MAX] {
        let blind = c.segment().at(c.next.wrapping_add(beyond)).rst();
        c.bench.inject(&blind);
        c.bench.expect_nothing_sent();
    }
    let guess = c.segment().at(c.next.wrapping_add(1)).rst();
    c.bench.inject(&guess);
    let challenge = c.bench.one();
    assert_eq!((challenge.rst, challenge.ack), (false, Some(c.next)));
    c.bench.is(c.handle, State::Established);
    let exact = c.segment().rst();
    c.bench.inject(&exact);
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(104))]);
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// The data of a reset is a diagnostic text (RFC 9293, 3.5.3, SHLD-2) and not part of the stream. The reset
/// comes first and ends the packet.
#[test]
fn a_reset_with_data_delivers_no_data() {
    let mut c = Connection::plain(&[]);
    let reset = c.segment().rst().payload(*b"go away");
    c.bench.inject(&reset);
    c.bench.expect_nothing_sent();
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(104))]);
    assert_eq!(c.bench.read(c.handle, 100), b"");
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// With data, many first numbers of a reset would reach the expected number. Its first number must equal the
/// expected one (RFC 5961, 3.2).
#[test]
fn data_does_not_make_a_reset_exact() {
    let mut c = Connection::plain(&[]);
    let blind = c.segment().at(c.next.wrapping_sub(100)).rst().payload([0; 200]);
    c.bench.inject(&blind);
    let challenge = c.bench.one();
    assert_eq!((challenge.rst, challenge.ack), (false, Some(c.next)));
    assert_eq!(c.bench.notices(), []);
    c.bench.is(c.handle, State::Established);
}

/// RFC 5961, 4.2 and 7.
#[test]
fn a_syn_in_the_middle_is_challenged_and_challenges_are_few() {
    let mut c = Connection::plain(&[]);
    let syn = c.segment().syn();
    (0..30).for_each(|_| c.bench.inject(&syn));
    let challenges = c.bench.sent();
    assert_eq!(challenges.len(), 10);
    assert!(challenges.iter().all(|s| s.ack == Some(c.next) && !s.rst));
    c.bench.is(c.handle, State::Established);
    c.bench.advance(5 * SECOND);
    c.bench.inject(&syn);
    let _ = c.bench.one();
}

/// RFC 5961, 5.2.
#[test]
fn unacceptable_acks_are_challenged() {
    let mut c = Connection::plain(&[]);
    for ack in [c.host.wrapping_add(1), c.host.wrapping_sub(70_000)] {
        let segment = c.segment().acks(ack).payload(*b"injected");
        c.bench.inject(&segment);
        assert_eq!(c.bench.one().ack, Some(c.next));
    }
    assert_eq!(c.bench.notices(), [], "nothing was taken");
}

#[test]
fn closing_gives_up_after_the_user_timeout() {
    let mut c = Connection::plain(&["USER_TIMEOUT=10s"]);
    c.bench.close(c.handle);
    c.bench.advance(20 * SECOND);
    assert_eq!(c.bench.notices(), [Notice::Failed(Errno(110))]);
    let times: Vec<u64> = c.bench.timed().iter().map(|(time, _)| (time - SECOND) / MS).collect();
    assert_eq!(times, [0, 1_000, 3_000, 7_000]);
    assert_eq!(c.bench.stack.contexts(), 0);
}

/// RFC 1122, 4.2.2.17, lets an application end a connection whose peer keeps its window closed. An
/// application that is gone cannot do so (RFC 6429).
#[test]
fn a_closed_window_does_not_keep_a_released_connection() {
    for released in [false, true] {
        let mut c = Connection::plain(&["USER_TIMEOUT=30s", "MAX_RTO=5s"]);
        c.window = 0;
        c.acknowledge(0);
        c.bench.send(c.handle, 5000);
        c.bench.close(c.handle);
        if released {
            c.bench.stack.release(c.handle);
        }
        for _ in 0..100 {
            c.bench.advance(SECOND);
            if !c.bench.sent().is_empty() && c.bench.stack.contexts() > 0 {
                c.acknowledge(0);
            }
        }
        assert_eq!(c.bench.stack.contexts(), usize::from(!released), "the peer answers each probe");
    }
}
