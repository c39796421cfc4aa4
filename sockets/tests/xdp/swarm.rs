//! Streams between two ends over a veth pair, under conditions drawn from a seed. At the near end, chains in
//! the kernel run in front of a stack that sleeps. At the far end, faults by the rules of simulated links act
//! on the frames of both directions.
//!
//! As in `hawser sim swarm`, a run has to be safe (all bytes arrive, each once, in order) and live (it ends). If
//! the program supports it, the run also has to be tidy (no connection is left). Unlike there, a seed gives
//! the same conditions but not the same run, because time is real.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use fastrand::Rng;
use hawser_engine::program::Program;
use hawser_load::programs::resolve;
use hawser_sockets::host::{self, DeviceSpec, Faults, StackSetup};
use hawser_sockets::{Endpoint, Handle};

use crate::chains::{self, Handled, Talk};
use crate::on_stage;
use crate::testbed::{KERNEL_END, Medium, TestResult, Testbed, hawser_v4, hawser_v6, named, poll_for, ready};

/// The number of seeds in the tests.
const RUNS: u64 = 16;
/// The number of runs of a program that are enough for some frames to be handled and answered in the kernel.
const ENOUGH: usize = 3;
/// The maximum duration of each step of a run. A corrupted ARP packet, which has no checksum, redirects all
/// packets to a wrong address until the neighbour is resolved again, some 38 seconds later.
const LIMIT: Duration = Duration::from_secs(90);
const PORT: u16 = 80;

/// A program whose chains run in the kernel.
struct Subject {
    name: &'static str,
    /// A built-in program, or a file beside this crate.
    program: &'static str,
    /// Timeouts for a path of less than a millisecond.
    params: &'static [(&'static str, u64)],
    /// True if an end notices that its peer has forgotten the connection, so that no connection is left
    /// behind.
    is_tidy: bool,
}

const MILLISECOND: u64 = 1_000_000;

/// The first and the last are those that the tests before and after these have compiled already.
const SUBJECTS: [Subject; 3] = [
    Subject {
        name: "selective-repeat",
        program: "selective-repeat",
        params: &[("MIN_RTO", 20 * MILLISECOND), ("LINGER", 100 * MILLISECOND)],
        is_tidy: true,
    },
    Subject {
        name: "go-back-n",
        program: concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/go-back-n.mtp"),
        params: &[("RTO", 20 * MILLISECOND)],
        is_tidy: false,
    },
    Subject {
        name: "tcp",
        program: "tcp",
        params: &[
            ("INITIAL_RTO", 50 * MILLISECOND),
            ("MIN_RTO", 20 * MILLISECOND),
            ("MAX_RTO", 1000 * MILLISECOND),
            ("MSL", 50 * MILLISECOND),
        ],
        is_tidy: true,
    },
];

/// The two ends of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PairEnd {
    Near,
    Far,
}

impl PairEnd {
    fn other(self) -> PairEnd {
        match self {
            PairEnd::Near => PairEnd::Far,
            PairEnd::Far => PairEnd::Near,
        }
    }
}

/// The conditions drawn from a seed.
#[derive(Debug)]
struct Plan {
    seed: u64,
    /// The index in [`SUBJECTS`].
    subject: usize,
    is_v6: bool,
    connects: PairEnd,
    /// The end whose directions end after the other's, if any.
    ends_last: Option<PairEnd>,
    connections: usize,
    /// The numbers of bytes that each connection carries from the near end and from the far one.
    lens: [usize; 2],
    /// The average number of pieces between two pauses, at the near end and at the far one; 0 for no pauses.
    pauses: [u64; 2],
    /// The rules of faults, if there are any.
    faults: Option<String>,
}

impl Plan {
    fn draw(seed: u64) -> Plan {
        let rng = &mut Rng::with_seed(seed);
        let either = |rng: &mut Rng| if rng.bool() { PairEnd::Near } else { PairEnd::Far };
        Plan {
            seed,
            subject: rng.usize(..SUBJECTS.len()),
            is_v6: rng.bool(),
            connects: either(rng),
            ends_last: (rng.u8(..3) > 0).then(|| either(rng)),
            connections: rng.usize(1..=4),
            lens: [0; 2].map(|_| {
                let bits = rng.u32(..=18);
                rng.usize(..1 << bits)
            }),
            pauses: [0; 2].map(|_| [0, 1, 4, 16][rng.usize(..4)]),
            faults: (rng.u8(..8) > 0).then(|| faults(rng)),
        }
    }

    fn subject(&self) -> &'static Subject {
        &SUBJECTS[self.subject]
    }

    fn address(&self, end: PairEnd) -> IpAddr {
        match (end, self.is_v6) {
            (PairEnd::Near, false) => hawser_v4(),
            (PairEnd::Near, true) => hawser_v6(),
            (PairEnd::Far, false) => far_v4(),
            (PairEnd::Far, true) => far_v6(),
        }
    }

    /// Returns the numbers of bytes that an end sends and receives.
    fn lens_of(&self, end: PairEnd) -> [usize; 2] {
        [self.lens[end as usize], self.lens[end.other() as usize]]
    }

    /// Returns pauses of up to a millisecond behind some pieces.
    fn pauses(&self, end: PairEnd) -> impl FnMut() -> Duration + use<> {
        let mut rng = Rng::with_seed(self.seed ^ end as u64);
        let often = self.pauses[end as usize];
        move || match often > 0 && rng.u64(..often) == 0 {
            true => Duration::from_micros(rng.u64(..1000)),
            false => Duration::ZERO,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [near, far] = self.lens;
        write!(
            f,
            "{} over IPv{}, {} from {:?}, {near} bytes from near and {far} from far, pauses {:?}, last to end {:?}, \
             faults {}",
            self.subject().name,
            if self.is_v6 { 6 } else { 4 },
            self.connections,
            self.connects,
            self.pauses,
            self.ends_last,
            self.faults.as_deref().unwrap_or("none"),
        )
    }
}

/// Returns rules of a link in the form of `--faults`; they hold for each direction.
fn faults(rng: &mut Rng) -> String {
    let mut rules = format!(
        "delay={}us,jitter={}us,hold={}us",
        rng.u32(..500),
        rng.u32(..200),
        rng.u32(..5000)
    );
    for (rule, often, max) in [
        ("loss", 0.7, 0.1),
        ("duplicate", 0.4, 0.1),
        ("reorder", 0.4, 0.2),
        ("corrupt", 0.4, 0.02),
    ] {
        if rng.f64() < often {
            rules += &format!(",{rule}={:.4}", rng.f64() * max);
        }
    }
    if rng.u8(..4) == 0 {
        rules += &format!(",burst={}", rng.u8(2..=4));
    }
    rules
}

/// Returns the address of the far end, beside Linux, which has its own there.
pub(crate) fn far_v4() -> IpAddr {
    IpAddr::from([10, 9, 0, 3])
}

fn far_v6() -> IpAddr {
    IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 3])
}

pub(crate) fn streams_through_random_faults_are_whole(_: &Testbed) -> TestResult {
    run(1, RUNS)
}

/// Runs any other number of seeds, as `--runs` and `--first` state.
pub(crate) fn long(arguments: &[&str]) -> ExitCode {
    let (mut first, mut runs) = (1, 200);
    for pair in arguments.chunks(2) {
        match (pair[0], pair.get(1).and_then(|value| value.parse().ok())) {
            ("--runs", Some(number)) => runs = number,
            ("--first", Some(number)) => first = number,
            _ => {
                println!("usage: swarm [--runs N] [--first SEED]");
                return ExitCode::from(2);
            }
        }
    }
    match on_stage(Medium::Xdp, |_| run(first, runs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs seeds in an order by program, because a process keeps only the last result of clang.
fn run(first: u64, runs: u64) -> TestResult {
    let mut plans: Vec<Plan> = (first..first.saturating_add(runs)).map(Plan::draw).collect();
    plans.sort_by_key(|plan| plan.subject);
    for plans in plans.chunk_by(|a, b| a.subject == b.subject) {
        let subject = plans[0].subject();
        let program = resolve(subject.program, &named(subject.params))?;
        let (mut handled, mut answered) = (0, 0);
        for plan in plans {
            let (seed, counts) = (plan.seed, Handled::default());
            carry_out(plan, &program, &counts).map_err(|error| {
                format!(
                    "seed {seed} failed: {error}\n{plan}\nrepeat it with: cargo xtask long swarm-veth -- --first {seed} \
                     --runs 1"
                )
            })?;
            let counts = counts.counts();
            (handled, answered) = (handled + counts[0], answered + counts[1]);
        }
        let (name, runs) = (subject.name, plans.len());
        println!("{name}: {runs} runs, {handled} frames handled in the kernel, {answered} answered there");
        if runs >= ENOUGH && (handled == 0 || answered == 0) {
            return Err(format!("{name} ran without its chains in the kernel").into());
        }
    }
    println!("{runs} runs: safe, live and tidy");
    Ok(())
}

/// Puts a stack at each end, and lets them exchange data.
fn carry_out(plan: &Plan, program: &Arc<dyn Program>, counts: &Handled) -> TestResult {
    let near = chains::endpoint(program.clone(), plan.seed, counts)?;
    let mut setup = StackSetup::new(DeviceSpec::Packet(KERNEL_END.to_owned()), (far_v4(), 24));
    setup.addresses.push((far_v6(), 64));
    if let Some(rules) = &plan.faults {
        setup.faults = Some(rules.parse::<Faults>()?.with_seed(plan.seed));
    }
    let far = host::open(program.clone(), &setup)?;
    let mut ends = [(PairEnd::Near, near), (PairEnd::Far, far)];
    // The listener is opened before any end connects.
    let (listening, endpoint) = &mut ends[plan.connects.other() as usize];
    let listener = endpoint.listen(SocketAddr::new(plan.address(*listening), PORT), 16)?;
    let met = AtomicUsize::new(0);
    thread::scope(|scope| {
        let talk = |(end, endpoint)| {
            let met = &met;
            let listener = (end != plan.connects).then_some(listener);
            (
                end,
                scope.spawn(move || be_one_end(plan, end, endpoint, listener, met)),
            )
        };
        let failures: Vec<String> = ends.map(talk).into_iter().filter_map(failure).collect();
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures.join("; ").into())
        }
    })
}

fn failure((end, thread): (PairEnd, ScopedJoinHandle<'_, TestResult>)) -> Option<String> {
    match thread.join() {
        Ok(result) => Some(format!("at the {end:?} end, {}", result.err()?)),
        Err(_) => Some(format!("the {end:?} end panicked")),
    }
}

/// Opens the connections, sends and receives on them, and stays until the other end no longer needs it.
fn be_one_end(
    plan: &Plan,
    end: PairEnd,
    mut endpoint: Endpoint,
    listener: Option<Handle>,
    met: &AtomicUsize,
) -> TestResult {
    let endpoint = &mut endpoint;
    let mut talks = match listener {
        Some(listener) => accept(plan, endpoint, listener)?,
        None => connect(plan, endpoint)?,
    };
    for one in &mut talks {
        one.ends_last = plan.ends_last == Some(end);
    }
    chains::talk(endpoint, &mut talks, LIMIT, plan.pauses(end))?;
    for one in &talks {
        endpoint.close(one.connection);
    }
    let meet = |endpoint: &mut Endpoint, ends| {
        met.fetch_add(1, Ordering::AcqRel);
        poll_for(endpoint, LIMIT, "the end of the other end's streams", |_| {
            Ok((met.load(Ordering::Acquire) >= ends).then_some(()))
        })
    };
    meet(endpoint, 2)?;
    if plan.subject().is_tidy {
        let left = usize::from(listener.is_some());
        poll_for(endpoint, LIMIT, "the end of all connections", |e| {
            Ok((e.contexts() == left).then_some(()))
        })?;
    }
    meet(endpoint, 4)
}

fn connect(plan: &Plan, endpoint: &mut Endpoint) -> TestResult<Vec<Talk>> {
    let own = plan.connects;
    let at = SocketAddr::new(plan.address(own.other()), PORT);
    let mut talks = Vec::new();
    for _ in 0..plan.connections {
        let connection = endpoint.connect(at)?;
        talks.push(Talk::connected(endpoint, connection, plan.lens_of(own))?);
    }
    poll_for(endpoint, LIMIT, "the connections", |e| {
        for one in &talks {
            if !e.connected(one.connection)? {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })?;
    Ok(talks)
}

fn accept(plan: &Plan, endpoint: &mut Endpoint, listener: Handle) -> TestResult<Vec<Talk>> {
    let own = plan.connects.other();
    let mut talks = Vec::new();
    poll_for(endpoint, LIMIT, "the connections", |e| {
        while let Some(connection) = ready(e.accept(listener))? {
            talks.push(Talk::accepted(e, connection, plan.lens_of(own))?);
        }
        Ok((talks.len() == plan.connections).then_some(()))
    })?;
    Ok(talks)
}
