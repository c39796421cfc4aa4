//! Paths that fail, return or change: no byte is lost, and pauses are as short as possible.

use std::time::Duration;

use hawser::lab::Lab;
use hawser_experiments::{Report, Testbed, Transfer};
use hawser_sim::rng::Rng;

use crate::TestResult;
use crate::network::{MOBILE, WIFI, stage};

const BOTH: [&str; 2] = ["tcp:wlan0", "quic:wwan0"];

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Takes a link away permanently, by one of two faults.
fn kill(link: &'static str, fault: u64) -> impl Fn(&Lab) -> TestResult + Send + 'static {
    move |lab| {
        let link = lab.link(link)?;
        Ok(if fault == 0 {
            link.down()
        } else {
            link.silence(true)
        }?)
    }
}

/// Runs one transfer during which a path is killed, at a moment that the seed decides.
fn killed(stage: &Testbed, seed: u64, bytes: u64, lasts: f64) -> TestResult<Report> {
    let mut rng = Rng::new(seed, "kill");
    let mut rng = |sides| rng.below(sides);
    let transports = ["tcp", "quic"];
    let over = [
        format!("{}:wlan0", transports[rng(2) as usize]),
        format!("{}:wwan0", transports[rng(2) as usize]),
    ];
    let (link, fault) = (["wifi", "mobile"][rng(2) as usize], rng(2));
    let at = seconds(lasts * rng(1_000) as f64 / 1_000.0);
    let mut transfer = Transfer::new(stage.document(&[&over[0], &over[1]])?, bytes)
        .verified()
        .act(at, kill(link, fault));
    if rng(2) == 0 {
        transfer = transfer.up();
    }
    let direction = transfer.direction;
    let report = transfer.run(stage);
    let mend = stage.lab.link(link)?;
    mend.up()?;
    mend.silence(false)?;
    let report = report.map_err(|error| format!("seed {seed}, {over:?} {direction:?}, {link}: {error}"))?;
    println!(
        "  seed {seed}: {} {} {direction:?}, {link} {} at {:.3} s: {:.3} s, longest pause after it {:.0} ms",
        over[0],
        over[1],
        if fault == 0 { "down" } else { "silent" },
        at.as_secs_f64(),
        report.seconds,
        report.longest_pause_after(at.as_secs_f64()) * 1e3
    );
    Ok(report)
}

pub(crate) fn killing_a_path_loses_no_byte() -> TestResult {
    let stage = stage(&[WIFI, MOBILE], "")?;
    for seed in 1..=3 {
        killed(&stage, seed, 12 << 20, 1.6)?;
    }
    Ok(())
}

/// Runs 20 transfers of 256 MB.
pub(crate) fn killing_a_path_loses_no_byte_long() -> TestResult {
    let fast = crate::network::Link { rate: 400, queue: 1_000_000, ..WIFI };
    let slow = crate::network::Link { rate: 200, queue: 1_000_000, ..MOBILE };
    let stage = stage(&[fast, slow], "")?;
    for seed in 1..=20 {
        killed(&stage, seed, 256_000_000, 4.0)?;
    }
    Ok(())
}

/// The time, in seconds, that a busy machine may add to a bound. Tests in virtual time check the bound
/// exactly (`hawser_session_machine::sim::gaps`).
const NOISE: f64 = 0.1;

/// Takes WiFi away at three moments, each in a transfer of its own. The median pause is within the bound.
/// Each pause is within the bound plus one recovery of the surviving path, whose queue may have overflowed at
/// that time. A packet lost there comes one round trip after the loss is detected (RFC 8985, section 6.2).
fn is_left_within(bound: f64, fault: u64) -> TestResult {
    let mut pauses = Vec::new();
    let mut events = Vec::new();
    for at in [0.9, 1.2, 1.5] {
        let stage = stage(&[WIFI, MOBILE], "")?;
        let report = Transfer::new(stage.document(&BOTH)?, 12 << 20)
            .act(seconds(at), kill("wifi", fault))
            .run(&stage)?;
        pauses.push(report.longest_pause_after(at));
        events.push(report.events);
    }
    let shown: Vec<_> = pauses
        .iter()
        .map(|pause| format!("{:.0} ms", pause * 1e3))
        .collect();
    println!("  {} of at most {:.0} ms", shown.join(", "), bound * 1e3);
    pauses.sort_by(f64::total_cmp);
    let recovery = MOBILE.round_trip_and_queue();
    if pauses[1] <= bound + NOISE && pauses[2] <= bound + recovery + NOISE {
        Ok(())
    } else {
        Err(format!("{pauses:?} s, {events:?}").into())
    }
}

/// The client sees that a link goes down. The pause is at most the round trip of the lost path, the surviving
/// path's queue and 20 ms.
pub(crate) fn a_link_reported_down_is_left_at_once() -> TestResult {
    is_left_within(2.0 * WIFI.delay / 1e3 + MOBILE.round_trip_and_queue() + 0.02, 0)
}

/// A link drops all packets. The pause is at most two timeouts of the session on the lost path, the surviving
/// path's round trip and queue, and 20 ms.
pub(crate) fn a_link_that_drops_everything_is_left_soon() -> TestResult {
    // The smoothed round-trip time includes a full queue, and its deviation is at most a queue
    // (docs/session-protocol.md, "Loss").
    let queue = WIFI.queue as f64 * 8.0 / (f64::from(WIFI.rate) * 1e6);
    let timeout = WIFI.round_trip_and_queue() + queue.max(0.01) + 0.04;
    is_left_within(2.0 * timeout + MOBILE.round_trip_and_queue() + 0.02, 1)
}

fn outage(lasts: f64) -> TestResult {
    let stage = stage(&[WIFI, MOBILE], "")?;
    let all = |is_up: bool| {
        move |lab: &Lab| {
            for link in lab.links() {
                if is_up { link.up() } else { link.down() }?;
            }
            Ok(())
        }
    };
    let mut transfer = Transfer::new(stage.document(&BOTH)?, 12 << 20)
        .verified()
        .act(seconds(1.0), all(false))
        .act(seconds(1.0 + lasts), all(true));
    transfer.timeout = seconds(60.0 + lasts);
    let report = transfer.run(&stage)?;
    let pause = report.longest_pause_after(1.0);
    println!(
        "  {lasts} s without any path: {pause:.3} s without data, {:.3} s in all",
        report.seconds
    );
    let reported = report.when("stalled").is_some() && report.when("resumed").is_some();
    if reported && pause < lasts + 1.0 {
        Ok(())
    } else {
        Err(format!("{pause} s, {:?}", report.events).into())
    }
}

pub(crate) fn a_session_survives_the_loss_and_return_of_all_paths() -> TestResult {
    outage(3.0)
}

pub(crate) fn a_session_survives_two_minutes_without_paths() -> TestResult {
    outage(120.0)
}

/// The translator changes its ports. QUIC migrates or the session opens a new connection, and no byte is
/// lost.
pub(crate) fn a_translator_is_rebound() -> TestResult {
    let stage = stage(&[WIFI], "nat = { inside = \"client\" }")?;
    for carrier in ["tcp:wlan0", "quic:wlan0"] {
        let rebind = |lab: &Lab| Ok(lab.link("wifi")?.rebind()?);
        let report = Transfer::new(stage.document(&[carrier])?, 8 << 20)
            .verified()
            .act(seconds(0.7), rebind)
            .run(&stage)?;
        let pause = report.longest_pause_after(0.7);
        println!(
            "  {carrier}: {:.0} ms without data, {:?}",
            pause * 1e3,
            report.events
        );
        if pause > 3.0 {
            return Err(format!("{carrier} paused for {pause} s: {:?}", report.events).into());
        }
    }
    Ok(())
}

/// The first path returns, and carries data again.
pub(crate) fn a_path_that_comes_back_is_used_again() -> TestResult {
    let stage = stage(&[WIFI, MOBILE], "")?;
    let set = |is_up: bool| {
        move |lab: &Lab| {
            let link = lab.link("wifi")?;
            Ok(if is_up { link.up() } else { link.down() }?)
        }
    };
    let report = Transfer::new(stage.document(&["tcp:wlan0", "tcp:wwan0"])?, 20 << 20)
        .verified()
        .act(seconds(1.0), set(false))
        .act(seconds(2.0), set(true))
        .run(&stage)?;
    let carried = |name: &str, from: f64, to: f64| -> u64 {
        let all = |moment: &hawser_experiments::Moment| -> u64 {
            let of = report
                .paths
                .iter()
                .zip(&moment.delivered)
                .filter(|(path, _)| path.contains(name));
            of.map(|(_, bytes)| *bytes).sum()
        };
        let within = report
            .moments
            .iter()
            .filter(|moment| (from..to).contains(&moment.seconds));
        let mut within = within.map(all);
        let first = within.next().unwrap_or(0);
        within.next_back().unwrap_or(first) - first
    };
    let away = carried("wlan0", 1.3, 2.0);
    let back = carried("wlan0", 2.5, 3.5);
    println!("  wifi carried {away} bytes while away, {back} in a second after it was back");
    if away < 200_000 && back > 1_000_000 {
        Ok(())
    } else {
        Err(format!("{away}, {back}: {:?}", report.events).into())
    }
}

/// A backup path carries data only while no other path is left.
pub(crate) fn a_backup_carries_when_other_paths_fail() -> TestResult {
    let stage = stage(&[WIFI, MOBILE], "")?;
    let mut document = stage.document(&["tcp:wlan0", "tcp:wwan0"])?;
    document.connections[1].backup = true;
    let clean = Transfer::new(document.clone(), 4 << 20).run(&stage)?;
    let backup = |report: &Report| -> u64 {
        let last = report
            .moments
            .last()
            .map(|moment| moment.delivered.clone())
            .unwrap_or_default();
        report
            .paths
            .iter()
            .zip(last)
            .filter(|(path, _)| path.contains("wwan0"))
            .map(|(_, bytes)| bytes)
            .sum()
    };
    let killed = Transfer::new(document, 8 << 20)
        .act(seconds(0.5), kill("wifi", 0))
        .run(&stage)?;
    println!(
        "  the backup carried {} bytes, and {} of 8 MiB without WiFi",
        backup(&clean),
        backup(&killed)
    );
    if backup(&clean) == 0 && backup(&killed) > 4 << 20 {
        Ok(())
    } else {
        Err("not so".into())
    }
}
