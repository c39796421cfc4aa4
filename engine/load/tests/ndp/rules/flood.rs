//! Calls of hosts that have not shown that they receive at their addresses.

use super::*;

/// Hosts that have not shown that they receive share a part of the places. Beyond it, each host receives a
/// number that only that host can state.
#[test]
fn a_spoofed_flood_leaves_room_for_a_receiving_host() {
    let mut stage = Testbed::new(&[("UNPROVEN", 8)]);
    let request = |call: u64| (DATA, call, 0, 1);
    for host in 30..40 {
        stage.put_from(host, request(100), None);
    }
    let is_turned_away = |packet: &Packet| (packet.kind, packet.first) == (ACK, UNKNOWN_HOST);
    let answers = stage.take();
    assert_eq!(answers.iter().filter(|answer| is_turned_away(answer)).count(), 2);
    assert_eq!(stage.stack.contexts(), 1 + 8, "eight of ten are served");
    stage.put_from(1, request(100), None);
    let answer = stage.take()[0];
    assert!(is_turned_away(&answer), "{answer:?}");
    assert_eq!(answer.len, 52, "as long as the request's headers");
    stage.proof = answer.promised;
    stage.put_from(2, request(100), None);
    let other = stage.take()[0];
    assert!(is_turned_away(&other), "it is another host's");
    assert_ne!(other.promised, answer.promised);
    for call in 0..100 {
        stage.put_from(1, request(100 + 2 * call), None);
    }
    assert!(!stage.take().iter().any(is_turned_away));
    assert_eq!(stage.stack.contexts(), 1 + 8 + 100);
    // The places that a flood has taken become free when the application aborts the unanswered calls.
    let calls: Vec<Handle> = stage
        .notices
        .iter()
        .filter_map(|(_, notice)| match notice {
            Notice::Accepted(call) => Some(*call),
            _ => None,
        })
        .collect();
    calls
        .into_iter()
        .for_each(|call| stage.stack.abort(stage.now, call));
    stage.take();
    assert_eq!(stage.stack.contexts(), 1);
    stage.put_from(3, request(100), None);
    assert!(!stage.take().iter().any(is_turned_away));
}

/// A host that shows only in a later packet that it receives releases its place for another host.
#[test]
fn a_call_that_states_its_number_later_gives_its_place_back() {
    let mut stage = Testbed::new(&[("UNPROVEN", 1)]);
    let is_turned_away = |packet: &Packet| (packet.kind, packet.first) == (ACK, UNKNOWN_HOST);
    stage.put_from(1, (DATA, 100, 0, 3 * PART), None);
    stage.take();
    stage.put_from(1, (DATA, 102, 0, 1), None);
    let answer = stage.take()[0];
    assert!(is_turned_away(&answer), "{answer:?}");
    stage.put_from(1, (DATA, 100, 1, 3 * PART), None);
    stage.put_from(2, (DATA, 100, 0, 1), None);
    assert_eq!(
        stage
            .take()
            .iter()
            .filter(|answer| is_turned_away(answer))
            .count(),
        1
    );
    stage.proof = answer.promised;
    stage.put_from(1, (DATA, 100, 2, 3 * PART), None);
    stage.proof = 0;
    stage.put_from(2, (DATA, 100, 0, 1), None);
    assert!(!stage.take().iter().any(is_turned_away));
}

/// A rejected client sends its first window once more, with the number that it received. Its later calls
/// state the number from the start.
#[test]
fn a_client_that_was_turned_away_states_its_number() {
    let mut stage = Testbed::new(&[]);
    stage.call(3 * PART);
    let sent = stage.take();
    assert_eq!(
        sent.iter().map(|packet| packet.promised).collect::<Vec<_>>(),
        [0; 3]
    );
    for number in 0..3 {
        stage.promised = 777;
        stage.put((ACK, sent[0].call | 1, number, UNKNOWN_HOST));
    }
    let again = stage.take();
    assert_eq!(numbers(&again), [0, 1, 2], "once");
    assert_eq!(
        again.iter().map(|packet| packet.promised).collect::<Vec<_>>(),
        [777; 3]
    );
    stage.put((ACK, sent[0].call | 1, 2, 3));
    stage.take();
    stage.call(PART);
    assert_eq!(stage.take()[0].promised, 777);
}
