//! The choices of each scheduler, computed by hand from its paper's formulas. The cases are the files in
//! `schedulers/`.
//!
//! ```text
//! scheduler ecf
//! path 0 srtt=10 rttvar=1 window=14480 room=0      a new carrier, or new figures of one
//! choose waiting=14480 -> wait 100                 carrier 0, `wait` milliseconds, or `wait`
//! gone 0
//! at 20                                            the clock, in milliseconds
//! ```
//!
//! Times are in milliseconds, all other values in bytes or bytes per second. For a path, omitted values are
//! 0, except mss=1448 and weight=1. For a choice, length defaults to 1448, and credit, window and waiting to
//! large values. A chosen carrier counts `length` bytes as sent.

#![allow(clippy::disallowed_methods)] // the cases are files

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hawser_carriers::Statistics;
use hawser_session_machine::CarrierId;
use hawser_session_machine::scheduler::{
    Choice, PathView, PendingData, Scheduler, WHEN_SOMETHING_CHANGES, by_name,
};
use hawser_time::Instant;

/// Parses `name=value` pairs.
fn pairs(words: &str) -> BTreeMap<&str, u64> {
    words
        .split_whitespace()
        .map(|word| {
            let (name, value) = word.split_once('=').expect("name=value");
            (name, value.parse().expect("a number"))
        })
        .collect()
}

fn path(id: u32, given: &BTreeMap<&str, u64>) -> PathView {
    let get = |name, otherwise| given.get(name).copied().unwrap_or(otherwise);
    let known = [
        "srtt",
        "rttvar",
        "mss",
        "window",
        "slow_start",
        "in_flight",
        "queued",
        "rate",
        "room",
        "weight",
        "cost",
    ];
    given
        .keys()
        .for_each(|name| assert!(known.contains(name), "no such figure: {name}"));
    let statistics = Statistics {
        srtt: Duration::from_millis(get("srtt", 0)),
        rttvar: Duration::from_millis(get("rttvar", 0)),
        mss: get("mss", 1_448) as usize,
        window: get("window", 0),
        slow_start: get("slow_start", 0) != 0,
        in_flight: get("in_flight", 0),
        queued: get("queued", 0),
        rate: get("rate", 0),
        ..Statistics::default()
    };
    let mut view = PathView::new(CarrierId(id), statistics, get("room", 0) as usize);
    view.weight = get("weight", 1) as u32;
    view.cost = get("cost", 0) as u32;
    view
}

struct Case {
    scheduler: Box<dyn Scheduler>,
    paths: Vec<PathView>,
    now: Instant,
}

impl Case {
    fn choose(&mut self, given: &BTreeMap<&str, u64>) -> String {
        let get = |name, otherwise| given.get(name).copied().unwrap_or(otherwise);
        let length = get("length", 1_448) as usize;
        let pending = PendingData {
            stream: 0,
            length,
            waiting: get("waiting", 1 << 30),
            credit: get("credit", 1 << 30),
            window: get("window", 1 << 30),
            again: false,
        };
        match self.scheduler.choose(&self.paths, &pending, self.now) {
            Choice::Send(index) => {
                let carrier = self.paths[index].carrier;
                self.scheduler.sent(carrier, length);
                carrier.to_string()
            }
            Choice::Wait(WHEN_SOMETHING_CHANGES) => "wait".into(),
            Choice::Wait(time) => format!("wait {}", time.as_millis()),
        }
    }
}

fn check(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).expect("a readable file");
    let mut case: Option<Case> = None;
    let mut choices = 0;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let place = format!("{}:{}", file.display(), number + 1);
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word.is_empty() {
            continue;
        }
        if word == "scheduler" {
            let scheduler = by_name(rest).unwrap_or_else(|| panic!("{place}: no scheduler {rest}"));
            case = Some(Case { scheduler, paths: Vec::new(), now: Instant::ORIGIN });
            continue;
        }
        let case = case.as_mut().expect("a scheduler first");
        match word {
            "path" => {
                let (id, figures) = rest.split_once(' ').expect("a path's figures");
                let new = path(id.parse().expect("a number"), &pairs(figures));
                case.paths.retain(|path| path.carrier != new.carrier);
                case.paths.push(new);
                case.paths.sort_by_key(|path| path.carrier);
            }
            "gone" => case.paths.retain(|path| path.carrier.to_string() != rest),
            "at" => case.now = Instant::after(Duration::from_millis(rest.parse().expect("a number"))),
            "choose" => {
                let (given, expected) = rest.split_once("->").expect("what is expected");
                assert_eq!(case.choose(&pairs(given)), expected.trim(), "{place}");
                choices += 1;
            }
            _ => panic!("{place}: {word}?"),
        }
    }
    choices
}

#[test]
fn schedulers_choose_by_their_formulas() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedulers");
    let files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 9, "one for each scheduler");
    let choices: usize = files.iter().map(|file| check(file)).sum();
    assert!(choices >= 60, "{choices}");
}

/// An application's own scheduler works like any other.
#[test]
fn an_application_can_supply_a_scheduler() {
    #[derive(Debug)]
    struct Odd;
    impl Scheduler for Odd {
        fn name(&self) -> &'static str {
            "odd"
        }
        fn choose(&mut self, paths: &[PathView], _: &PendingData, _: Instant) -> Choice {
            let odd = paths
                .iter()
                .position(|path| path.carrier.0 % 2 == 1 && path.room > 0);
            odd.map_or(Choice::Wait(WHEN_SOMETHING_CHANGES), Choice::Send)
        }
    }
    let paths = [path(0, &pairs("room=1")), path(1, &pairs("room=1"))];
    let mut case = Case { scheduler: Box::new(Odd), paths: paths.to_vec(), now: Instant::ORIGIN };
    assert_eq!(case.choose(&pairs("")), "1");
}
