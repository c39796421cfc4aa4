//! Two hosts and the links between them, on the event core of `hawser-sim`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use hawser_engine::wire::{Medium, Nanos};
use hawser_race::Profile;
use hawser_session::scheduler::Scheduler;
use hawser_session::{Candidate, CarrierId, Config, Counters, Notice, PathReport};
use hawser_sim::pcap;
use hawser_sim::world::{Change, End, World as Core};

use crate::link::{Fault, Link};
use crate::node::{Host, START, Shared, Side};
use crate::transfer::{Progress, Transfer};

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Path `n` of the session is link `n`.
    pub links: Vec<Link>,
    /// Round trips until a carrier on the link of the same number can be used: 1 for QUIC, 2 for TCP
    /// with TLS 1.3.
    pub handshakes: Vec<u32>,
    /// Bytes of the server's flight of the handshake: its certificates above all.
    pub flight: usize,
    /// Both sides' sessions. The client's candidates: one for each link if there are none.
    pub session: Config,
    /// The rules of a race of all links for the session's first carrier; none: its candidate says which.
    pub race: Option<Profile>,
    /// What happens to which link, and when.
    pub faults: Vec<(Duration, usize, Fault)>,
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The run ends then, done or not.
    pub until: Duration,
}

impl WorldConfig {
    /// Links, handshakes of two round trips, the default session; nothing to do and no fault yet.
    pub fn new(links: Vec<Link>) -> Self {
        Self {
            handshakes: vec![2; links.len()],
            flight: 2_500,
            links,
            session: Config::default(),
            race: None,
            faults: Vec::new(),
            transfers: Vec::new(),
            seed: 1,
            until: Duration::from_secs(600),
        }
    }

    /// The same with a transfer that begins at once and is read as fast as it comes.
    pub fn transfer(mut self, from: Side, bytes: u64) -> Self {
        self.transfers.push(Transfer {
            from,
            bytes,
            at: Duration::ZERO,
            read_rate: 0,
        });
        self
    }

    /// The same with a fault.
    pub fn fault(mut self, at: Duration, link: usize, fault: Fault) -> Self {
        self.faults.push((at, link, fault));
        self
    }

    /// Runs it with the scheduler of that name on both sides.
    ///
    /// # Panics
    ///
    /// When there is no such scheduler.
    pub fn run(self, scheduler: &str) -> Report {
        let name = scheduler.to_owned();
        World::new(self, move || {
            hawser_session::scheduler::by_name(&name).expect("a scheduler's name")
        })
        .run()
    }
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every transfer arrived, each byte right, and the session closed.
    pub done: bool,
    /// When the end of each transfer was read.
    pub finished: Vec<Option<Duration>>,
    /// For each transfer: when a read was followed by none for 5 ms or more, and until when.
    pub gaps: Vec<Vec<(Duration, Duration)>>,
    /// Which carriers were asked for: when, number, candidate.
    pub connects: Vec<(Duration, CarrierId, usize)>,
    /// Which links the race attempted, and when.
    pub attempts: Vec<(Duration, usize)>,
    /// Which segments of data left: when, from where, on which carrier, at which offset, how long.
    pub sent: Vec<(Duration, Side, CarrierId, u64, usize)>,
    /// Links that were cut while a carrier was on them.
    pub cuts: Vec<Cut>,
    /// When the session ended for the client, if it did.
    pub closed_at: Option<Duration>,
    /// What went wrong: a wrong byte, a stream that ended early. Empty in a good run.
    pub faults: Vec<String>,
    /// The client's and the server's counts.
    pub counters: [Counters; 2],
    /// The carriers of the client at the end.
    pub paths: Vec<PathReport>,
    /// The event core's hash of every frame and every segment, when and where: two runs of one seed have
    /// the same.
    pub trace: u64,
    /// Payload bytes that each link carried, both ways, per tenth of a second.
    pub carried: Vec<BTreeMap<u64, u64>>,
    /// What applications were notified of, in order.
    pub notices: Vec<(Duration, Side, Notice)>,
    pub(crate) all_read: bool,
}

/// A link was cut with a carrier on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// When.
    pub at: Duration,
    /// Which link.
    pub link: usize,
    /// The carrier.
    pub carrier: CarrierId,
    /// For how long the carrier's transport may be silent at that moment before it is suspected: the
    /// client's, and the server's.
    pub probe_timeout: [Duration; 2],
}

/// Two hosts, links, a session.
pub struct World {
    core: Core<Host>,
    shared: Rc<RefCell<Shared>>,
}

/// More frames without a byte read than any sensible run has.
const IDLE_FRAMES: u64 = 500_000;

fn nanos(at: Duration) -> Nanos {
    START + at.as_nanos() as Nanos
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(mut config: WorldConfig, scheduler: impl Fn() -> Box<dyn Scheduler> + 'static) -> Self {
        if config.session.candidates.is_empty() {
            config.session.candidates = (0..config.links.len() as u32).map(Candidate::new).collect();
        }
        config.faults.sort_by_key(|(at, ..)| *at);
        let mut core = Core::new(START);
        core.limit_idle(IDLE_FRAMES);
        let progress = config.transfers.iter().enumerate();
        let progress = progress
            .map(|(number, transfer)| Progress::new(number, *transfer))
            .collect();
        let report = Report {
            carried: vec![BTreeMap::new(); config.links.len()],
            ..Report::default()
        };
        let shared = Rc::new(RefCell::new(Shared {
            config,
            progress,
            report,
        }));
        let make_scheduler = Rc::new(scheduler) as Rc<dyn Fn() -> Box<dyn Scheduler>>;
        for side in [Side::Client, Side::Server] {
            core.add(Host::new(side, &shared, &make_scheduler));
        }
        join(&mut core, &shared.borrow().config);
        Self { core, shared }
    }

    /// Writes every packet that a host sends to a capture (pcap), before the links touch it.
    ///
    /// # Errors
    /// When the capture's header cannot be written.
    pub fn capture(&mut self, out: Box<dyn Write>) -> io::Result<()> {
        self.core.capture(pcap::Writer::new(out, Medium::Ip, 0)?);
        Ok(())
    }

    /// Runs until everything is done, or the configured end.
    pub fn run(mut self) -> Report {
        let until = nanos(self.shared.borrow().config.until);
        let end = self.core.run(until, Host::is_closed, |_| {});
        let trace = self.core.trace().hash();
        let captured = self.core.finish_capture();
        let sessions = [0, 1].map(|side| self.core.node(side).session());
        let Shared { report, progress, .. } = &mut *self.shared.borrow_mut();
        match end {
            End::Met | End::Time | End::Idle => {}
            End::Stalled | End::NoProgress => report.faults.push(format!("the run ended early: {end:?}")),
        }
        report
            .faults
            .extend(captured.err().map(|error| format!("the capture: {error}")));
        report.done = report.all_read && report.faults.is_empty();
        report.trace = trace;
        report.finished = progress.iter().map(|progress| progress.finished).collect();
        report.gaps = progress.iter().map(|progress| progress.gaps.clone()).collect();
        report.counters =
            sessions.map(|session| session.map(|session| *session.counters()).unwrap_or_default());
        report.paths = sessions[0]
            .into_iter()
            .flat_map(|session| session.paths())
            .collect();
        std::mem::take(report)
    }
}

/// Puts the links between the hosts, and has happen to them what is to.
fn join(core: &mut Core<Host>, config: &WorldConfig) {
    for (number, link) in config.links.iter().enumerate() {
        let mut faults = Vec::new();
        faults.extend(config.faults.iter().filter(|(_, on, _)| *on == number));
        let forgets = faults
            .iter()
            .filter(|(_, _, fault)| *fault == Fault::Rebind)
            .map(|(at, ..)| nanos(*at));
        let forgets: Vec<Nanos> = forgets.collect();
        for (from, to) in [(0, 1), (1, 0)] {
            let label = format!("link/{number}/{from}");
            let pipe = core.connect(from, to, link.pipe(&forgets, config.seed, &label));
            for (at, _, fault) in &faults {
                let change = match fault {
                    Fault::Silent | Fault::Down => Change::Up(false),
                    Fault::Up => Change::Up(true),
                    Fault::Rate(rate) => Change::Tune(Link { rate: *rate, ..*link }.profile()),
                    Fault::Rebind | Fault::Fin => continue,
                };
                core.schedule(nanos(*at), pipe, change);
            }
        }
    }
}
