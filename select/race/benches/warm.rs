//! What a selection costs: consulting a full cache for some candidates, the race with its winner, and
//! what is recorded of it; warm, where a cached winner starts alone, and cold.
//!
//! ```text
//! cargo bench -p hawser-race --bench warm                # nanoseconds for one selection
//! cargo bench -p hawser-race --bench warm -- warm 10000  # so many warm ones; for callgrind
//! ```

#![allow(clippy::disallowed_methods)] // A bench reads its arguments and the clock; the crate does not.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser_race::{
    Action, Cache, Candidate, CandidateId, Event, Key, Limits, Outcome, Profile, Questions, Race, Request,
};

/// Transport × family × interface, as a laptop has them.
const CANDIDATES: u32 = 12;
const RUNS: usize = 5;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [kind, count] = &arguments[..] {
        run(kind == "warm", count.parse().expect("a number of selections"));
        return;
    }
    for (name, is_warm) in [("warm", true), ("cold", false)] {
        let mut runs: Vec<u128> = (0..RUNS).map(|_| run(is_warm, 20_000)).collect();
        runs.sort_unstable();
        println!("{name}: {} ns for one selection among {CANDIDATES} (median of {RUNS})", runs[RUNS / 2]);
    }
}

/// Nanoseconds for one selection.
fn run(is_warm: bool, count: u32) -> u128 {
    let network: Arc<str> = "home".into();
    let mut cache = Cache::new(Limits::default());
    for number in 0..1023 {
        let other = Candidate::new(CandidateId(0), "tcp", format!("192.0.2.{}:{number}", number % 256));
        cache.record(
            Key::of(&network, &other),
            Outcome::Won { took: Duration::from_millis(20) },
            Duration::ZERO,
        );
    }
    let candidates: Vec<Candidate> = (0..CANDIDATES).map(candidate).collect();
    if is_warm {
        let key = Key::of(&network, &candidates[5]);
        cache.record(key, Outcome::Won { took: Duration::from_millis(20) }, Duration::ZERO);
    }
    let start = Instant::now();
    for _ in 0..count {
        select(&network, &mut cache, &candidates, is_warm);
    }
    start.elapsed().as_nanos() / u128::from(count.max(1))
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
    let now = Duration::from_secs(1);
    let known = candidates.iter().cloned().map(|mut one| {
        one.known = cache.consult(&Key::of(network, &one), now);
        one
    });
    let candidates = known.collect();
    let mut race = Race::new(Profile::RFC8305, Request::default(), Questions::default(), now);
    let actions = race.on(Event::Found { question: None, candidates }, now);
    let Some(Action::Start(first)) = actions.first() else { panic!("{actions:?}") };
    let later = now + Duration::from_millis(20);
    for action in black_box(race.on(Event::Connected(*first), later)) {
        if let Action::Record(id, outcome) = action
            && is_warm
        {
            let candidate = race.candidate(id).expect("a candidate of the race");
            cache.record(Key::of(network, candidate), outcome, now);
        }
    }
}
