//! Packets that are sent while the peer is silent, and the time after which it counts as gone.

use super::rules::{NOTHING, is_remembered};
use super::wire::*;
use super::*;

#[test]
fn a_server_without_a_reply_is_busy_and_its_client_waits() {
    let mut stage = Testbed::new(&[]);
    stage.request(1, 1, (0, 1));
    stage.take();
    assert_eq!(stage.accepted().1, [9]);
    stage.put(RESEND, &[(RESEND_LENGTH, 0xffff_ffff)], &[]);
    let sent = stage.take();
    assert_eq!((kinds(&sent), sent[0].get(SENDER_ID)), (vec![BUSY], CALL | 1));
    // A client continues as long as BUSY arrives, and gives up after 100 ms of silence. It asks after 5 ms
    // and doubles the interval each time, up to a quarter of those 100 ms.
    let mut stage = Testbed::new(&[]);
    let call = stage.call(10);
    let id = stage.take()[0].get(SENDER_ID) | 1;
    for wait in [5_000, 10_000, 20_000].into_iter().chain([25_000; 20]) {
        assert_eq!(kinds(&stage.wait(wait - 100)), NOTHING, "{wait}");
        let sent = stage.wait(100);
        assert_eq!(
            (
                kinds(&sent),
                sent[0].get(RESEND_OFFSET),
                sent[0].get(RESEND_LENGTH)
            ),
            (vec![RESEND], 0, 0xffff_ffff)
        );
        stage.put(BUSY, &[(SENDER_ID, id)], &[]);
        stage.take();
    }
    assert_eq!(kinds(&stage.wait(99_900)), vec![RESEND; 3]);
    assert_eq!(stage.end_of(call), None);
    stage.wait(100);
    assert_eq!(stage.end_of(call), Some(&Notice::Failed(Errno(110))), "ETIMEDOUT");
    assert_eq!(stage.stack.contexts(), 1);
}

/// Otherwise the server would give up a long reply that waits until shorter ones have been granted.
#[test]
fn a_client_that_withholds_grants_shows_that_it_lives() {
    let mut stage = Testbed::new(&[("FIFO_GRANT", 0)]);
    let mut reply = |len| {
        stage.call(10);
        let id = stage.take()[0].get(SENDER_ID) | 1;
        let fields = [
            (SENDER_ID, id),
            (MESSAGE_LENGTH, len),
            (INCOMING, 1_000),
            (DATA_CUTOFF_VERSION, 1),
        ];
        stage.put(DATA, &fields, &[1; 1_000]);
        (id, kinds(&stage.take()))
    };
    let (short, sent) = reply(200_000);
    assert_eq!(sent, [GRANT]);
    let (long, sent) = reply(900_000);
    assert_eq!(
        sent, NOTHING,
        "one message of each host, the one with the least left"
    );
    let mut shown = 0;
    for _ in 0..50 {
        let of_long = |packet: &Packet| packet.get(SENDER_ID) == long ^ 1;
        let sent: Vec<_> = stage.wait(20_000).into_iter().filter(of_long).collect();
        assert!(sent.iter().all(|packet| packet.kind() == BUSY));
        shown += sent.len();
        stage.put(BUSY, &[(SENDER_ID, short)], &[]);
    }
    assert!(
        (34..=41).contains(&shown),
        "every 25 to 30 ms of a second: {shown}"
    );
}

#[test]
fn a_request_that_stops_in_the_middle_is_forgotten_after_100_ms() {
    let mut stage = Testbed::new(&[]);
    stage.request(2_000, 2_000, (0, 1_000));
    let asked = kinds(&stage.wait(99_000));
    assert_eq!(asked, vec![RESEND; 5], "after 5, 15, 35, 60 and 85 ms");
    stage.wait(1_000);
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (1, (0, 0)));
    // No byte of it was delivered, so its client may begin anew.
    stage.put(RESEND, &[(RESEND_LENGTH, 0xffff_ffff)], &[]);
    assert_eq!(kinds(&stage.take()), [UNKNOWN]);
    stage.request(2_000, 2_000, (0, 1_000));
    stage.request(2_000, 2_000, (1_000, 2_000));
    stage.take();
    assert_eq!(stage.accepted().1, [9; 2_000]);
}

#[test]
fn a_client_that_never_acknowledges_counts_as_gone() {
    let mut stage = Testbed::new(&[]);
    let (call, _) = stage.replies(10);
    let asked = kinds(&stage.wait(99_000));
    assert_eq!(asked, vec![NEED_ACK; 6], "after 2, 6, 14, 30, 55 and 80 ms");
    assert_eq!(stage.end_of(call), None);
    stage.wait(1_000);
    assert_eq!(stage.end_of(call), Some(&Notice::Failed(Errno(110))), "ETIMEDOUT");
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (2, (0, 0)));
    stage.wait(1_020_000);
    assert_eq!((stage.stack.contexts(), stage.stack.held_bytes()), (1, (0, 0)));
}

/// A thousand calls at once go to a host whose processor has other work. It reaches some of them only after
/// more than 100 ms.
#[test]
fn a_call_waits_while_its_host_goes_on_with_others() {
    let mut stage = Testbed::new(&[]);
    let reply = |stage: &mut Testbed, id: u64| {
        let fields = [
            (SENDER_ID, id),
            (MESSAGE_LENGTH, 1),
            (INCOMING, 1),
            (DATA_CUTOFF_VERSION, 1),
        ];
        stage.put(DATA, &fields, &[9]);
        stage.take();
    };
    let calls = [0; 2].map(|_| {
        let call = stage.call(10);
        (call, stage.take()[0].get(SENDER_ID) | 1)
    });
    // Every 50 ms the host serves another call, but not the first two.
    let serve_others = |stage: &mut Testbed, times: u32| {
        for _ in 0..times {
            stage.wait(50_000);
            let other = stage.call(10);
            let sent = stage.take();
            let id = sent.last().expect("its request").get(SENDER_ID) | 1;
            reply(stage, id);
            assert_eq!(stage.end_of(other), Some(&Notice::Closed));
        }
    };
    serve_others(&mut stage, 18);
    let (late, id) = calls[0];
    assert_eq!(stage.end_of(late), None, "after 900 ms");
    reply(&mut stage, id);
    assert_eq!(stage.end_of(late), Some(&Notice::Closed));
    serve_others(&mut stage, 2);
    let (never, _) = calls[1];
    assert_eq!(
        stage.end_of(never),
        Some(&Notice::Failed(Errno(110))),
        "after a second"
    );
}

#[test]
fn a_server_asks_for_the_acknowledgement_of_its_reply() {
    let mut stage = Testbed::new(&[]);
    let (call, sent) = stage.replies(10);
    assert_eq!((kinds(&sent), sent[0].get(SENDER_ID)), (vec![DATA], CALL | 1));
    assert_eq!(kinds(&stage.wait(1_900)), NOTHING);
    assert_eq!(kinds(&stage.wait(100)), [NEED_ACK]);
    assert_eq!(kinds(&stage.wait(3_900)), NOTHING, "twice as late each time");
    assert_eq!(kinds(&stage.wait(100)), [NEED_ACK]);
    stage.put(ACK, &[], &[]);
    stage.take();
    assert_eq!(stage.end_of(call), Some(&Notice::Closed));
    // A late copy of the request is not served again, even after the application has released the call. The
    // call is forgotten 20 ms later.
    is_remembered(&mut stage);
    stage.stack.release(call);
    stage.wait(19_900);
    is_remembered(&mut stage);
    stage.wait(100);
    assert_eq!(stage.stack.contexts(), 1);
}

/// Five hundred calls at once go to a host that answers one in 30 µs. Without the adaptation, each call would
/// ask several times, and the host would have to process those packets too.
#[test]
fn a_host_that_answers_late_is_asked_later() {
    let mut stage = Testbed::new(&[]);
    // Returns the packets that a call of ten bytes sends until its reply arrives.
    let mut call = |wait: u64| {
        stage.call(10);
        let id = stage.take()[0].get(SENDER_ID) | 1;
        let asked = kinds(&stage.wait(wait));
        let fields = [
            (SENDER_ID, id),
            (MESSAGE_LENGTH, 1),
            (INCOMING, 1),
            (DATA_CUTOFF_VERSION, 1),
        ];
        stage.put(DATA, &fields, &[9]);
        stage.take();
        asked
    };
    assert_eq!(call(14_000), [RESEND], "after 5 ms");
    for _ in 0..20 {
        call(14_000);
    }
    assert_eq!(call(14_000), NOTHING);
    // A single lost packet, or a single late answer, does not make a host late.
    for _ in 0..40 {
        call(100);
    }
    assert_eq!(call(14_000), [RESEND]);
    call(100);
    call(100);
    assert_eq!(call(7_500), [RESEND]);
    // However late the host is, there is time for one retry before the call ends.
    for _ in 0..20 {
        call(80_000);
    }
    assert_eq!(call(49_900), NOTHING);
    assert_eq!(call(50_100), [RESEND]);
}

#[test]
fn a_client_that_acknowledges_late_is_asked_later() {
    let mut stage = Testbed::new(&[]);
    // Returns the questions to a client whose ACK arrives 13 ms after the reply.
    let mut asked = || {
        let (call, _) = stage.replies(10);
        let asked = kinds(&stage.wait(13_000));
        stage.put(ACK, &[], &[]);
        stage.take();
        assert_eq!(stage.end_of(call), Some(&Notice::Closed));
        stage.wait(20_100); // then the call is forgotten, and its number is free
        stage.notices.clear();
        asked
    };
    assert_eq!(asked(), [NEED_ACK; 2], "after 2 and 6 ms");
    for _ in 0..20 {
        asked();
    }
    assert!(asked().len() < 2);
}
