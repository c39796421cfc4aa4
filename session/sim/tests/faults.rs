//! Whatever befalls the links, no byte is lost: runs from seeds.

use std::time::Duration;

use hawser_session::scheduler::by_name;
use hawser_session::{Config, Notice, Opening};
use hawser_session_sim::{Dice, Fault, Link, Report, Side, Transfer, World, WorldConfig};

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

/// A world from a seed: two to four links, transfers both ways, and faults at any moment. One link
/// at a time may be silent or down, and all carry in the end.
fn world(seed: u64) -> (WorldConfig, &'static str) {
    let mut dice = Dice::new(seed);
    let ms = Duration::from_millis;
    let links: Vec<Link> = (0..dice.between(2, 5))
        .map(|_| Link::new(dice.between(2, 100) as f64, ms(dice.between(1, 120))))
        .collect();
    let mut faults = Vec::new();
    let mut at = ms(dice.between(0, 600));
    for _ in 0..dice.between(1, 6) {
        let link = dice.between(0, links.len() as u64) as usize;
        let fault = match dice.between(0, 5) {
            0 | 1 => Fault::Silent,
            2 => Fault::Down,
            3 => Fault::Fin,
            _ => Fault::Rate(dice.between(50_000, 5_000_000)),
        };
        faults.push((at, link, fault));
        at += ms(dice.between(1, 3_000));
        faults.push((at, link, Fault::Up));
        at += ms(dice.between(0, 500));
    }
    let transfers = (0..dice.between(1, 4))
        .map(|_| Transfer {
            from: if dice.once_in(2) { Side::Client } else { Side::Server },
            bytes: dice.between(1, 3 << 20),
            at: ms(dice.between(0, 1_000)),
            read_rate: if dice.once_in(4) { dice.between(200_000, 4_000_000) } else { 0 },
        })
        .collect();
    let opening = match dice.between(0, 3) {
        0 => Opening::Sequential,
        1 => Opening::Parallel,
        _ => Opening::default(),
    };
    let credit = 1 << dice.between(16, 24);
    let session = Config {
        opening,
        session_credit: credit,
        stream_credit: credit >> dice.between(0, 2),
        send_buffer: 1 << dice.between(17, 23),
        reinject: !dice.once_in(4),
        ..Config::default()
    };
    let handshakes = links.iter().map(|_| dice.between(1, 3) as u32).collect();
    let scheduler = SCHEDULERS[dice.between(0, SCHEDULERS.len() as u64) as usize];
    let until = Duration::from_secs(600);
    (WorldConfig { links, handshakes, session, faults, transfers, seed, until }, scheduler)
}

fn run(seed: u64) -> Report {
    let (config, scheduler) = world(seed);
    World::new(config, move || by_name(scheduler).expect("a scheduler")).run()
}

#[test]
fn no_byte_is_lost_whatever_befalls_the_links() {
    let bad: Vec<String> = (0..500)
        .filter_map(|seed| {
            let report = run(seed);
            (!report.done).then(|| {
                let (config, scheduler) = world(seed);
                let told: Vec<_> = report
                    .notices
                    .iter()
                    .filter(|(.., notice)| !matches!(notice, Notice::Readable(_)))
                    .collect();
                format!(
                    "seed {seed} {scheduler}: {:?} {:?} of {:?}\n  {:?}\n  {told:?}",
                    report.faults, report.finished, config.transfers, config.faults
                )
            })
        })
        .collect();
    assert!(bad.is_empty(), "{} runs:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..20 {
        assert_eq!(run(seed).trace, run(seed).trace, "seed {seed}");
    }
}
