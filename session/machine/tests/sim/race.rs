//! A race among addresses: the packets of its attempts and the session over its winner share one clock.

use std::time::Duration;

use hawser_race::Profile;
use hawser_session_machine::sim::{Fault, Side, SimLink, SimReport, WorldConfig};
use hawser_session_machine::{Candidate, Notice};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Races three addresses: one that does not answer, one that is 600 ms away, and one that is 20 ms away.
fn race() -> SimReport {
    let links = [20, 600, 20]
        .map(|round_trip| SimLink::new(10.0, ms(round_trip)))
        .to_vec();
    let mut config = WorldConfig::new(links)
        .transfer(Side::Client, 1 << 20)
        .fault(ms(0), 0, Fault::Silent);
    config.session.candidates = vec![Candidate::new(0)];
    config.race = Some(Profile::RFC8305);
    config.run("ecf")
}

/// RFC 8305, 5: the next attempt begins 250 ms after the previous one. The third wins. Its connection and TLS
/// take two round trips, HELLO and ACCEPT a third, behind some 3,500 bytes at 10 Mbit/s.
#[test]
fn the_first_attempt_to_be_established_carries_the_session() {
    let report = race();
    assert!(report.done, "{:?} {:?}", report.faults, report.notices);
    assert_eq!(report.attempts, [(ms(0), 0), (ms(250), 1), (ms(500), 2)]);
    let is_opened = |side: Side, notice: &Notice| side == Side::Client && matches!(notice, Notice::Opened(_));
    let opened = report
        .notices
        .iter()
        .find(|(_, side, notice)| is_opened(*side, notice));
    let opened = opened.map(|(at, ..)| *at).expect("the session was opened");
    assert!((ms(560)..ms(563)).contains(&opened), "{opened:?}");
    let carried: Vec<u64> = report.carried.iter().map(|link| link.values().sum()).collect();
    assert_eq!(carried[..2], [0, 0], "the losers carry nothing");
    assert!(carried[2] > 1 << 20);
    // The slow one would have been established two of its round trips after it began.
    assert!(opened < ms(250 + 2 * 600));
    assert_eq!(report.trace, race().trace);
}
