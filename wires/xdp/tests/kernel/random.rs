//! Random programs in the kernel: they do the same as in the interpreter.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use hawser_equality::compile::{self, Printed};
use hawser_equality::trial::{EVENTS, Trial};
use hawser_testing::TestResult;

use crate::side::Kernel;

/// The number of programs in the tests, each with fifty events and those that they raise.
const PROGRAMS: u64 = 200;
/// Seeds of programs that once failed. One inserts an absent element into a sorted list, which gets zeros
/// instead of the initial values of its elements. The other divides a small number, which clang 14 treats as
/// signed.
const FAILED_ONCE: [u64; 2] = [1395, 4276];
/// The minimum share of all chains and of all events that runs in the kernel, in percent.
const MIN_PERCENT: u64 = 99;

/// Constructs that clang 14 or the verifier once rejected: leading zeros of a narrow number, bitwise roots
/// and quotients, and a hash. Others are a constant at a computed index, such a constant beside a field, and
/// a range that is split in two.
const REFUSED_ONCE: &str = "
const uint64 TABLE[4] = {3, 9, 27, 81};
const uint64 PRIMES[5] = {2, 3, 5, 7, 11};
event leading : EVENT { uint17 narrow; uint64 wide; }
event root : EVENT { uint64 value; }
event quotient : EVENT { int64 a; int64 b; int64 c; }
event hash : EVENT { uint64 value; bytes<13> text; }
event item : EVENT { uint32 index; bool is_own; uint64 own; }
event split : EVENT { uint32 from; uint32 to; uint32 gap; }
context sum { uint64 total; sliding_wnd<4, uint32> window; }
void zeros(leading ev, sum s) { s.total += clz(ev.narrow) + TABLE[clz(ev.wide)]; }
void roots(root ev, sum s) {
    uint64 square = sqrt(ev.value);
    uint64 cube = cbrt(ev.value);
    s.total += square + TABLE[square] + cube + TABLE[cube];
}
void quotients(quotient ev, sum s) {
    int64 found = mul_div(ev.a, ev.b, ev.c);
    s.total += uint64(found) + TABLE[found];
}
void hashes(hash ev, sum s) {
    uint64 found = keyed_hash(1, 7, ev.value, ev.text);
    s.total += found + TABLE[found];
}
void items(item ev, sum s) {
    s.total = ev.is_own ? ev.own : TABLE[ev.index];
    s.total += PRIMES[ev.index % PRIMES.len];
}
void splits(split ev, sum s) {
    bool was_set = s.window.set(ev.from, ev.to);
    if (was_set) s.window.unset(ev.gap, ev.gap + 3);
}
dispatch table {
    leading -> {zeros};
    root -> {roots};
    quotient -> {quotients};
    hash -> {hashes};
    item -> {items};
    split -> {splits};
}
deploy { register_ep_chains(table); register_ctx_spec(sum, GLOBAL); }
";

/// The results of some programs.
#[derive(Default)]
struct Tally {
    programs: u64,
    chains: u64,
    /// Chains that exceed the verifier's limits: the seed, the event, the verifier's message.
    refused: Vec<String>,
    /// The number of events in the kernel, and of events outside because their chain was rejected.
    ran: u64,
    missed: u64,
    /// Programs that are rejected for another reason, or behave differently: bugs of ours.
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.programs += other.programs;
        self.chains += other.chains;
        self.ran += other.ran;
        self.missed += other.missed;
        self.refused.extend(other.refused);
        self.failures.extend(other.failures);
    }

    /// Prints the results; returns an error if a program failed, or too few events ran in the kernel.
    fn judge(self) -> TestResult {
        let refused = self.refused.len() as u64;
        for text in self.refused.iter().chain(&self.failures) {
            println!("{text}");
        }
        println!(
            "{} programs, {} differ; of {} chains the verifier refused {refused}; {} events ran in the kernel, {} did not",
            self.programs,
            self.failures.len(),
            self.chains,
            self.ran,
            self.missed,
        );
        if let Some(first) = self.failures.first() {
            return Err(format!("{} programs differ, the first: {first}", self.failures.len()).into());
        }
        let enough = |part, all| part * 100 >= all * MIN_PERCENT;
        if !enough(self.chains - refused, self.chains) || !enough(self.ran, self.ran + self.missed) {
            return Err(
                format!("less than {MIN_PERCENT} % of the chains or events ran in the kernel").into(),
            );
        }
        Ok(())
    }
}

pub(crate) fn random_programs_do_the_same_in_the_kernel() -> TestResult {
    run(1, PROGRAMS).judge()?;
    FAILED_ONCE.iter().try_for_each(|seed| run(*seed, 1).judge())
}

pub(crate) fn programs_once_refused_run_in_the_kernel() -> TestResult {
    let mut tally = Tally::default();
    for seed in 1..=5 {
        one(
            compile::printed("refused_once", REFUSED_ONCE.to_owned())?,
            seed,
            &mut tally,
        )?;
    }
    assert_eq!(
        (tally.chains, &tally.refused[..], tally.missed),
        (6 * 5, &[][..], 0)
    );
    Ok(())
}

/// Runs any other number of programs, as given by `--programs` and `--first`.
pub(crate) fn long(arguments: &[&str]) -> ExitCode {
    let (mut first, mut programs) = (1, PROGRAMS);
    for pair in arguments.chunks(2) {
        match (pair[0], pair.get(1).and_then(|value| value.parse().ok())) {
            ("--programs", Some(number)) => programs = number,
            ("--first", Some(number)) => first = number,
            _ => {
                println!("usage: random [--programs N] [--first SEED]");
                return ExitCode::from(2);
            }
        }
    }
    match run(first, programs).judge() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs on all processors, because clang takes most of the time.
fn run(first: u64, programs: u64) -> Tally {
    let next = AtomicU64::new(first);
    let worker = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + programs {
                return tally;
            }
            tally.programs += 1;
            let compared = compile::generated(seed)
                .map_err(Into::into)
                .and_then(|printed| one(printed, seed, &mut tally));
            if let Err(error) = compared {
                tally.failures.push(format!("seed {seed}: {error}"));
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut all = Tally::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        for thread in threads {
            match thread.join() {
                Ok(tally) => all.add(tally),
                Err(_) => all.failures.push("a worker panicked".to_owned()),
            }
        }
    });
    all
}

/// Runs one program with the events of a seed.
fn one(printed: Printed, seed: u64, tally: &mut Tally) -> TestResult {
    let kernel = Kernel::load(&printed.module, &printed.interpreter)?;
    let (refused, chains) = kernel.refused();
    tally.chains += chains as u64;
    for refusal in refused {
        let text = format!("{}: {}", refusal.event, refusal.reason);
        if !refusal.is_for_size() {
            return Err(text.into());
        }
        tally.refused.push(format!("seed {seed}, {text}"));
    }
    let mut trial = Trial::new(&printed.module, &printed.interpreter, &kernel, seed);
    for event in 0..EVENTS {
        trial
            .event(&mut |_, _, _, _| ())
            .map_err(|text| format!("event {event}: {text}"))?;
    }
    tally.ran += kernel.ran.get();
    tally.missed += kernel.missed.get();
    Ok(())
}
