//! Bugs that are planted in programs, one file each in `planted/`. The swarm has to find them.
//!
//! A file names the program, one place in its text, and the replacement; the first line describes the fault.
//! A file with a `seed` concerns a condition that the swarm rarely draws by chance. The seed finds the bug,
//! which is checked here. `cargo xtask long planted` searches for all bugs, and prints the time that each
//! took.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_load::{Engine, LoadedProgram};
use hawser_runs::swarm::{self, Abilities, Ability, SwarmPeers, SwarmProgram};
use hawser_sim::scenario::units::ParamValue;
use hawser_sim::{Options, Report, ResolveError, run};
use rustix::time::{ClockId, clock_gettime};

/// The maximum processor time of the search for one bug.
const SEARCH: Duration = Duration::from_secs(10);
/// The number of bugs out of a hundred that have to be found.
const GOAL: usize = 95;
const SEEDS: u64 = 300;
/// The maximum number of events in a run; beyond it, the run counts as endless.
const EVENTS_MAX: u64 = 500_000;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Planted {
    program: String,
    /// The changed file, if the program has several.
    file: Option<String>,
    was: String,
    now: String,
    /// The condition under which the bug shows.
    cause: Option<String>,
    seed: Option<u64>,
    /// True if TCP's watcher runs, a peer may renege, and each host draws whether it has ECN, as in
    /// `swarm.args`.
    #[serde(default)]
    watched: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn planted() -> BTreeMap<String, Planted> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/planted");
    let entries = fs::read_dir(&folder).expect("the folder is there");
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a text");
        let bug = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, bug)
    };
    entries.map(read).collect()
}

/// Writes the program with the bug to a folder of its own, or the unchanged program if `plant` is false.
fn variant(name: &str, bug: &Planted, plant: bool) -> LoadedProgram {
    let main = root().join(&bug.program);
    let from = main.parent().expect("a folder");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planted/{name}-{plant}"));
    fs::create_dir_all(&folder).expect("the folder for tests can be written");
    let main_name = main.file_name().expect("a name").to_string_lossy().into_owned();
    let changed = bug.file.as_ref().unwrap_or(&main_name);
    for entry in fs::read_dir(from).expect("the program's folder") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().expect("a name").to_string_lossy().into_owned();
        if !file.ends_with(".mtp") {
            continue;
        }
        let mut text = fs::read_to_string(&path).expect("a text");
        if plant && file == *changed {
            assert_eq!(
                text.matches(&bug.was).count(),
                1,
                "{name}: `was` stands in {file} once"
            );
            text = text.replacen(&bug.was, &bug.now, 1);
        }
        fs::write(folder.join(&file), text).expect("a file");
    }
    let path = folder.join(&main_name).to_string_lossy().into_owned();
    LoadedProgram::open(&path, Some(Engine::Interp)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The abilities that the program claims, with or without the bug: docs/swarm.md.
fn abilities(bug: &Planted) -> (Abilities, &'static [(&'static str, &'static str)]) {
    if bug.program.starts_with("examples/go-back-n") {
        let less = [
            Ability::FlowControl,
            Ability::Reuse,
            Ability::Restart,
            Ability::Refusals,
            Ability::Aborts,
            Ability::Resets,
            Ability::Congestion,
        ];
        let abilities = less.into_iter().fold(Abilities::ALL, Abilities::without);
        return (abilities, &[("RTO", "3s"), ("LINGER", "1min")]);
    }
    (Abilities::ALL, &[])
}

fn go(loaded: &LoadedProgram, bug: &Planted, seed: u64) -> Report {
    let (abilities, params) = abilities(bug);
    let flags = |values: &[bool]| values.iter().copied().map(ParamValue::Flag).collect();
    let vary = [
        ("OFFER_ECN".to_owned(), flags(&[true, false])),
        ("ECN".to_owned(), flags(&[true, true, true, false])),
    ];
    let [watch, peer] = ["watch", "peers/reneging"].map(|name| {
        let path = root().join(format!("transports/tcp/{name}.mtp"));
        path.to_string_lossy().into_owned()
    });
    let beside = match bug.watched {
        false => SwarmPeers::default(),
        true => SwarmPeers {
            watch: Some(&watch),
            peer: Some(&peer),
            vary: &vary,
            ..SwarmPeers::default()
        },
    };
    let subject = SwarmProgram::new(&bug.program, abilities)
        .known(loaded.module())
        .beside(beside);
    let mut scenario = swarm::scenario(seed, &subject);
    for (name, span) in params {
        let span = span.parse().expect("a time span");
        scenario.params.insert((*name).to_owned(), ParamValue::Span(span));
    }
    let resolve = |name: &str, settings: &[String]| -> Result<Arc<dyn Program>, ResolveError> {
        match name == bug.program {
            true => Ok(hawser_load::programs::set(loaded, settings)?),
            false => Ok(hawser_load::programs::resolve_with_on(
                Some(Engine::Interp),
                name,
                settings,
            )?),
        }
    };
    let options = Options { events_max: EVENTS_MAX, ..Options::default() };
    run(&scenario, &resolve, options).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

/// The seed finds the bug, and passes without it.
#[test]
fn rare_planted_bugs_are_found_with_their_seed() {
    let mut checked = 0;
    for (name, bug) in planted() {
        let Some(seed) = bug.seed else { continue };
        assert!(bug.cause.is_some(), "{name} says what it takes");
        assert!(
            !go(&variant(&name, &bug, true), &bug, seed).ok,
            "{name} is not found by seed {seed}"
        );
        let sound = go(&variant(&name, &bug, false), &bug, seed);
        assert!(
            sound.ok,
            "{name}: without the bug seed {seed} fails, too: {sound}"
        );
        checked += 1;
    }
    assert!(checked >= 9, "{checked}");
}

/// Returns the processor time of this thread, which other work on the machine does not lengthen.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Searches for all bugs if the environment asks for it.
#[test]
fn all_planted_bugs_are_found_in_time() {
    let all = planted();
    assert!(all.len() >= 52, "{}", all.len());
    if std::env::var_os("HAWSER_PLANTED").is_none() {
        for (name, bug) in &all {
            variant(name, bug, true);
        }
        return;
    }
    let mut found = 0;
    for (name, bug) in &all {
        let loaded = variant(name, bug, true);
        let began = processor_time();
        let seed = (1..=SEEDS).find(|seed| !go(&loaded, bug, *seed).ok);
        let took = processor_time() - began;
        let in_time = seed.is_some() && took <= SEARCH;
        found += usize::from(in_time);
        let seed = seed.map_or_else(|| "not found".to_owned(), |seed| format!("seed {seed}"));
        println!("{name:<20} {seed:<10} {:>6.2} s", took.as_secs_f64());
    }
    println!(
        "{found} of {} planted bugs found within {SEARCH:?} of processor time each",
        all.len()
    );
    assert!(found * 100 >= GOAL * all.len(), "the goal is {GOAL} %");
}
