//! Two hosts and the links between them, on the event core of `hawser-sim`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use crate::Candidate;
use crate::scheduler::Scheduler;
use hawser_engine::wire::Medium;
use hawser_sim::pcap;
use hawser_sim::world::{LinkChange, StopReason, World as Core};
use hawser_time::Instant;

use crate::sim::clock::START;
use crate::sim::config::WorldConfig;
use crate::sim::link::{Fault, SimLink};
use crate::sim::node::{Shared, SimHost};
use crate::sim::report::SimReport;
use crate::sim::side::Side;
use crate::sim::transfer::TransferProgress;

impl WorldConfig {
    /// Runs the world with the scheduler of that name on both sides.
    ///
    /// # Panics
    ///
    /// Panics if there is no such scheduler.
    pub fn run(self, scheduler: &str) -> SimReport {
        let name = scheduler.to_owned();
        SessionWorld::new(self, move || {
            crate::scheduler::by_name(&name).expect("a scheduler's name")
        })
        .run()
    }
}

/// Two hosts, links, a session.
pub struct SessionWorld {
    core: Core<SimHost>,
    shared: Rc<RefCell<Shared>>,
}

/// The number of frames without a read byte at which a run is stopped, more than any sensible run has.
const IDLE_FRAMES: u64 = 500_000;

impl SessionWorld {
    /// Creates a world in its initial state.
    pub fn new(mut config: WorldConfig, scheduler: impl Fn() -> Box<dyn Scheduler> + 'static) -> Self {
        if config.session.candidates.is_empty() {
            config.session.candidates = (0..config.links.len() as u32).map(Candidate::new).collect();
        }
        config.faults.sort_by_key(|(at, ..)| *at);
        let mut core = Core::new(START);
        core.limit_idle(IDLE_FRAMES);
        let progress = config.transfers.iter().enumerate();
        let progress = progress
            .map(|(number, transfer)| TransferProgress::new(number, *transfer))
            .collect();
        let report = SimReport {
            carried: vec![BTreeMap::new(); config.links.len()],
            ..SimReport::default()
        };
        let shared = Rc::new(RefCell::new(Shared { config, progress, report }));
        let make_scheduler = Rc::new(scheduler) as Rc<dyn Fn() -> Box<dyn Scheduler>>;
        for side in [Side::Client, Side::Server] {
            core.add(SimHost::new(side, &shared, &make_scheduler));
        }
        join(&mut core, &shared.borrow().config);
        Self { core, shared }
    }

    /// Writes every packet that a host sends to a capture (pcap), before the links affect it.
    ///
    /// # Errors
    /// The capture's header cannot be written.
    pub fn capture(&mut self, out: Box<dyn Write>) -> io::Result<()> {
        self.core
            .capture(pcap::PcapWriter::new(out, Medium::Ip, Duration::ZERO)?);
        Ok(())
    }

    /// Runs until everything is done, or until the configured end.
    pub fn run(mut self) -> SimReport {
        let until = START + self.shared.borrow().config.until;
        let end = self.core.run(until, SimHost::is_closed, |_| {});
        let trace = self.core.trace().hash();
        let captured = self.core.finish_capture();
        let sessions = [0, 1].map(|side| self.core.node(side).session());
        let Shared { report, progress, .. } = &mut *self.shared.borrow_mut();
        match end {
            StopReason::Met | StopReason::Time | StopReason::Idle => {}
            StopReason::Stalled | StopReason::NoProgress | StopReason::Paused => {
                report.faults.push(format!("the run ended early: {end:?}"))
            }
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

/// Connects the hosts by the links, and schedules the links' faults.
fn join(core: &mut Core<SimHost>, config: &WorldConfig) {
    for (number, link) in config.links.iter().enumerate() {
        let mut faults = Vec::new();
        faults.extend(config.faults.iter().filter(|(_, on, _)| *on == number));
        let forgets = faults
            .iter()
            .filter(|(_, _, fault)| *fault == Fault::Rebind)
            .map(|(at, ..)| START + *at);
        let forgets: Vec<Instant> = forgets.collect();
        for (from, to) in [(0, 1), (1, 0)] {
            let label = format!("link/{number}/{from}");
            let pipe = core.connect(from, to, link.pipe(&forgets, config.seed, &label));
            for (at, _, fault) in &faults {
                let change = match fault {
                    Fault::Silent | Fault::Down => LinkChange::Up(false),
                    Fault::Up => LinkChange::Up(true),
                    Fault::Rate(rate) => LinkChange::Tune(SimLink { rate: *rate, ..*link }.profile()),
                    Fault::Rebind | Fault::Fin => continue,
                };
                core.schedule(START + *at, pipe, change);
            }
        }
    }
}
