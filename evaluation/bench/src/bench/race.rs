//! `hawser bench race`: the cost of a selection, which consults a full cache for some candidates, runs the
//! race until it is won, and records the outcome. In a warm selection, a cached winner starts alone; in a
//! cold one, no candidate is known.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use hawser::race::{
    Action, AttemptOutcome, Cache, CacheKey, CacheLimits, Candidate, CandidateId, Event, Profile, Questions,
    Race, Request,
};
use hawser::time::Instant;

use super::{Common, alternate, callgrind, column, row};
use crate::report::{Better, Metric, Report};

/// The number of candidates: transport × family × interface, as on a laptop.
const CANDIDATES: u32 = 12;

/// Measure a warm and a cold selection among twelve candidates
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Selections of each run
    #[arg(long, value_name = "N")]
    selections: Option<u32>,
}

/// The part that runs under valgrind.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Once {
    /// 1: a cached winner; 0: none
    warm: u8,
    /// The number of selections
    times: u32,
}

type Failure = Box<dyn std::error::Error>;

/// Runs the bench.
///
/// # Errors
/// None. The report mentions a missing valgrind.
pub(crate) fn run(args: &Args, common: &Common) -> Result<Report, Failure> {
    let selections = args
        .selections
        .unwrap_or(if common.quick { 200 } else { 20_000 })
        .max(1);
    let mut report = Report::new("race", "A selection among twelve candidates");
    report.setting("selections", selections);
    report.setting("runs", common.runs());
    let results = alternate(common, "race", &[true, false], |warm| {
        let mut case = Case::new(*warm);
        case.work(1);
        let begin = std::time::Instant::now();
        case.work(selections);
        Ok(vec![begin.elapsed().as_secs_f64() * 1e6 / f64::from(selections)])
    });
    for (warm, result) in [true, false].into_iter().zip(results) {
        let instructions = instructions(warm);
        if let Err(why) = &instructions {
            report.setting("instructions", format!("not counted: {why}"));
        }
        let counted = instructions.map_or(Vec::new(), |count| vec![count]);
        let name = if warm { "warm selection" } else { "cold selection" };
        report.rows.push(row(name.to_owned(), result, |samples| {
            vec![
                Metric::new("time", "µs", Better::Lower, column(samples, 0)),
                Metric::new("instructions", "instructions", Better::Lower, counted),
            ]
        }));
    }
    Ok(report)
}

/// Returns the instructions of each, as the difference of two runs under valgrind.
fn instructions(warm: bool) -> Result<f64, Failure> {
    let (few, many) = (10, 210);
    let count = |times: u32| {
        let words = [u8::from(warm).to_string(), times.to_string()];
        callgrind::count(&["once-race", &words[0], &words[1]]).map(|(count, _)| count)
    };
    Ok((count(many)? - count(few)?) as f64 / f64::from(many - few))
}

/// Executes the hidden sub-command.
pub(crate) fn once(args: &Once) {
    Case::new(args.warm != 0).work(args.times);
}

/// A cache, and the candidates of a selection.
struct Case {
    network: Arc<str>,
    cache: Cache,
    candidates: Vec<Candidate>,
    is_warm: bool,
}

impl Case {
    fn new(is_warm: bool) -> Self {
        let network: Arc<str> = "home".into();
        let mut cache = Cache::new(CacheLimits::default());
        let won = AttemptOutcome::Won { took: Duration::from_millis(20) };
        for number in 0..1023 {
            let other = Candidate::new(
                CandidateId(0),
                "tcp",
                format!("192.0.2.{}:{number}", number % 256),
            );
            cache.record(CacheKey::new(&network, &other), won, Instant::ORIGIN);
        }
        let candidates: Vec<Candidate> = (0..CANDIDATES).map(candidate).collect();
        if is_warm {
            // The best candidate of all: no untried one is preferred to it.
            cache.record(CacheKey::new(&network, &candidates[3]), won, Instant::ORIGIN);
        }
        Self { network, cache, candidates, is_warm }
    }

    fn work(&mut self, times: u32) {
        for _ in 0..times {
            select(&self.network, &mut self.cache, &self.candidates, self.is_warm);
        }
    }
}

fn candidate(number: u32) -> Candidate {
    let transport = ["quic", "tcp", "sctp"][number as usize % 3];
    let remote = ["[2001:db8::1]:443", "192.0.2.1:443"][number as usize / 3 % 2];
    let mut made = Candidate::new(CandidateId(number), transport, remote);
    made.interface = ["wlan0", "wwan0"][number as usize / 6].into();
    made.priority = (number % 3) as u16;
    made
}

fn select(network: &Arc<str>, cache: &mut Cache, candidates: &[Candidate], is_warm: bool) {
    let now = Instant::after(Duration::from_secs(1));
    let known = candidates.iter().cloned().map(|mut one| {
        one.known = cache.consult(&CacheKey::new(network, &one), now);
        one
    });
    let candidates = known.collect();
    let mut race = Race::new(Profile::RFC8305, Request::default(), Questions::default(), now);
    let actions = race.on(Event::Found { question: None, candidates }, now);
    let Some(Action::Start(first)) = actions.first() else {
        panic!("{actions:?}")
    };
    let later = now + Duration::from_millis(20);
    for action in black_box(race.on(Event::Connected(*first), later)) {
        if let Action::Record(id, outcome) = action
            && is_warm
        {
            let candidate = race.candidate(id).expect("a candidate of the race");
            cache.record(CacheKey::new(network, candidate), outcome, now);
        }
    }
}
