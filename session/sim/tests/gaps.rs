//! How long an application waits for the next byte when a link is lost, against the bounds that the
//! project states.
//!
//! Counted from the moment of the loss; what an application waited for before has to do with the
//! links, not with their loss.

use std::time::Duration;

use hawser_session_sim::{Dice, Fault, Link, Report, Side, WorldConfig};

/// What is allowed for the machine's own deliberation.
const SLACK: Duration = Duration::from_millis(20);
/// Bytes that a transport keeps unsent, and a segment more.
const HANDED_OVER: u64 = 2 * 65_536;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The longest wait that ended after `at`, counted from `at` at the earliest.
fn wait(report: &Report, at: Duration) -> Duration {
    let after = |&(begin, end): &(Duration, Duration)| (end > at).then(|| end - begin.max(at));
    report.gaps[0].iter().filter_map(after).max().unwrap_or_default()
}

/// A round trip over a link, behind as much as can wait before it.
fn behind_queue(link: &Link) -> Duration {
    2 * link.delay + Duration::from_secs_f64((link.queue + HANDED_OVER) as f64 / link.rate as f64)
}

/// A transfer over two or three links, one of which is lost while it is in use.
fn lose_one(seed: u64, fault: Fault) -> Option<(Duration, Duration, String)> {
    let mut dice = Dice::new(seed);
    let links: Vec<Link> = (0..dice.between(2, 4))
        .map(|_| Link::new(dice.between(5, 100) as f64, ms(dice.between(2, 100))))
        .collect();
    let lost = dice.between(0, links.len() as u64) as usize;
    let at = ms(dice.between(700, 3_000));
    let from = if dice.once_in(2) { Side::Client } else { Side::Server };
    let survivors = || links.iter().enumerate().filter(|(link, _)| *link != lost).map(|(_, link)| link);
    let told = survivors().map(behind_queue).max()? + SLACK;
    let what = format!("seed {seed}: {from:?} sends over {links:?}, {lost} lost at {at:?}");
    let sum: u64 = links.iter().map(|link| link.rate).sum();
    let report = WorldConfig::new(links).transfer(from, 4 * sum).fault(at, lost, fault).run("ecf");
    assert!(report.done, "{what}: {:?}", report.faults);
    let cut = report.cuts.iter().find(|cut| cut.at == at)?;
    let patience = if fault == Fault::Down { Duration::ZERO } else { 2 * cut.patience[from as usize] };
    Some((wait(&report, at), told + patience, what))
}

fn within_bounds(fault: Fault) {
    let runs: Vec<_> = (0..60).filter_map(|seed| lose_one(seed, fault)).collect();
    assert!(runs.len() > 50, "in nearly every run the link is in use: {}", runs.len());
    let longest = runs.iter().map(|(wait, ..)| *wait).max().unwrap_or_default();
    assert!(longest > ms(20), "some application waits: {longest:?}");
    for (wait, bound, what) in runs {
        assert!(wait <= bound, "{wait:?} beyond {bound:?}; {what}");
    }
}

/// The link's end is seen: one round trip, the survivor's queue, 20 ms.
#[test]
fn a_link_seen_to_go_down_costs_a_round_trip() {
    within_bounds(Fault::Down);
}

/// Nobody tells: two session PTOs of the lost path, the survivor's round trip and queue, 20 ms.
#[test]
fn a_silent_loss_costs_two_timeouts_and_a_round_trip() {
    within_bounds(Fault::Silent);
}

/// A translator that forgets its mappings is a silent loss of the carrier; the path itself is there,
/// and a new carrier takes its place.
#[test]
fn a_translator_that_forgets_costs_the_same() {
    within_bounds(Fault::Rebind);
}
