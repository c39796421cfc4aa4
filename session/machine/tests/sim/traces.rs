//! The decisions of each scheduler in one run, segment by segment, in the files in `traces/`. A change of a
//! scheduler, of the machine or of TCP shows as a difference there. `UPDATE_EXPECT=1` rewrites them; read the
//! difference before committing.

#![allow(clippy::disallowed_methods)] // the traces are files, and updating them the developer's decision

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use hawser_session_machine::Opening;
use hawser_session_machine::sim::{Fault, Side, SimLink, SimReport, WorldConfig};

const SCHEDULERS: [&str; 9] = [
    "rr",
    "weighted",
    "lowest-latency",
    "top-latency:2",
    "top-throughput:1",
    "redundant",
    "ecf",
    "blest",
    "cheapest",
];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 400 KB over links of 20 Mbit/s, 10 ms and 8 Mbit/s, 50 ms. The first link is silent from 100 to 600 ms.
fn world() -> WorldConfig {
    WorldConfig::new(vec![SimLink::new(20.0, ms(10)), SimLink::new(8.0, ms(50))])
        .transfer(Side::Client, 400_000)
        .fault(ms(100), 0, Fault::Silent)
        .fault(ms(600), 0, Fault::Up)
}

fn decisions(report: &SimReport) -> String {
    let mut text = String::from("    ms carrier offset length\n");
    for (at, side, carrier, offset, length) in &report.sent {
        assert_eq!(*side, Side::Client);
        let _ = writeln!(text, "{:6} {carrier:7} {offset:6} {length:6}", at.as_millis());
    }
    text
}

fn openings(report: &SimReport) -> String {
    let mut lines: Vec<(Duration, String)> = Vec::new();
    for (at, carrier, candidate) in &report.connects {
        lines.push((*at, format!("open carrier {carrier} by candidate {candidate}")));
    }
    for (at, side, notice) in &report.notices {
        use hawser_session_machine::Notice::{Opened, PathLost, PathUp};
        match notice {
            Opened(_) if *side == Side::Client => lines.push((*at, "accepted".into())),
            PathUp(carrier) if *side == Side::Client => lines.push((*at, format!("carrier {carrier} is up"))),
            PathLost { carrier, reason, .. } if *side == Side::Client => {
                lines.push((*at, format!("carrier {carrier} is lost: {reason:?}")));
            }
            _ => {}
        }
    }
    lines.sort_by_key(|(at, _)| *at);
    lines.iter().fold(String::new(), |mut text, (at, line)| {
        let _ = writeln!(text, "{:6} ms {line}", at.as_millis());
        text
    })
}

fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sim/traces")
        .join(format!("{name}.txt"));
    hawser_testing::expect_file(&path, found).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn schedulers_decide_as_before() {
    for scheduler in SCHEDULERS {
        let report = world().run(scheduler);
        assert!(report.done, "{scheduler}: {:?}", report.faults);
        compare(&scheduler.replace(':', "-"), &decisions(&report));
    }
}

#[test]
fn carriers_are_opened_as_before() {
    let modes = [
        ("opening-sequential", Opening::Sequential),
        ("opening-staggered", Opening::default()),
        ("opening-parallel", Opening::Parallel),
    ];
    for (name, mode) in modes {
        let mut text = String::new();
        for (what, dead) in [
            ("all links carry", false),
            ("the first link is dead until 12 s", true),
        ] {
            let links = vec![
                SimLink::new(10.0, ms(20)),
                SimLink::new(10.0, ms(60)),
                SimLink::new(10.0, ms(100)),
            ];
            let mut config = WorldConfig::new(links).transfer(Side::Client, 8 << 20);
            config.session.opening = mode;
            if dead {
                config = config
                    .fault(Duration::ZERO, 0, Fault::Silent)
                    .fault(ms(12_000), 0, Fault::Up);
                config.transfers[0].bytes *= 4;
            }
            let report = config.run("ecf");
            assert!(report.done, "{name}: {:?}", report.faults);
            let _ = write!(text, "{what}\n{}", openings(&report));
        }
        compare(name, &text);
    }
}
