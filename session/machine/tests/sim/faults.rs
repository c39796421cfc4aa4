//! Seeded runs in which no fault of the links may lose a byte.

use std::time::Duration;

use hawser_session_machine::scheduler::by_name;
use hawser_session_machine::sim::{Fault, SessionWorld, Side, SimLink, SimReport, Transfer, WorldConfig};
use hawser_session_machine::{Config, Notice, Opening};
use hawser_sim::rng::Rng;

const SCHEDULERS: [&str; 9] = [
    "rr",
    "weighted",
    "lowest-latency",
    "top-latency:2",
    "top-throughput:2",
    "redundant",
    "ecf",
    "blest",
    "cheapest",
];

/// Creates a world from a seed: two to four links, transfers in both directions, and faults at random times.
/// At most one link at a time is silent or down, and all work in the end.
fn world(seed: u64) -> (WorldConfig, &'static str) {
    let mut rng = Rng::new(seed, "faults");
    let ms = Duration::from_millis;
    let links: Vec<SimLink> = (0..rng.between(2, 4))
        .map(|_| SimLink::new(rng.between(2, 99) as f64, ms(rng.between(1, 119))))
        .collect();
    let mut faults = Vec::new();
    let mut at = ms(rng.below(600));
    for _ in 0..rng.between(1, 5) {
        let link = rng.below(links.len() as u64) as usize;
        let fault = match rng.below(5) {
            0 | 1 => Fault::Silent,
            2 => Fault::Down,
            3 => Fault::Fin,
            _ => Fault::Rate(rng.between(50_000, 5_000_000)),
        };
        faults.push((at, link, fault));
        at += ms(rng.between(1, 2_999));
        faults.push((at, link, Fault::Up));
        at += ms(rng.below(500));
    }
    let transfers = (0..rng.between(1, 3))
        .map(|_| Transfer {
            from: if rng.chance(0.5) {
                Side::Client
            } else {
                Side::Server
            },
            bytes: rng.between(1, 3 << 20),
            at: ms(rng.below(1_000)),
            read_rate: if rng.chance(0.25) {
                rng.between(200_000, 4_000_000)
            } else {
                0
            },
        })
        .collect();
    let opening = match rng.below(3) {
        0 => Opening::Sequential,
        1 => Opening::Parallel,
        _ => Opening::default(),
    };
    let credit = 1 << rng.between(16, 23);
    let session = Config {
        opening,
        session_credit: credit,
        stream_credit: credit >> rng.below(2),
        send_buffer: 1 << rng.between(17, 22),
        reinject: !rng.chance(0.25),
        ..Config::default()
    };
    let handshakes = links.iter().map(|_| rng.between(1, 2) as u32).collect();
    let scheduler = SCHEDULERS[rng.below(SCHEDULERS.len() as u64) as usize];
    let until = Duration::from_secs(600);
    let config = WorldConfig {
        handshakes,
        session,
        faults,
        transfers,
        seed,
        until,
        ..WorldConfig::new(links)
    };
    (config, scheduler)
}

fn run(seed: u64) -> SimReport {
    let (config, scheduler) = world(seed);
    SessionWorld::new(config, move || by_name(scheduler).expect("a scheduler")).run()
}

#[test]
fn no_byte_is_lost_under_any_link_faults() {
    let bad: Vec<String> = (0..500)
        .filter_map(|seed| {
            let report = run(seed);
            (!report.done).then(|| {
                let (config, scheduler) = world(seed);
                let notices: Vec<_> = report
                    .notices
                    .iter()
                    .filter(|(.., notice)| !matches!(notice, Notice::Readable(_)))
                    .collect();
                format!(
                    "seed {seed} {scheduler}: {:?} {:?} of {:?}\n  {:?}\n  {notices:?}",
                    report.faults, report.finished, config.transfers, config.faults
                )
            })
        })
        .collect();
    assert!(bad.is_empty(), "{} runs:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn a_seed_reproduces_its_run() {
    for seed in 0..20 {
        assert_eq!(run(seed).trace, run(seed).trace, "seed {seed}");
    }
}
