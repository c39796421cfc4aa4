//! One of the two hosts: a stack, the session's machine, and the applications above it.

mod connections;
mod race;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::scheduler::Scheduler;
use crate::{Acceptor, AcceptorConfig, Instruction, Notice, Session};
use hawser_engine::net::InterfaceConfig;
use hawser_engine::wire::Wire;
use hawser_engine::{Handle, Notice as StackNotice, Stack, StackConfig};
use hawser_sim::frame::Frame;
use hawser_sim::rng::Rng;
use hawser_sim::trace::Trace;
use hawser_sim::wire::SimWire;
use hawser_sim::world::{FrameExit, Node};
use hawser_time::Instant;

use self::race::Racing;
use crate::sim::carrier::{self, Carrier};
use crate::sim::clock::START;
use crate::sim::config::WorldConfig;
use crate::sim::link::Fault;
use crate::sim::report::{LinkCut, SimReport};
use crate::sim::segment::TcpSegment;
use crate::sim::side::Side;
use crate::sim::transfer::TransferProgress;

/// The port on which the server listens, and its backlog.
const PORT: u16 = 443;
const BACKLOG: u32 = 64;
/// The MTU of an Ethernet path.
const MTU: u32 = 1_500;
/// The maximum number of rounds at one instant.
const ROUNDS_MAX: usize = 10_000;
/// The maximum number of bytes in one read from a connection.
const READ: usize = 65_536;

/// The state that both hosts share with the test: configuration, transfers and results.
pub(crate) struct Shared {
    pub(crate) config: WorldConfig,
    pub(crate) progress: Vec<TransferProgress>,
    pub(crate) report: SimReport,
}

pub(crate) type MakeScheduler = Rc<dyn Fn() -> Box<dyn Scheduler>>;

/// One of the two hosts.
pub(crate) struct SimHost {
    side: Side,
    stack: Stack,
    wire: SimWire,
    listener: Option<Handle>,
    session: Option<Session>,
    acceptor: Acceptor<Handle>,
    make_scheduler: MakeScheduler,
    rng: Rng,
    carriers: BTreeMap<Handle, Carrier>,
    /// The race for the first carrier, while it is running.
    racing: Option<Racing>,
    /// The peer's streams, in the order of their announcement.
    announced: Vec<u32>,
    /// The link faults with their times, in order.
    faults: VecDeque<(Instant, usize, Fault)>,
    /// The time at which a slow reader or a late writer acts next.
    application_at: Option<Instant>,
    shared: Rc<RefCell<Shared>>,
    buffer: Vec<u8>,
    now: Instant,
    /// The earliest time at which its own timers may fire, so that they do not fire twice at one instant.
    soon: Instant,
    is_closing: bool,
    progress: u64,
}

impl SimHost {
    pub(crate) fn new(side: Side, shared: &Rc<RefCell<Shared>>, make_scheduler: &MakeScheduler) -> SimHost {
        let config = &shared.borrow().config;
        let mut rng = Rng::new(config.seed, &format!("host/{side:?}"));
        let addresses = (0..config.links.len())
            .map(|link| (side.address(link), 24))
            .collect();
        let interface = InterfaceConfig { addresses, gateways: Vec::new(), mtu: MTU };
        let wire = SimWire::new(MTU);
        let stack_config = StackConfig::new(interface, rng.bits());
        let mut stack =
            Stack::new(carrier::TCP.clone(), stack_config, wire.caps()).expect("its limits suffice");
        let accepts = AcceptorConfig { session: config.session.clone(), ..AcceptorConfig::default() };
        let (mut session, mut listener) = (None, None);
        match side {
            Side::Client => {
                let client = Session::client(config.session.clone(), make_scheduler(), bits(&mut rng), START);
                session = Some(client);
            }
            Side::Server => {
                let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
                let options = carrier::options(false);
                listener = Some(
                    stack
                        .listen_with(START, any, BACKLOG, &options)
                        .expect("nobody else listens"),
                );
            }
        }
        SimHost {
            side,
            stack,
            wire,
            listener,
            session,
            acceptor: Acceptor::new(accepts),
            make_scheduler: make_scheduler.clone(),
            rng,
            carriers: BTreeMap::new(),
            racing: None,
            announced: Vec::new(),
            faults: config
                .faults
                .iter()
                .map(|&(at, link, fault)| (START + at, link, fault))
                .collect(),
            application_at: Some(START),
            shared: shared.clone(),
            buffer: vec![0; READ],
            now: START,
            soon: START,
            is_closing: false,
            progress: 0,
        }
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Returns true if its session is closed. A server without a session uses the report instead.
    pub(crate) fn is_closed(&self) -> bool {
        self.session.as_ref().map_or(
            self.shared.borrow().report.closed_at.is_some(),
            Session::is_closed,
        )
    }

    /// Returns the time since the start.
    fn elapsed(&self) -> Duration {
        self.now - START
    }

    fn fault(&self, what: String) {
        self.shared.borrow_mut().report.faults.push(what);
    }

    /// Does one round of work. Returns false if there was none.
    fn round(&mut self, trace: &mut Trace) -> bool {
        let mut busy = match self.stack.poll(self.now, &mut self.wire) {
            Ok(busy) => busy,
            Err(error) => {
                self.fault(format!("{:?}: {error}", self.side));
                return false;
            }
        };
        while let Some((handle, notice)) = self.stack.next_notice() {
            busy = true;
            self.notice(handle, notice);
        }
        if busy {
            self.update();
        }
        busy |= self.tick();
        self.applications();
        busy | self.obey(trace)
    }

    fn notice(&mut self, handle: Handle, notice: StackNotice) {
        match notice {
            StackNotice::Accepted(child) => self.accept(child),
            StackNotice::Connected => self.connected(handle),
            StackNotice::Readable => self.read(handle),
            StackNotice::Writable => self.write(handle),
            StackNotice::Eof => {
                self.read(handle);
                self.end(handle, "end of file".into());
            }
            StackNotice::Closed => self.end(handle, "end of file".into()),
            StackNotice::Failed(errno) => self.end(handle, errno.to_string()),
            StackNotice::Reset(_) | StackNotice::Stopped(_) | StackNotice::Message(_) => {}
        }
    }

    /// Reports the carriers' figures to the session.
    fn update(&mut self) {
        let Some(session) = &mut self.session else { return };
        for carrier in self
            .carriers
            .values()
            .filter(|carrier| carrier.is_open && !carrier.finishing)
        {
            let (Some(id), Some(statistics)) = (carrier.id, carrier.statistics(&self.stack)) else {
                continue;
            };
            session.statistics(id, statistics, self.now);
            session.room(id, carrier.room(&self.stack), self.now);
        }
    }

    /// Handles faults and timeouts that are due.
    fn tick(&mut self) -> bool {
        let mut busy = false;
        while let Some(&(_, link, fault)) = self.faults.front().filter(|(at, ..)| *at <= self.now) {
            self.faults.pop_front();
            busy = true;
            self.befall(link, fault);
        }
        if self.race_wakes_at().is_some_and(|at| at <= self.now) {
            busy = true;
            self.wake_race();
        }
        let now = self.now;
        if self
            .session
            .as_ref()
            .and_then(|session| session.next_timeout(now))
            .is_some_and(|at| at <= now)
        {
            busy = true;
            self.update();
            self.session.iter_mut().for_each(|session| session.timeout(now));
        }
        for late in self.acceptor.sweep(now) {
            self.stack.abort(self.now, late);
            self.end(late, "late".into());
        }
        busy
    }

    fn befall(&mut self, link: usize, fault: Fault) {
        let on_it = self.handles(|carrier| carrier.link == link && !carrier.finishing);
        match fault {
            Fault::Silent | Fault::Down | Fault::Rebind => {
                on_it.iter().for_each(|handle| self.cut(*handle));
                if fault == Fault::Down {
                    self.set_link(&on_it, false);
                }
            }
            Fault::Up => {
                self.set_link(&on_it, true);
                if let (Side::Client, Some(session)) = (self.side, &mut self.session) {
                    session.network_changed(self.now);
                }
            }
            Fault::Rate(_) => {}
            Fault::Fin if self.side == Side::Server => {
                for handle in on_it {
                    self.lost(handle, "closed by the server's host".into());
                    self.carriers
                        .get_mut(&handle)
                        .into_iter()
                        .for_each(|carrier| carrier.finishing = true);
                    self.write(handle);
                }
            }
            Fault::Fin => {}
        }
    }

    /// Reports to the client's session that a link went down or came back.
    fn set_link(&mut self, on_it: &[Handle], is_up: bool) {
        if let (Side::Client, Some(session)) = (self.side, &mut self.session) {
            let ids = on_it.iter().filter_map(|handle| self.carriers.get(handle)?.id);
            ids.for_each(|id| session.link(id, is_up, self.now));
        }
    }

    /// Records the probe timeout of a carrier that was cut.
    fn cut(&mut self, handle: Handle) {
        let Some(carrier) = self.carriers.get(&handle) else {
            return;
        };
        let (Some(id), Some(statistics)) = (carrier.id, carrier.statistics(&self.stack)) else {
            return;
        };
        let cuts = &mut self.shared.borrow_mut().report.cuts;
        let (at, link) = (self.elapsed(), carrier.link);
        let known = cuts
            .iter()
            .position(|cut| (cut.at, cut.link, cut.carrier) == (at, link, id));
        let place = known.unwrap_or_else(|| {
            cuts.push(LinkCut { at, link, carrier: id, probe_timeout: [Duration::ZERO; 2] });
            cuts.len() - 1
        });
        cuts[place].probe_timeout[self.side as usize] = statistics.probe_timeout();
    }

    /// Lets the applications write and read. The client closes the session when all transfers are done.
    fn applications(&mut self) {
        self.application_at = None;
        let Some(session) = &mut self.session else { return };
        let Shared { progress, report, .. } = &mut *self.shared.borrow_mut();
        for one in progress.iter_mut() {
            if one.transfer.from == self.side {
                one.write(session, self.now);
                continue;
            }
            let before = one.read;
            if let Err(fault) = one.read(session, &self.announced, self.now) {
                report.faults.push(fault.to_string());
            }
            self.progress += one.read - before;
        }
        self.application_at = progress
            .iter()
            .filter_map(|one| one.next_deadline(self.side, self.now))
            .min();
        let all = progress.iter().all(|one| one.finished.is_some());
        if self.side == Side::Client && all && !std::mem::replace(&mut self.is_closing, true) {
            report.all_read = true;
            session.close(0, self.now);
        }
    }

    /// Carries out the session's instructions. Returns false if there were none.
    fn obey(&mut self, trace: &mut Trace) -> bool {
        let mut busy = false;
        while let Some(instruction) = self.session.as_mut().and_then(Session::poll) {
            busy = true;
            match instruction {
                Instruction::Connect { carrier, candidate, small } => self.connect(carrier, candidate, small),
                Instruction::Send { carrier, head, body } => self.send(carrier, head, body, trace),
                Instruction::Close { carrier, abort } => self.close(carrier, abort),
                Instruction::Notify(notice) => {
                    if let Notice::StreamOpened(stream) = notice {
                        self.announced.push(stream);
                    }
                    self.shared
                        .borrow_mut()
                        .report
                        .notices
                        .push((self.elapsed(), self.side, notice));
                }
            }
        }
        if self.side == Side::Client && self.session.as_ref().is_some_and(Session::is_closed) {
            self.shared
                .borrow_mut()
                .report
                .closed_at
                .get_or_insert(self.elapsed());
        }
        busy
    }
}

/// Returns random bits.
fn bits<const N: usize>(rng: &mut Rng) -> [u8; N] {
    let mut bits = [0; N];
    rng.fill(&mut bits);
    bits
}

impl Node for SimHost {
    fn arrive(&mut self, now: Instant, frame: Frame) {
        self.measure(&frame);
        self.wire.arrive(now, frame);
    }

    fn run(&mut self, now: Instant, out: &mut Vec<(FrameExit, Frame)>, trace: &mut Trace) {
        self.now = now;
        self.soon = self.now + Duration::from_nanos(1);
        let mut rounds = 0;
        while self.round(trace) {
            rounds += 1;
            if rounds == ROUNDS_MAX {
                self.fault(format!(
                    "{:?} does not come to rest at {:?}",
                    self.side,
                    self.elapsed()
                ));
                break;
            }
        }
        // Each link has its own port, with the same number.
        out.extend(
            self.wire
                .sent()
                .filter_map(|frame| Some((FrameExit::Port(TcpSegment::parse(&frame)?.link), frame))),
        );
    }

    fn next_deadline(&self) -> Option<Instant> {
        let session = self
            .session
            .as_ref()
            .and_then(|session| session.next_timeout(self.now));
        let fault = self.faults.front().map(|(at, ..)| *at);
        let own = [session, fault, self.application_at, self.race_wakes_at()]
            .into_iter()
            .flatten()
            .min();
        let own = own.map(|at| at.max(self.soon));
        let waiting = self.wire.has_frames().then_some(Instant::ORIGIN);
        [own, waiting, self.stack.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn progress(&self) -> u64 {
        self.progress
    }
}
