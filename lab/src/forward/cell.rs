//! One link that the forwarder carries: two cables, and a sequence of rules for each direction.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hawser_engine::wire::Csum;
use hawser_host::port::{Messages, Port};
use hawser_sim::frame::Frame;
use hawser_sim::link::{self, Pipe, Profile, Rule};
use hawser_time::Instant;
use parking_lot::Mutex;

use crate::plan::NatPlan;
use crate::rules::filter::{Blocked, Filter};
use crate::rules::nat::Translator;
use crate::rules::silence::Silence;
use crate::rules::size::Size;
use crate::rules::trace::{Trace, TraceTimes};
use crate::spec::{Rules, Selector};
use crate::statistics::Statistics;

const ETHERNET: u8 = 14;

/// The Ethernet address of ff02::16, the destination of MLDv2 reports (RFC 3810, section 5.2.14).
const GROUP_REPORTS: [u8; 6] = [0x33, 0x33, 0, 0, 0, 0x16];

/// The configuration of a cell.
pub(crate) struct CellSetup {
    /// The link's name, which determines all random numbers together with the seed.
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// The interfaces of the near ends of its cables.
    pub(crate) interfaces: [String; 2],
    pub(crate) mtu: u32,
    /// The initial rules of each direction.
    pub(crate) rules: [RuleChange; 2],
    pub(crate) nat: Option<NatPlan>,
}

/// Rules, with their trace already read.
#[derive(Clone, Default)]
pub(crate) struct RuleChange {
    pub(crate) rules: Rules,
    pub(crate) trace: Option<Arc<TraceTimes>>,
}

/// A running cell.
pub(crate) struct Cell {
    /// The two ports. Direction i goes from port i to the other.
    ports: [Port; 2],
    /// The number of frames that did not fit into each port's buffer.
    overrun: [u64; 2],
    directions: [CellDirection; 2],
    nat: Option<Translator>,
    /// The frames to send, kept to reuse its memory.
    outbox: Vec<Frame>,
}

/// One direction of a cell.
struct CellDirection {
    pipe: Pipe,
    profile: Profile,
    silent: Arc<AtomicBool>,
    max_length: Arc<AtomicU64>,
    blocked: Blocked,
    line: Arc<Mutex<Option<Arc<TraceTimes>>>>,
    /// The time at which the last frame entered, because rules need frames in the order of time.
    last: Instant,
}

impl Cell {
    /// Opens the cell's cables, in the network namespace that holds their near ends.
    pub(crate) fn open(setup: CellSetup) -> io::Result<Cell> {
        let [a, b] = &setup.interfaces;
        let ports = [Port::open(a, setup.mtu)?, Port::open(b, setup.mtu)?];
        let nat = setup
            .nat
            .as_ref()
            .map(|plan| (plan, Translator::new(plan, setup.seed, &setup.name)));
        let direction = |number: usize, label: &str| {
            // The translator is next to its inside host: the first rule for outgoing frames, the last for
            // incoming ones.
            let (first, last) = match &nat {
                Some((plan, nat)) if plan.inside == number => (Some(nat.outward()), None),
                Some((_, nat)) => (None, Some(nat.inward())),
                None => (None, None),
            };
            let label = format!("{}/{label}", setup.name);
            CellDirection::new(&setup.rules[number], setup.seed, &label, first, last)
        };
        let directions = [direction(0, "forward"), direction(1, "backward")];
        Ok(Cell {
            ports,
            overrun: [0; 2],
            directions,
            nat: nat.map(|(_, nat)| nat),
            outbox: Vec::new(),
        })
    }

    /// Returns the descriptors that become readable when a frame has come.
    pub(crate) fn ports(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports.iter().map(AsFd::as_fd)
    }

    /// Takes up to `max` frames from each cable, and returns whether more may wait. `offset` is the number of
    /// nanoseconds by which the kernel's timestamps are ahead of the monotonic clock.
    pub(crate) fn receive(&mut self, max: usize, offset: u64) -> bool {
        let mut more = false;
        for (port, direction) in self.ports.iter_mut().zip(&mut self.directions) {
            let taken = port.receive(max, |at, bytes| {
                direction.enter(Instant::from_nanos(at.as_nanos().saturating_sub(offset)), bytes)
            });
            more |= taken == max;
        }
        more
    }

    /// Sends the frames that have left the rules by `now`.
    pub(crate) fn deliver(&mut self, now: Instant, messages: &mut Messages) {
        for (i, direction) in self.directions.iter_mut().enumerate() {
            while let Some(frame) = direction.pipe.pop(now, &mut |_, _, _| {}) {
                self.outbox.push(frame);
            }
            if !self.outbox.is_empty() {
                let frames = self.outbox.iter().map(|frame| frame.head.as_slice());
                self.ports[1 - i].send(frames, messages);
                self.outbox.clear();
            }
        }
    }

    /// Returns the time at which the next frame is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.directions
            .iter()
            .filter_map(|direction| direction.pipe.next_deadline())
            .min()
    }

    /// Changes the rules of a direction.
    pub(crate) fn change(&mut self, now: Instant, direction: usize, change: &RuleChange) {
        self.directions[direction].apply(now, change);
    }

    /// Takes both directions down, or brings them up. The caller takes the cables down first, and brings them
    /// up last.
    pub(crate) fn set_up(&mut self, now: Instant, up: bool) {
        self.ports.iter().for_each(Port::clear_error);
        self.directions
            .iter_mut()
            .for_each(|d| d.pipe.set_up(now, up, &mut |_, _, _| {}));
    }

    /// Makes the translator, if there is one, drop its mappings.
    pub(crate) fn rebind(&self) {
        self.nat.iter().for_each(Translator::rebind);
    }

    /// Returns the statistics of a direction, without the time.
    pub(crate) fn statistics(&mut self, direction: usize, now: Instant) -> Statistics {
        // If the kernel does not answer, the frames are counted next time.
        self.overrun[direction] += self.ports[direction].missed().unwrap_or(0);
        let pipe = &mut self.directions[direction].pipe;
        let (queued, queued_bytes) = pipe.waiting(now);
        let counters = pipe.counters();
        let stages = pipe.stage_counters().map(|stage| (stage.name, stage.dropped));
        let lost = stages.chain([
            ("down", counters.down + self.ports[1 - direction].refused),
            ("overflow", counters.overflow),
            ("overrun", self.overrun[direction]),
        ]);
        Statistics {
            sent: counters.sent,
            sent_bytes: counters.sent_bytes,
            delivered: counters.delivered,
            delivered_bytes: counters.delivered_bytes,
            queued,
            queued_bytes,
            lost: lost.filter(|(_, count)| *count > 0).collect(),
            ..Statistics::default()
        }
    }
}

impl CellDirection {
    fn new(
        change: &RuleChange,
        seed: u64,
        label: &str,
        first: Option<Box<dyn Rule>>,
        last: Option<Box<dyn Rule>>,
    ) -> CellDirection {
        let (silent, max_length) = (Arc::default(), Arc::default());
        let (blocked, line) = (Blocked::default(), Arc::default());
        let own: [Box<dyn Rule>; 4] = [
            Box::new(Filter::new(&blocked)),
            Box::new(Silence::new(&silent)),
            Box::new(Size::new(&max_length)),
            Box::new(Trace::new(&line)),
        ];
        let rules = first
            .into_iter()
            .chain(own)
            .chain(link::rules(&Profile::default()))
            .chain(last)
            .collect();
        let pipe = Pipe::with_rules(rules, seed, label);
        let profile = Profile::default();
        let mut direction = CellDirection {
            pipe,
            profile,
            silent,
            max_length,
            blocked,
            line,
            last: Instant::ORIGIN,
        };
        direction.apply(Instant::ORIGIN, change);
        direction
    }

    /// Passes a frame that came at this time to the rules.
    ///
    /// Reports about multicast groups are discarded. The kernel sends them at arbitrary times, two hosts do
    /// not need them, and they would draw random numbers that differ between runs.
    fn enter(&mut self, at: Instant, bytes: &[u8]) {
        if bytes.starts_with(&GROUP_REPORTS) {
            return;
        }
        self.last = self.last.max(at);
        let frame = Frame {
            head: bytes.to_vec(),
            csum: Csum::Unverified,
            link_header: ETHERNET,
            ..Frame::default()
        };
        self.pipe.push(self.last, frame, &mut |_, _, _| {});
    }

    fn apply(&mut self, now: Instant, change: &RuleChange) {
        let RuleChange { rules, trace } = change;
        rules.apply(&mut self.profile);
        if rules.rate.is_some() || trace.is_some() {
            // A rate and a trace replace each other.
            *self.line.lock() = trace.clone();
            self.profile.rate = self.profile.rate.filter(|_| trace.is_none());
        }
        self.pipe.tune(now, &self.profile, &mut |_, _, _| {});
        if let Some(silent) = rules.silent {
            self.silent.store(silent, Ordering::Relaxed);
        }
        if let Some(max_length) = rules.path_mtu {
            self.max_length.store(max_length.0, Ordering::Relaxed);
        }
        if let Some(block) = &rules.block {
            self.block(block);
        }
    }

    fn block(&self, selectors: &[Selector]) {
        self.blocked.set(selectors);
    }
}
