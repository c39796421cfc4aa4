//! Tests that the ledger detects each unexpected message.

use super::*;

const KEY: u64 = 77;
const START: Instant = Instant::from_nanos(1000);

fn address(host: u8) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host].into(), 7001)
}

/// Returns a ledger in which hosts 0 and 1 call host 2 or 3, with these sizes each.
fn ledger(sizes: &[u64], reply: Option<(u64, u64)>) -> CallTable {
    let calls = |server| {
        sizes
            .iter()
            .map(move |size| PlannedCall { due: Duration::ZERO, server, size: *size })
    };
    let count = sizes.len() as u32;
    CallTable::new(CallPlan {
        flow: 0,
        key: KEY,
        start: START,
        reply,
        outstanding: None,
        connects_at_start: false,
        retry: None,
        callers: vec![
            Caller { host: 0, address: address(0), calls: 0..count },
            Caller { host: 1, address: address(1), calls: count..2 * count },
        ],
        servers: vec![(2, address(2)), (3, address(3))],
        calls: calls(0).chain(calls(1)).collect(),
    })
}

fn begin(ledger: &mut CallTable, call: u32) -> Vec<u8> {
    let mut message = Vec::new();
    ledger.write(call, &mut message);
    ledger.begin(call, START);
    message
}

fn fault(ledger: &CallTable, caller: usize) -> String {
    ledger.faults(caller).first().cloned().unwrap_or_default()
}

#[test]
fn a_message_is_accepted_once_by_its_host_only() {
    let faults = |host: usize, from: u8, times: usize| {
        let mut ledger = ledger(&[100], Some((1, 1)));
        let message = begin(&mut ledger, 0);
        let mut came = Vec::new();
        for _ in 0..times {
            came.push(
                ledger
                    .arrive(host, Some(address(from)), &message, START)
                    .is_some(),
            );
        }
        (came, fault(&ledger, usize::from(from == 1)))
    };
    let unfinished =
        "not done: 0 of 1 calls are over, 1 begun; call 0 to 10.0.0.2:7001 is the first that is not";
    assert_eq!(faults(2, 0, 1), (vec![true], unfinished.to_owned()));
    assert_eq!(faults(2, 0, 2).0, [true, false]);
    assert_eq!(faults(2, 0, 2).1, "a message of 100 bytes was delivered twice");
    assert_eq!(
        faults(3, 0, 1).1,
        "a message of 100 bytes arrived at the wrong host"
    );
    assert_eq!(
        faults(2, 1, 1).1,
        "a message of 100 bytes belongs to another caller"
    );
    assert_eq!(
        faults(2, 9, 1).1,
        "a message came from 10.0.0.9:7001, which sends none"
    );
}

#[test]
fn equal_short_messages_arrive_as_often_as_sent() {
    let mut ledger = ledger(&[1; 300], Some((1, 20)));
    // Of 300 numbers, these two have the same last byte.
    let messages = [0, 256].map(|call| begin(&mut ledger, call));
    assert_eq!(messages[0], messages[1]);
    let came: Vec<bool> = (0..3)
        .map(|_| ledger.arrive(2, Some(address(0)), &messages[0], START).is_some())
        .collect();
    assert_eq!(came, [true, true, false]);
    assert_eq!(fault(&ledger, 0), "a message of 1 bytes was delivered twice");
    let known = [0, 256].map(|call| ledger.known(call));
    assert_eq!(
        ledger.reply_len(known[0]),
        ledger.reply_len(known[1]),
        "either is answered alike"
    );
}

#[test]
fn a_reply_must_match_its_call() {
    let mut ledger = ledger(&[100, 100], Some((50, 50)));
    let messages = [0, 1].map(|call| begin(&mut ledger, call));
    let mut replies = Vec::new();
    for message in &messages {
        let (_, known) = ledger
            .arrive(2, Some(address(0)), message, START)
            .expect("it was sent");
        let mut reply = Vec::new();
        ledger.write_reply(known, &mut reply);
        replies.push(reply);
    }
    ledger.answer(0, &replies[0], START);
    assert_eq!(ledger.tally(0).answered, 1);
    ledger.answer(1, &replies[0], START);
    assert_eq!(fault(&ledger, 0), "50 bytes are not the reply to call 1");
}

#[test]
fn a_failed_call_is_made_again_and_may_have_been_served_before() {
    let mut ledger = ledger(&[100], Some((1, 1)));
    ledger.plan.retry = Some(Duration::from_nanos(5));
    let first = begin(&mut ledger, 0);
    assert_eq!(
        ledger.fail(0, "failed", START),
        Some(START + Duration::from_nanos(5))
    );
    let second = begin(&mut ledger, 0);
    assert_ne!(first, second, "attempts differ");
    let arrive =
        |ledger: &mut CallTable, message: &[u8]| ledger.arrive(2, Some(address(0)), message, START).is_some();
    assert!(arrive(&mut ledger, &second) && arrive(&mut ledger, &first));
    assert!(!arrive(&mut ledger, &second), "twice");
}

/// A late copy of a request reaches a server that has lost its memory, after the call is over.
#[test]
fn a_message_is_accepted_once_per_life_of_its_server() {
    let mut ledger = ledger(&[100, 2], Some((1, 1)));
    for call in [0, 1] {
        let message = begin(&mut ledger, call);
        let mut reply = Vec::new();
        ledger.write_reply(ledger.known(call), &mut reply);
        for life in 0..2 {
            let came = [(); 2].map(|()| ledger.arrive(2, Some(address(0)), &message, START).is_some());
            assert_eq!(came, [true, false], "call {call}, life {life}");
            if life == 0 {
                ledger.answer(call, &reply, START);
            }
            ledger.fall(2, START, false);
            ledger.fall(2, START, true);
        }
    }
}

#[test]
fn a_restarted_server_may_repeat_or_fail_a_call() {
    let mut ledger = ledger(&[100, 2], Some((1, 1)));
    let messages = [0, 1].map(|call| begin(&mut ledger, call));
    let arrive =
        |ledger: &mut CallTable, message: &[u8]| ledger.arrive(2, Some(address(0)), message, START).is_some();
    assert!(messages.iter().all(|message| arrive(&mut ledger, message)));
    ledger.fall(2, START, false);
    assert_eq!(ledger.left(0), 0, "nobody waits for a host that is down");
    ledger.fall(2, START, true);
    assert_eq!(ledger.left(0), 2);
    assert!(messages.iter().all(|message| arrive(&mut ledger, message)));
    ledger.fail(0, "failed", START);
    ledger.fail(1, "failed", START);
    assert_eq!(ledger.faults(0), Vec::<String>::new());
}
