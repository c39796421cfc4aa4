//! The time for which an application waits for the next byte after the loss of a link, compared with the
//! project's stated bounds.
//!
//! It is counted from the moment of the loss. Waits before that are caused by the links, not by the loss.

use std::time::Duration;

use hawser_session_machine::sim::{Fault, Side, SimLink, SimReport, WorldConfig};
use hawser_sim::rng::Rng;

/// The time allowed for the session machine itself.
const SLACK: Duration = Duration::from_millis(20);
/// Bytes that a transport keeps unsent, plus one segment.
const HANDED_OVER: u64 = 2 * 65_536;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the longest wait that ended after `at`, counted from `at` at the earliest.
fn wait(report: &SimReport, at: Duration) -> Duration {
    let after = |&(begin, end): &(Duration, Duration)| (end > at).then(|| end - begin.max(at));
    report.gaps[0].iter().filter_map(after).max().unwrap_or_default()
}

/// Returns a round trip over a link behind a full queue.
fn behind_queue(link: &SimLink) -> Duration {
    2 * link.delay + Duration::from_secs_f64((link.queue + HANDED_OVER) as f64 / link.rate as f64)
}

/// The result of a transfer that lost one of its links.
struct Run {
    wait: Duration,
    /// The maximum wait if the survivors lose no packets.
    bound: Duration,
    /// The additional wait if a survivor's own queue overflowed. TCP delivers in order. A packet lost there
    /// arrives one round trip after its loss is detected (RFC 8985, 6.2), and all later ones wait for it.
    recovery: Duration,
    what: String,
}

/// Runs a transfer over two or three links, one of which is lost while it is in use.
fn lose_one(seed: u64, fault: Fault) -> Option<Run> {
    let mut rng = Rng::new(seed, "gaps");
    let links: Vec<SimLink> = (0..rng.between(2, 3))
        .map(|_| SimLink::new(rng.between(5, 99) as f64, ms(rng.between(2, 99))))
        .collect();
    let lost = rng.below(links.len() as u64) as usize;
    let at = ms(rng.between(700, 2_999));
    let from = if rng.chance(0.5) {
        Side::Client
    } else {
        Side::Server
    };
    let survivors = || {
        links
            .iter()
            .enumerate()
            .filter(|(link, _)| *link != lost)
            .map(|(_, link)| link)
    };
    let recovery = survivors().map(behind_queue).max()?;
    let what = format!("seed {seed}: {from:?} sends over {links:?}, {lost} lost at {at:?}");
    let sum: u64 = links.iter().map(|link| link.rate).sum();
    // At full rate, data for one second remains when the link is lost.
    let bytes = (sum as f64 * (at.as_secs_f64() + 1.0)) as u64;
    let report = WorldConfig::new(links)
        .transfer(from, bytes)
        .fault(at, lost, fault)
        .run("ecf");
    assert!(report.done, "{what}: {:?}", report.faults);
    let cut = report.cuts.iter().find(|cut| cut.at == at)?;
    let allowance = if fault == Fault::Down {
        Duration::ZERO
    } else {
        2 * cut.probe_timeout[from as usize]
    };
    Some(Run {
        wait: wait(&report, at),
        bound: recovery + SLACK + allowance,
        recovery,
        what,
    })
}

fn within_bounds(fault: Fault) {
    let runs: Vec<_> = (0..60).filter_map(|seed| lose_one(seed, fault)).collect();
    assert!(
        runs.len() > 50,
        "in nearly every run the link is in use: {}",
        runs.len()
    );
    let longest = runs.iter().map(|run| run.wait).max().unwrap_or_default();
    assert!(longest > ms(20), "some application waits: {longest:?}");
    let mut late = 0;
    for Run { wait, bound, recovery, what } in &runs {
        assert!(
            *wait <= *bound + *recovery,
            "{wait:?} beyond {bound:?} and {recovery:?}; {what}"
        );
        late += usize::from(wait > bound);
    }
    assert!(
        20 * late <= runs.len(),
        "{late} of {} runs waited for a survivor's own losses",
        runs.len()
    );
}

/// If the host sees the link go down, the wait is one round trip, the survivor's queue and 20 ms.
#[test]
fn a_reported_link_failure_costs_one_round_trip() {
    within_bounds(Fault::Down);
}

/// Without notice, the wait is two session PTOs of the lost path, the survivor's round trip and queue, and 20
/// ms.
#[test]
fn a_loss_without_a_notice_costs_two_timeouts_and_a_round_trip() {
    within_bounds(Fault::Silent);
}

/// A translator that forgets its mappings causes a silent loss of the carrier. The path itself still exists,
/// and a new carrier takes its place.
#[test]
fn a_translator_rebinding_stays_within_the_gap_bounds() {
    within_bounds(Fault::Rebind);
}

/// A link whose rate falls to 0.5 Mbit/s delivers its queue only after seconds. The other link carries the
/// same bytes sooner.
#[test]
fn a_link_that_becomes_slow_holds_up_no_reader_for_seconds() {
    let (mut longest, at) = (Duration::ZERO, ms(2_000));
    for seed in 0..12 {
        let mut rng = Rng::new(seed, "slow");
        let link = || SimLink { queue: 150_000, ..SimLink::new(10.0, ms(30)) };
        let other = SimLink::new(rng.between(5, 50) as f64, ms(rng.between(5, 99)));
        let rate = (link().rate + other.rate) as f64;
        let mut world = WorldConfig::new(vec![link(), other]);
        world.seed = seed;
        let report = world
            .transfer(Side::Server, (rate * 6.0) as u64)
            .fault(at, 0, Fault::Rate(62_500))
            .run("ecf");
        assert!(report.done, "seed {seed}: {:?}", report.faults);
        println!("seed {seed}: {:?} over {other:?}", wait(&report, at));
        longest = longest.max(wait(&report, at));
    }
    // A stall is detected after half a second. The rest is a round trip over the other link, behind its
    // queue.
    assert!(longest < ms(1_500), "{longest:?}");
}
