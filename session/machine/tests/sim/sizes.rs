//! Links that silently lose long packets, while carriers begin with long ones.

use std::time::Duration;

use hawser_session_machine::Notice;
use hawser_session_machine::sim::{Side, SimLink, SimReport, WorldConfig};

fn narrow(link: SimLink) -> SimLink {
    SimLink { max_payload: 1_350, ..link }
}

/// Creates a world whose handshakes fit into short packets. Longer handshakes are a matter of the code that
/// opens carriers (`hawser_experiments::conditions::a_handshake_completes_where_long_packets_are_lost`).
fn world(links: Vec<SimLink>) -> WorldConfig {
    WorldConfig { flight: 1_100, ..WorldConfig::new(links) }
}

fn finished(report: &SimReport) -> f64 {
    assert!(report.done, "{:?}, {:?}", report.faults, report.notices);
    report.finished[0].expect("it is done").as_secs_f64()
}

/// Returns the seconds that `bytes` take at a rate in bytes per second.
fn ideal(bytes: u64, rate: u64) -> f64 {
    bytes as f64 / rate as f64
}

#[test]
fn a_sole_path_that_loses_long_packets_carries_short_ones() {
    for from in [Side::Client, Side::Server] {
        let link = narrow(SimLink::new(20.0, Duration::from_millis(20)));
        let bytes = 4 << 20;
        let report = world(vec![link]).transfer(from, bytes).run("ecf");
        let (seconds, ideal) = (finished(&report), ideal(bytes, link.rate));
        // It takes a second until the PING is sent, one until it counts as unanswered, and two until the
        // carrier is given up.
        assert!(seconds < 1.2 * ideal + 4.5, "{from:?}: {seconds} s of {ideal} s");
        assert_eq!(
            report.connects.len(),
            2,
            "{from:?}: one carrier more is enough: {:?}",
            report.connects
        );
    }
}

/// The next session on a network begins with the knowledge of an earlier one.
#[test]
fn a_path_known_to_lose_long_packets_begins_with_short_ones() {
    let link = narrow(SimLink::new(20.0, Duration::from_millis(20)));
    let bytes = 4 << 20;
    let mut config = world(vec![link]).transfer(Side::Server, bytes);
    config.session.small_packets = true;
    let report = config.run("ecf");
    let (seconds, ideal) = (finished(&report), ideal(bytes, link.rate));
    assert!(seconds < 1.2 * ideal, "{seconds} s of {ideal} s");
    assert_eq!(report.connects.len(), 1, "{:?}", report.connects);
}

#[test]
fn a_path_that_loses_long_packets_is_used_beside_another() {
    for from in [Side::Client, Side::Server] {
        let narrow = narrow(SimLink::new(20.0, Duration::from_millis(20)));
        let links = vec![narrow, SimLink::new(10.0, Duration::from_millis(40))];
        let rate: u64 = links.iter().map(|link| link.rate).sum();
        let bytes = 16 << 20;
        let report = world(links).transfer(from, bytes).run("ecf");
        let (seconds, ideal) = (finished(&report), ideal(bytes, rate));
        assert!(seconds < 1.2 * ideal + 2.0, "{from:?}: {seconds} s of {ideal} s");
    }
}

/// A client that only receives sends one PING while its server is quiet, and keeps the carrier.
#[test]
fn a_quiet_carrier_is_pinged_once() {
    let link = SimLink::new(20.0, Duration::from_millis(20));
    let mut config = world(vec![link])
        .transfer(Side::Server, 1 << 20)
        .transfer(Side::Server, 1 << 20);
    config.transfers[1].at = Duration::from_secs(60);
    let report = config.run("ecf");
    assert!(report.done, "{:?}", report.faults);
    let lost = |notice: &Notice| matches!(notice, Notice::PathLost { .. } | Notice::PathSuspect(_));
    assert!(
        !report
            .notices
            .iter()
            .any(|(at, _, notice)| at.as_secs() < 60 && lost(notice)),
        "{:?}",
        report.notices
    );
}
