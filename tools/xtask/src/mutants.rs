//! `cargo xtask mutants`: measures how many errors in a program its tests detect.
//!
//! Each atomic condition of `transports/tcp/*.mtp` is negated in turn, in a copy of the program. A mutant is
//! killed when one of the program's killers fails on it, and survives when all pass. A mutant that the
//! checker rejects is not counted. The score has to reach [`GOAL`].
//!
//! `--program homa`, `ndp`, `quic-lite` and `roce` take these in place of TCP. `--sample N` takes N mutants
//! spread over the program; each `--seed` takes another N. Without it, all mutants are tried, or with `--file
//! NAME` those of one file.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hawser_runs::mutations::MutationKind;
use parking_lot::Mutex;

/// The percentage of mutants that have to be killed.
const GOAL: usize = 80;

/// The processor time, in seconds, after which a killer is taken to loop for ever, so that its mutant is
/// killed. Unlike wall-clock time, it does not depend on the load of the machine.
const PROCESSOR_SECONDS: u32 = 20;

/// The wall-clock time after which a killer is taken to wait for an event that does not come.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The number of mutants tried at the same time.
const WORKERS: usize = 2;

/// The name of a killer and its command line for a shell. A subject lists the quickest killer first, and tests
/// that take seconds last or not at all. `$PROGRAM` is the mutant's main file, `$FOLDER` its folder, and the
/// variables of [`MutatedProgram::tests`] are test programs of engine/load.
type Killer = (&'static str, &'static str);

/// A program whose mutants are tried.
struct MutatedProgram {
    /// The program's name. Its folder is in `transports/` and holds its main file.
    name: &'static str,
    /// The files and folders, besides its own sources, that it imports or that its killers read.
    beside: &'static [&'static str],
    /// The environment variable that passes a mutant to the tests.
    variable: &'static str,
    /// Variables of command lines, and the test programs that they name.
    tests: &'static [(&'static str, &'static str)],
    killers: &'static [Killer],
}

impl MutatedProgram {
    fn folder(&self) -> String {
        format!("transports/{}", self.name)
    }
}

const SUBJECTS: &[MutatedProgram] = &[
    MutatedProgram {
        name: "tcp",
        beside: &["script.toml", "swarm.args"],
        variable: "HAWSER_TCP",
        tests: &[("TESTS", "tcp_interp"), ("FAST", "fast")],
        killers: &[
            (
                "scripts",
                "exec target/debug/hawser script --program \"$PROGRAM\" transports/tcp/scripts",
            ),
            SWARM,
            ("fast", "exec \"$FAST\" -q interpreted"),
            (
                "tests",
                "exec \"$TESTS\" -q --test-threads 1 --skip attacks:: --skip long_stream:: --skip bottleneck:: \
                 --skip receive::the_window_grows",
            ),
            ("windows", "exec \"$TESTS\" -q receive::the_window_grows"),
            ("bottlenecks", "exec \"$TESTS\" -q --test-threads 1 bottleneck::"),
        ],
    },
    MutatedProgram {
        name: "homa",
        beside: &["swarm.args", "steps"],
        variable: "HAWSER_HOMA",
        tests: &[("TESTS", "homa")],
        killers: &[STEPS, RULES, SWARM],
    },
    MutatedProgram {
        name: "ndp",
        beside: &["swarm.args", "steps"],
        variable: "HAWSER_NDP",
        tests: &[("TESTS", "ndp")],
        killers: &[STEPS, RULES, SWARM],
    },
    MutatedProgram {
        name: "quic-lite",
        beside: &["swarm.args", "steps", "../tcp"],
        variable: "HAWSER_QUIC_LITE",
        tests: &[("TESTS", "two_stacks")],
        killers: &[
            STEPS,
            SWARM,
            (
                "streams",
                "exec \"$TESTS\" -q quic_lite::giving_up quic_lite::both_ends",
            ),
        ],
    },
    MutatedProgram {
        name: "roce",
        beside: &["swarm.args", "steps"],
        variable: "HAWSER_ROCE",
        tests: &[],
        killers: &[STEPS, SWARM, SELECTIVE],
    },
];

/// The first seeds of the swarm of RoCE's selective-repeat variant, whose file replaces `go_back.mtp`.
const SELECTIVE: Killer = (
    "selective repeat",
    "mkdir \"$FOLDER/irn\" && cp \"$FOLDER\"/*.mtp \"$FOLDER/irn\" && \
     mv \"$FOLDER/irn/selective.mtp\" \"$FOLDER/irn/go_back.mtp\" && \
     exec target/debug/hawser sim swarm \"$FOLDER/irn/roce.mtp\" --runs 12 --no-shrink \
     --save \"$FOLDER/failure.toml\" $(cat \"$FOLDER/swarm.args\")",
);

/// The step files of a program.
const STEPS: Killer = ("steps", "exec target/debug/hawser test \"$FOLDER/steps\"");

/// The rules of a program of calls, each against a peer that the test plays.
const RULES: Killer = (
    "rules",
    "exec \"$TESTS\" -q --test-threads 1 --skip requests_that_only_begin rules:: silence:: path:: ends::",
);
/// The first seeds of a program's swarm.
const SWARM: Killer = (
    "swarm",
    "exec target/debug/hawser sim swarm \"$PROGRAM\" --runs 12 --no-shrink --save \"$FOLDER/failure.toml\" \
     $(cat \"$FOLDER/swarm.args\")",
);

struct Mutant {
    /// The file's name in the program's folder.
    file: String,
    /// The change in that file.
    change: hawser_runs::mutations::Mutant,
}

/// The result for one mutant.
enum MutantOutcome {
    /// A killer, named here, failed on it.
    Killed(&'static str),
    Survived,
    /// The checker rejected it.
    Stillborn,
}

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let (root, subject) = (crate::root(), options.subject);
    let mut all = mutants(&root.join(subject.folder()))?;
    if let Some(file) = &options.file {
        all.retain(|mutant| mutant.file == *file);
    }
    let chosen = choose(&all, &options);
    println!(
        "{} conditions in {}; {} are negated, one at a time",
        all.len(),
        subject.folder(),
        chosen.len()
    );
    let tests = tests(&root, subject)?;
    let trial = Trial { root: &root, subject, tests };
    trial.unchanged_passes()?;
    let fates = trial.all(&chosen);
    report(subject, &chosen, &fates)
}

struct Options {
    subject: &'static MutatedProgram,
    sample: Option<usize>,
    seed: usize,
    file: Option<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let usage = "usage: cargo xtask mutants [--program tcp|homa|ndp|quic-lite|roce] [--sample N] [--seed N] [--file NAME]";
        let number = |value: &str| value.parse().map_err(|_| usage.to_owned());
        let mut options = Options { subject: &SUBJECTS[0], sample: None, seed: 0, file: None };
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let value = rest.next().ok_or(usage)?;
            match word.as_str() {
                "--program" => {
                    let named = SUBJECTS.iter().find(|subject| subject.name == value);
                    options.subject = named.ok_or(usage)?;
                }
                "--sample" => options.sample = Some(number(value)?),
                "--seed" => options.seed = number(value)?,
                "--file" => options.file = Some(value.clone()),
                _ => return Err(usage.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Returns every mutant of the program in a folder.
fn mutants(folder: &Path) -> Result<Vec<Mutant>, String> {
    let mut all = Vec::new();
    for name in sources(folder)? {
        let text = read(&folder.join(&name))?;
        let of_file = hawser_runs::mutations::mutants(&text, &[MutationKind::Negate]).into_iter();
        all.extend(of_file.map(|change| Mutant { file: name.clone(), change }));
    }
    Ok(all)
}

/// Returns the names of the `.mtp` files in a folder, in order.
fn sources(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = entries
        .filter_map(name)
        .filter(|name| name.ends_with(".mtp"))
        .collect();
    names.sort();
    Ok(names)
}

/// Chooses the mutants to try. A sample takes every k-th mutant, so that every file has its share; the seed
/// shifts the start.
fn choose<'a>(all: &'a [Mutant], options: &Options) -> Vec<&'a Mutant> {
    match options.sample {
        Some(n) if n > 0 && n < all.len() => {
            let at = |i: usize| (i * all.len() + options.seed * 7) / n;
            (0..n).map(|i| &all[at(i) % all.len()]).collect()
        }
        _ => all.iter().collect(),
    }
}

/// Builds the programs that the killers run, and returns the test programs, each with its variable.
fn tests(root: &Path, subject: &MutatedProgram) -> Result<Vec<(&'static str, String)>, String> {
    // The build takes the packages and features of the phase `build` of scripts/phases. Another choice would
    // rebuild and replace programs that other phases run.
    let features = output(root, &mut Command::new("scripts/features"))?;
    let whole = ["--workspace", "-q"]
        .into_iter()
        .chain(features.split_whitespace());
    output(
        root,
        Command::new("cargo")
            .args(["build", "--all-targets"])
            .args(whole.clone()),
    )?;
    let messages = output(
        root,
        Command::new("cargo")
            .args(["test", "--no-run", "--message-format", "json"])
            .args(whole),
    )?;
    let executable = |name: &str| {
        messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|message| message["target"]["name"] == name)
            .filter(|message| message["target"]["kind"] == serde_json::json!(["test"]))
            .find_map(|message| message["executable"].as_str().map(str::to_owned))
            .ok_or_else(|| {
                format!(
                    "cargo did not report the location of the tests of \
                                    engine/load/tests/{name}"
                )
            })
    };
    let tests = subject.tests.iter();
    tests
        .map(|(variable, name)| Ok((*variable, executable(name)?)))
        .collect()
}

/// Returns the output of a command, or an error if the command fails.
fn output(root: &Path, command: &mut Command) -> Result<String, String> {
    let output = command
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The data that all mutants share.
struct Trial<'a> {
    root: &'a Path,
    subject: &'static MutatedProgram,
    tests: Vec<(&'static str, String)>,
}

impl Trial<'_> {
    /// Checks that every killer passes on the unchanged program. A killer that fails there would kill every
    /// mutant.
    fn unchanged_passes(&self) -> Result<(), String> {
        let copy = Copy::new(self.root, self.subject, "unchanged", None)?;
        match self.fate(&copy) {
            MutantOutcome::Survived => Ok(()),
            MutantOutcome::Killed(name) => Err(format!(
                "the unchanged program does not pass `{name}`: correct that first"
            )),
            MutantOutcome::Stillborn => Err("the unchanged program does not pass the checker".to_owned()),
        }
    }

    /// Tries the mutants, [`WORKERS`] at a time, and returns their fates in the order of the mutants.
    fn all(&self, mutants: &[&Mutant]) -> Vec<MutantOutcome> {
        let next = AtomicUsize::new(0);
        let fates: Mutex<Vec<(usize, MutantOutcome)>> = Mutex::new(Vec::new());
        let work = |worker: usize| {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(mutant) = mutants.get(i) else { return };
                let copy = Copy::new(self.root, self.subject, &worker.to_string(), Some(mutant));
                let fate = match copy {
                    Ok(copy) => self.fate(&copy),
                    Err(error) => {
                        eprintln!("{error}");
                        MutantOutcome::Stillborn
                    }
                };
                if let MutantOutcome::Survived = fate {
                    println!(
                        "survived: {}/{}:{}: !({})",
                        self.subject.folder(),
                        mutant.file,
                        mutant.change.line,
                        mutant.change.was
                    );
                }
                fates.lock().push((i, fate));
            }
        };
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let work = &work;
                scope.spawn(move || work(worker));
            }
        });
        let mut fates = fates.into_inner();
        fates.sort_by_key(|(i, _)| *i);
        fates.into_iter().map(|(_, fate)| fate).collect()
    }

    /// Runs the killers in turn until one fails.
    fn fate(&self, copy: &Copy) -> MutantOutcome {
        if hawser_driver::compile(&copy.main).failed() {
            return MutantOutcome::Stillborn;
        }
        for (name, command) in self.subject.killers {
            let child = Command::new("sh")
                .args(["-c", &format!("ulimit -t {PROCESSOR_SECONDS}; {command}")])
                .env("PROGRAM", &copy.main)
                .env("FOLDER", &copy.folder)
                .envs(self.tests.iter().map(|(variable, program)| (variable, program)))
                .env(self.subject.variable, &copy.main)
                .current_dir(self.root)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            match child {
                Ok(child) => {
                    if !passes(child) {
                        return MutantOutcome::Killed(name);
                    }
                }
                Err(error) => {
                    eprintln!("cannot start a shell: {error}");
                    return MutantOutcome::Stillborn;
                }
            }
        }
        MutantOutcome::Survived
    }
}

/// A copy of the program in `target/mutants/`.
struct Copy {
    folder: PathBuf,
    main: PathBuf,
}

impl Copy {
    /// Copies the program, with one condition negated if a mutant is given.
    fn new(
        root: &Path,
        subject: &MutatedProgram,
        name: &str,
        mutant: Option<&Mutant>,
    ) -> Result<Copy, String> {
        let from = root.join(subject.folder());
        // Files left there by another program or revision would be tried too.
        let folder = root.join("target/mutants").join(subject.name).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for file in subject.beside {
            copy(&from.join(file), &folder.join(file))
                .map_err(|e| format!("{}/{file}: {e}", from.display()))?;
        }
        for source in sources(&from)? {
            let mut text = read(&from.join(&source))?;
            if let Some(mutant) = mutant.filter(|mutant| mutant.file == source) {
                text = mutant.change.applied(&text);
            }
            let to = folder.join(&source);
            std::fs::write(&to, text).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        let main = folder.join(format!("{}.mtp", subject.name));
        Ok(Copy { folder, main })
    }
}

/// Returns whether a command succeeds in time.
fn passes(mut child: Child) -> bool {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begin.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Counts the fates, and compares the score with the goal.
fn report(subject: &MutatedProgram, mutants: &[&Mutant], fates: &[MutantOutcome]) -> Result<(), String> {
    let born = fates
        .iter()
        .filter(|fate| !matches!(fate, MutantOutcome::Stillborn))
        .count();
    let killed = fates
        .iter()
        .filter(|fate| matches!(fate, MutantOutcome::Killed(_)))
        .count();
    for (name, _) in subject.killers {
        let by = fates
            .iter()
            .filter(|fate| matches!(fate, MutantOutcome::Killed(by) if by == name))
            .count();
        println!("{by:>5} killed by {name}");
    }
    println!("{:>5} survived", born - killed);
    println!("{:>5} rejected by the checker", mutants.len() - born);
    let score = (killed * 100).checked_div(born).unwrap_or(0);
    println!("{killed} of {born} mutants killed: {score} %");
    if score < GOAL {
        Err(format!("the goal is {GOAL} %"))
    } else {
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
/// Copies a file, or a folder with its files. Several mutants may write the same destination at once, so a
/// file is complete at any time.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        std::fs::create_dir_all(to)?;
        let mut files = std::fs::read_dir(from)?
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_file());
        return files.try_for_each(|file| copy(&file.path(), &to.join(file.file_name())));
    }
    let whole = to.with_extension(format!("{:?}", std::thread::current().id()));
    std::fs::copy(from, &whole)?;
    std::fs::rename(whole, to)
}
