//! Transitions as the paper's Tables 1.a and 1.b and RFC 5681 define them.

use super::*;

/// Returns the states that a flow passes through, by their numbers in Table 1.a.
fn walk(signals: &[(&str, u64)]) -> (Vec<u8>, Diagram) {
    let mut diagram = Diagram::default();
    let states = signals.iter().map(|(name, count)| {
        diagram.event(name, &BTreeMap::from([("count".to_owned(), *count)]));
        diagram.state().number()
    });
    (states.collect(), diagram)
}

#[test]
fn slow_start_and_avoidance_follow_the_diagram() {
    let (states, diagram) = walk(&[
        ("tcp.established", 0),
        ("tcp.sent", 0),
        ("tcp.acked", 0),
        ("tcp.sent", 0),
        ("tcp.avoidance_began", 0),
        ("tcp.acked", 0),
        ("tcp.sent", 0),
        ("tcp.closed", 0),
    ]);
    assert_eq!(states, [1, 9, 9, 9, 10, 10, 10, 0]);
    assert_eq!(
        diagram.count(
            &[DiagramState::SlowStart],
            &[DiagramEvent::Threshold],
            &[DiagramState::Avoidance]
        ),
        1
    );
    assert_eq!(
        diagram.counts().values().sum::<u64>(),
        8,
        "a transition for each signal"
    );
}

/// Fast retransmit and fast recovery of Reno: RFC 5681, 3.2.
#[test]
fn fast_recovery_follows_the_diagram() {
    let (states, diagram) = walk(&[
        ("established", 0),
        ("sent", 0),
        ("duplicate_ack", 1),
        ("duplicate_ack", 2),
        ("duplicate_ack", 3),
        ("recovery_began", 0),
        ("retransmitted", 0),
        ("duplicate_ack", 4),
        ("sent", 0),
        ("acked", 0), // a partial one
        ("recovery_ended", 0),
        ("acked", 0),
    ]);
    assert_eq!(states, [1, 9, 2, 3, 4, 4, 6, 6, 6, 6, 7, 10]);
    assert_eq!(
        diagram.count(
            &[],
            &[DiagramEvent::Third, DiagramEvent::LossFound],
            &[DiagramState::FastRetransmit]
        ),
        1
    );
    assert_eq!(
        diagram.count(
            &[DiagramState::FastRecovery],
            &[DiagramEvent::Sent],
            &[DiagramState::FastRecovery]
        ),
        1
    );
}

#[test]
fn one_loss_is_counted_once_in_any_event_order() {
    let (states, diagram) = walk(&[
        ("established", 0),
        ("duplicate_ack", 2),
        ("recovery_began", 0),
        ("duplicate_ack", 3),
    ]);
    assert_eq!(states, [1, 1, 4, 4]);
    assert_eq!(
        diagram.count(&[], &[DiagramEvent::LossFound, DiagramEvent::Third], &[]),
        1
    );
}

#[test]
fn new_acknowledgements_return_to_the_sending_states() {
    let (states, _) = walk(&[
        ("established", 0),
        ("sent", 0),
        ("avoidance_began", 0),
        ("duplicate_ack", 1),
        ("duplicate_ack", 2),
        ("acked", 0),
        ("duplicate_ack", 1),
        ("duplicate_ack", 2),
        ("duplicate_ack", 3), // reordering: no recovery begins
        ("acked", 0),
    ]);
    assert_eq!(states, [1, 9, 10, 2, 3, 10, 2, 3, 4, 10]);
}

/// A timeout drops the window to one segment, whatever the state, and slow start follows: RFC 5681, 3.1.
#[test]
fn a_timeout_leads_to_slow_start() {
    let (states, diagram) = walk(&[
        ("established", 0),
        ("sent", 0),
        ("timeout", 0),
        ("retransmitted", 0),
        ("timeout", 0),
        ("retransmitted", 0),
        ("acked", 0),
        ("recovery_began", 0),
        ("retransmitted", 0),
        ("timeout", 0),
    ]);
    assert_eq!(states, [1, 9, 5, 8, 5, 8, 9, 4, 6, 5]);
    assert_eq!(
        diagram.count(&[], &[DiagramEvent::Timeout], &[DiagramState::TimedOut]),
        3
    );
}

#[test]
fn a_flow_may_start_before_its_first_event() {
    let mut diagram = Diagram::default();
    diagram.place(20_000, 10_000);
    diagram.event("tcp.acked", &BTreeMap::new());
    assert_eq!(diagram.state(), DiagramState::Avoidance);
    diagram.place(1, 2);
    assert_eq!(diagram.state(), DiagramState::Avoidance);
    let (states, diagram) = walk(&[("sent", 0), ("closed", 0), ("acked", 0)]);
    assert_eq!(states, [9, 0, 0]);
    assert_eq!(
        diagram.counts().len(),
        2,
        "what comes after the end is no transition"
    );
}

#[test]
fn every_state_is_numbered_as_in_the_table() {
    let numbers: Vec<u8> = DiagramState::ALL.iter().map(|state| state.number()).collect();
    assert_eq!(numbers, (0..=10).collect::<Vec<_>>());
}

#[test]
fn flows_are_summed_and_drawn() {
    let (_, one) = walk(&[("established", 0), ("sent", 0), ("acked", 0)]);
    let mut sum = one.clone();
    sum.add(&one);
    assert_eq!(
        sum.count(&[DiagramState::SlowStart], &[DiagramEvent::Acked], &[]),
        2
    );
    let picture = draw(&sum, "two flows");
    assert!(picture.contains("TCP_init × 2"), "{picture}");
    assert!(picture.contains(r#"{"from":9,"event":"ACK","to":9,"count":2}"#));
    // The number of elements does not depend on the counts: unused edges are drawn in grey.
    assert_eq!(
        picture.matches("<path").count(),
        draw(&Diagram::default(), "").matches("<path").count()
    );
    assert!(draw(&Diagram::default(), "<&>").contains("&lt;&amp;&gt;"));
}
