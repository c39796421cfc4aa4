//! Ends of calls, and the places that they release.

use super::rules::{NOTHING, is_remembered};
use super::wire::*;
use super::*;

/// Delivers the first or last bytes of a request of 3,000 bytes from a host that states this version of the
/// cutoffs.
fn put_part(stage: &mut Testbed, (host, call): (u8, u64), from: u64, version: u64) {
    let fields = [
        (SPORT, PORT),
        (DPORT, 80),
        (SENDER_ID, call),
        (MESSAGE_LENGTH, 3_000),
        (INCOMING, 3_000),
        (SEGMENT_OFFSET, from),
        (DATA_CUTOFF_VERSION, version),
    ];
    stage.put_from(host, &packet(DATA, &fields, &[9; 1_000]));
}

/// There is one place for hosts that have not shown that they receive. A host that shows it in a later packet
/// of its call releases the place for another host.
#[test]
fn a_call_that_states_its_number_later_gives_its_place_back() {
    let mut stage = Testbed::new(&[("UNPROVEN", 1)]);
    put_part(&mut stage, (1, CALL), 0, 1);
    assert_eq!(kinds(&stage.take()), NOTHING);
    put_part(&mut stage, (1, CALL + 2), 0, 1);
    let answer = stage.take();
    assert_eq!(kinds(&answer), [CUTOFFS], "no place is left");
    let version = answer[0].get(CUTOFF_VERSION);
    put_part(&mut stage, (1, CALL), 1_000, version);
    put_part(&mut stage, (2, CALL), 0, 1);
    stage.take();
    assert_eq!(stage.stack.contexts(), 1 + 2);
    put_part(&mut stage, (3, CALL), 0, 1);
    stage.take();
    assert_eq!(stage.stack.contexts(), 1 + 2, "the place is taken again");
}

/// A call that ends also releases its place. Here it stops in the middle of its request and is forgotten
/// after 100 ms.
#[test]
fn a_call_that_ends_gives_its_place_back() {
    let mut stage = Testbed::new(&[("UNPROVEN", 1)]);
    for host in 1..4 {
        put_part(&mut stage, (host, CALL), 0, 1);
        stage.take();
        assert_eq!(stage.stack.contexts(), 2, "host {host}");
        put_part(&mut stage, (10, CALL), 0, 1);
        assert_eq!(kinds(&stage.take()), [CUTOFFS], "host {host}");
        stage.wait(100_000);
        assert_eq!(stage.stack.contexts(), 1, "host {host}");
    }
}

/// A server that lags behind during a flood rejects its caller late, and still has to process the call twice
/// more. Each rejection counts as a sign of life, once for each version.
#[test]
fn a_client_rejected_late_keeps_waiting() {
    let mut stage = Testbed::new(&[]);
    let call = stage.call(10);
    let id = stage.take()[0].get(SENDER_ID) | 1;
    for _ in 0..2 {
        stage.wait(60_000);
        stage.put(CUTOFFS, &[(SENDER_ID, id), (CUTOFF_VERSION, 777)], &[]);
        stage.take();
        assert_eq!(stage.end_of(call), None);
    }
    stage.wait(39_900);
    assert_eq!(stage.end_of(call), None, "100 ms after the first of them");
    stage.wait(100);
    assert_eq!(stage.end_of(call), Some(&Notice::Failed(Errno(110))), "ETIMEDOUT");
}

/// A server asks whether its reply has arrived. The client acknowledges calls in which it no longer takes
/// part, even after it has closed the port. A client sends no request for acknowledgement
/// (`homa_need_ack_pkt`).
#[test]
fn a_finished_call_is_acknowledged_when_its_server_asks() {
    let mut stage = Testbed::new(&[]);
    for port in [80, 81] {
        let ask = |number: u64| {
            let fields = [(SPORT, PORT), (DPORT, port), (SENDER_ID, number)];
            packet(NEED_ACK, &fields, &[])
        };
        stage.put_from(1, &ask(7));
        assert_eq!(kinds(&stage.take()), [ACK], "{port}");
        stage.put_from(1, &ask(8));
        assert_eq!(kinds(&stage.take()), NOTHING, "{port}");
    }
}

/// If a server aborts a call that it has not answered, the client may begin the call again. A call whose
/// reply had begun is remembered.
#[test]
fn an_aborted_call_is_remembered_when_its_reply_had_begun() {
    let mut stage = Testbed::new(&[]);
    stage.request(1, 1, (0, 1));
    stage.take();
    let (call, _) = stage.accepted();
    stage.stack.abort(stage.now, call);
    stage.take();
    assert_eq!(stage.stack.contexts(), 1, "the endpoint");
    let mut stage = Testbed::new(&[]);
    let (call, _) = stage.replies(10);
    stage.stack.abort(stage.now, call);
    stage.take();
    is_remembered(&mut stage);
}
