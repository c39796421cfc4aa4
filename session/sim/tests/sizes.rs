//! Links that lose long packets without a sign, while carriers begin with long ones.

use std::time::Duration;

use hawser_session::Notice;
use hawser_session_sim::{Link, Report, Side, WorldConfig};

fn narrow(link: Link) -> Link {
    Link { max_payload: 1_350, ..link }
}

/// A world whose handshakes fit short packets: those that do not are the business of what opens carriers
/// (`hawser_experiments::conditions::long_packets_lost_handshake_completes`).
fn world(links: Vec<Link>) -> WorldConfig {
    WorldConfig { flight: 1_100, ..WorldConfig::new(links) }
}

fn finished(report: &Report) -> f64 {
    assert!(report.done, "{:?}, {:?}", report.faults, report.notices);
    report.finished[0].expect("it is done").as_secs_f64()
}

/// Seconds for so many bytes at a rate in bytes a second.
fn ideal(bytes: u64, rate: u64) -> f64 {
    bytes as f64 / rate as f64
}

#[test]
fn a_path_alone_that_loses_long_packets_carries_short_ones() {
    for from in [Side::Client, Side::Server] {
        let link = narrow(Link::new(20.0, Duration::from_millis(20)));
        let bytes = 4 << 20;
        let report = world(vec![link]).transfer(from, bytes).run("ecf");
        let (seconds, ideal) = (finished(&report), ideal(bytes, link.rate));
        // A second until the server is asked, one until that is not answered, two until it is given up.
        assert!(seconds < 1.2 * ideal + 4.5, "{from:?}: {seconds} s of {ideal} s");
        assert_eq!(
            report.connects.len(),
            2,
            "{from:?}: one carrier more is enough: {:?}",
            report.connects
        );
    }
}

/// What a session found out, the next one on that network begins with.
#[test]
fn a_path_that_is_known_to_lose_long_packets_begins_with_short_ones() {
    let link = narrow(Link::new(20.0, Duration::from_millis(20)));
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
        let narrow = narrow(Link::new(20.0, Duration::from_millis(20)));
        let links = vec![narrow, Link::new(10.0, Duration::from_millis(40))];
        let rate: u64 = links.iter().map(|link| link.rate).sum();
        let bytes = 16 << 20;
        let report = world(links).transfer(from, bytes).run("ecf");
        let (seconds, ideal) = (finished(&report), ideal(bytes, rate));
        assert!(seconds < 1.2 * ideal + 2.0, "{from:?}: {seconds} s of {ideal} s");
    }
}

/// A client that only listens, and whose server has nothing to send for a while, asks once and lets the
/// carrier be.
#[test]
fn a_quiet_carrier_is_asked_once() {
    let link = Link::new(20.0, Duration::from_millis(20));
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
