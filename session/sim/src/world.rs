//! Two hosts, the links between them, a transfer, and a clock that jumps from event to event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_session::scheduler::Scheduler;
use hawser_session::{
    Acceptor, AcceptorConfig, Candidate, CarrierId, Config, Counters, Exporter, Instruction, Loss, Notice,
    PathReport, ReadError, Refusal, Session, Verdict,
};

use crate::dice::Dice;
use crate::link::{Fault, Link};
use crate::pipe::{Lane, MSS, Pipe, SMALL};

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// It began the session.
    Client,
    /// It accepted the session.
    Server,
}

/// Bytes from one side to the other, on a stream of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who sends.
    pub from: Side,
    /// How many bytes.
    pub bytes: u64,
    /// When the sender begins to write.
    pub at: Duration,
    /// How many bytes a second the receiver reads; 0: as fast as they come.
    pub read_rate: u64,
}

/// What a world is made of.
#[derive(Debug)]
pub struct WorldConfig {
    /// Path `n` of the session is link `n`.
    pub links: Vec<Link>,
    /// Round trips until a carrier on the link of the same number can be used: 1 for QUIC, 2 for TCP
    /// with TLS 1.3.
    pub handshakes: Vec<u32>,
    /// Both sides' sessions. The client's candidates: one for each link if there are none.
    pub session: Config,
    /// What happens to which link, and when.
    pub faults: Vec<(Duration, usize, Fault)>,
    /// The transfers.
    pub transfers: Vec<Transfer>,
    /// For session ids and exporters.
    pub seed: u64,
    /// The run ends then, done or not.
    pub until: Duration,
}

impl WorldConfig {
    /// Links, handshakes of two round trips, the default session; nothing to do and no fault yet.
    pub fn new(links: Vec<Link>) -> Self {
        Self {
            handshakes: vec![2; links.len()],
            links,
            session: Config::default(),
            faults: Vec::new(),
            transfers: Vec::new(),
            seed: 1,
            until: Duration::from_secs(600),
        }
    }

    /// The same with a transfer that begins at once and is read as fast as it comes.
    pub fn transfer(mut self, from: Side, bytes: u64) -> Self {
        self.transfers.push(Transfer { from, bytes, at: Duration::ZERO, read_rate: 0 });
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
        World::new(self, move || hawser_session::scheduler::by_name(&name).expect("a scheduler's name")).run()
    }
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every transfer arrived, each byte right, and the session closed.
    pub done: bool,
    /// When the last byte of each transfer was read.
    pub finished: Vec<Option<Duration>>,
    /// For each transfer: when a read was followed by none for 5 ms or more, and until when.
    pub gaps: Vec<Vec<(Duration, Duration)>>,
    /// Which carriers were asked for: when, number, candidate.
    pub connects: Vec<(Duration, CarrierId, usize)>,
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
    /// A hash of everything that was sent, when and where: two runs of one seed have the same.
    pub trace: u64,
    /// Payload bytes that each link carried, both ways, per tenth of a second.
    pub carried: Vec<BTreeMap<u64, u64>>,
    /// What applications were told, in order.
    pub notices: Vec<(Duration, Side, Notice)>,
}

/// A link was cut with a carrier on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// When.
    pub at: Duration,
    /// Which link.
    pub link: usize,
    /// For how long the carrier's transport may be silent at that moment before it is suspected: the
    /// client's, and the server's.
    pub patience: [Duration; 2],
}

struct Carrier {
    link: usize,
    exporter: Exporter,
    /// Connected at that moment, if the link carries then.
    open_at: Option<Duration>,
    /// The server's session has it.
    admitted: bool,
    /// A translator on the way has forgotten it: nothing of it passes any more.
    forgotten: bool,
    /// From the client, and from the server.
    pipes: [Pipe; 2],
    /// What a side has closed, and the other not seen yet.
    ends: [bool; 2],
}

struct Progress {
    stream: Option<u32>,
    written: u64,
    finished_writing: bool,
    read: u64,
    last_read: Option<Duration>,
    gaps: Vec<(Duration, Duration)>,
    finished: Option<Duration>,
}

/// Two hosts, links, a session.
pub struct World {
    config: WorldConfig,
    now: Duration,
    dice: Dice,
    client: Session,
    server: Option<Session>,
    acceptor: Acceptor<CarrierId>,
    make_scheduler: Box<dyn Fn() -> Box<dyn Scheduler>>,
    lanes: Vec<[Lane; 2]>,
    carriers: BTreeMap<CarrierId, Carrier>,
    progress: Vec<Progress>,
    /// Streams of the peer's that were announced, in order.
    announced: [Vec<u32>; 2],
    /// Carriers that have become useless.
    gone: BTreeSet<CarrierId>,
    report: Report,
}

/// More events than any sensible run has.
const MOST_EVENTS: u64 = 2_000_000;

/// `length` bytes of transfer `number` from `offset` on: every eight bytes are their own.
fn content(number: usize, offset: u64, length: usize) -> Bytes {
    let word = |index: u64| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number as u64).to_le_bytes();
    let skip = (offset % 8) as usize;
    let mut bytes = BytesMut::with_capacity(length + 16);
    let mut index = offset / 8;
    while bytes.len() < skip + length {
        bytes.extend_from_slice(&word(index));
        index += 1;
    }
    let _ = bytes.split_to(skip);
    bytes.truncate(length);
    bytes.freeze()
}

impl World {
    /// A world in which nothing has happened.
    pub fn new(mut config: WorldConfig, scheduler: impl Fn() -> Box<dyn Scheduler> + 'static) -> Self {
        let mut dice = Dice::new(config.seed);
        if config.session.candidates.is_empty() {
            config.session.candidates = (0..config.links.len() as u32).map(Candidate::new).collect();
        }
        config.faults.sort_by_key(|(at, ..)| *at);
        let client = Session::client(config.session.clone(), scheduler(), dice.bytes(), Duration::ZERO);
        let acceptor =
            Acceptor::new(AcceptorConfig { session: config.session.clone(), ..AcceptorConfig::default() });
        let lane = |link: &Link| Lane { link: *link, busy_until: Duration::ZERO, carries: true };
        let lanes = config.links.iter().map(|link| [lane(link), lane(link)]).collect();
        let progress = config.transfers.iter().map(|_| Progress {
            stream: None,
            written: 0,
            finished_writing: false,
            read: 0,
            last_read: None,
            gaps: Vec::new(),
            finished: None,
        });
        let report = Report { carried: vec![BTreeMap::new(); config.links.len()], ..Report::default() };
        Self {
            progress: progress.collect(),
            now: Duration::ZERO,
            dice,
            client,
            server: None,
            acceptor,
            make_scheduler: Box::new(scheduler),
            lanes,
            carriers: BTreeMap::new(),
            announced: [Vec::new(), Vec::new()],
            gone: BTreeSet::new(),
            report,
            config,
        }
    }

    /// Runs until everything is done, or the configured end.
    pub fn run(mut self) -> Report {
        let mut closing = false;
        for event in 0.. {
            if event == MOST_EVENTS {
                self.report.faults.push(format!("still busy after {event} events, at {:?}", self.now));
                break;
            }
            self.befall();
            self.carry();
            self.transfer();
            self.obey(Side::Client);
            self.obey(Side::Server);
            let all = self.progress.iter().all(|progress| progress.finished.is_some());
            if all && !closing {
                closing = true;
                self.client.close(0, self.now);
                self.obey(Side::Client);
            }
            if self.client.is_closed() {
                self.report.closed_at.get_or_insert(self.now);
                if self.server.as_ref().is_none_or(Session::is_closed) {
                    break;
                }
            }
            let Some(next) = self.next_event() else { break };
            if next > self.config.until {
                break;
            }
            self.now = next.max(self.now);
            self.tick();
        }
        self.finish(closing)
    }

    fn finish(mut self, closing: bool) -> Report {
        self.report.done = closing && self.report.faults.is_empty();
        self.report.finished = self.progress.iter().map(|progress| progress.finished).collect();
        self.report.gaps = self.progress.iter().map(|progress| progress.gaps.clone()).collect();
        self.report.counters[0] = *self.client.counters();
        if let Some(server) = &self.server {
            self.report.counters[1] = *server.counters();
        }
        self.report.paths = self.client.paths().collect();
        self.report
    }

    /// Faults whose time has come.
    fn befall(&mut self) {
        while let Some(&(_, link, fault)) = self.config.faults.first().filter(|(at, ..)| *at <= self.now) {
            self.config.faults.remove(0);
            let on_it: Vec<CarrierId> =
                self.carriers.iter().filter(|(_, carrier)| carrier.link == link).map(|(&id, _)| id).collect();
            match fault {
                Fault::Silent | Fault::Down => {
                    self.lanes[link].iter_mut().for_each(|lane| lane.carries = false);
                    for id in &on_it {
                        if let Some(carrier) = self.carriers.get_mut(id) {
                            carrier.pipes.iter_mut().for_each(|pipe| pipe.cut(self.now));
                            let [up, down] = &carrier.pipes;
                            let patience = [up.statistics(down).silence(), down.statistics(up).silence()];
                            self.report.cuts.push(Cut { at: self.now, link, patience });
                        }
                        if fault == Fault::Down {
                            self.client.link(*id, false, self.now);
                        }
                    }
                }
                Fault::Up => {
                    for lane in &mut self.lanes[link] {
                        lane.carries = true;
                        lane.busy_until = self.now;
                    }
                    on_it.iter().for_each(|id| self.client.link(*id, true, self.now));
                    self.client.network_changed(self.now);
                }
                Fault::Rebind => {
                    for id in on_it {
                        if let Some(carrier) = self.carriers.get_mut(&id) {
                            carrier.forgotten = true;
                            carrier.pipes.iter_mut().for_each(|pipe| pipe.cut(self.now));
                            let [up, down] = &carrier.pipes;
                            let patience = [up.statistics(down).silence(), down.statistics(up).silence()];
                            self.report.cuts.push(Cut { at: self.now, link, patience });
                        }
                    }
                }
                Fault::Rate(rate) => {
                    self.lanes[link].iter_mut().for_each(|lane| lane.link.rate = rate);
                }
                Fault::Fin => {
                    for id in on_it {
                        if let Some(carrier) = self.carriers.get_mut(&id) {
                            carrier.pipes[1].finish();
                            carrier.ends[1] = true;
                        }
                        self.leave_server(id, "closed by the server's host");
                    }
                }
            }
        }
    }

    fn leave_server(&mut self, id: CarrierId, why: &str) {
        self.acceptor.left(id);
        if let Some(server) = &mut self.server {
            server.lost(id, Loss::Transport(why.into()), self.now);
        }
    }

    /// Moves bytes through the carriers.
    fn carry(&mut self) {
        let ids: Vec<CarrierId> = self.carriers.keys().copied().collect();
        for id in ids {
            self.open(id);
            for side in [Side::Client, Side::Server] {
                let Some(carrier) = self.carriers.get_mut(&id) else { break };
                if carrier.open_at.is_some() {
                    break;
                }
                let lane = &mut self.lanes[carrier.link][side as usize];
                let carries = lane.carries;
                lane.carries &= !carrier.forgotten;
                let arrived = carrier.pipes[side as usize].advance(lane, self.now);
                lane.carries = carries;
                let (link, ended) = (carrier.link, carrier.pipes[side as usize].is_drained());
                for bytes in arrived {
                    *self.report.carried[link].entry(self.now.as_millis() as u64 / 100).or_default() +=
                        bytes.len() as u64;
                    self.arrive(id, side, bytes);
                }
                if ended {
                    self.end(id, side);
                }
            }
            self.tell(id);
        }
        let gone = std::mem::take(&mut self.gone);
        for id in gone {
            self.carriers.remove(&id);
        }
    }

    /// A carrier whose handshake is over.
    fn open(&mut self, id: CarrierId) {
        let Some(carrier) = self.carriers.get_mut(&id) else { return };
        if carrier.open_at.is_none_or(|at| at > self.now) {
            return;
        }
        if !self.lanes[carrier.link][0].carries {
            // Its SYN is sent again: the client gives up in the end.
            carrier.open_at = Some(self.now + Duration::from_secs(1));
            return;
        }
        carrier.open_at = None;
        let exporter = Some(carrier.exporter);
        let random = self.dice.bytes();
        if self.acceptor.accepted(id, exporter, random, self.now).is_ok() {
            self.client.connected(id, exporter, self.now);
        }
    }

    /// Bytes that came at the other end.
    fn arrive(&mut self, id: CarrierId, from: Side, bytes: Bytes) {
        if from == Side::Server {
            return self.client.received(id, bytes, self.now);
        }
        let Some(carrier) = self.carriers.get_mut(&id) else { return };
        if carrier.admitted {
            if let Some(server) = &mut self.server {
                server.received(id, bytes, self.now);
            }
            return;
        }
        match self.acceptor.received(id, bytes, || (self.make_scheduler)(), self.now) {
            Verdict::More => {}
            Verdict::Refuse { answer, refusal } => {
                carrier.pipes[1].write(&answer);
                carrier.pipes[1].finish();
                if refusal != Refusal::Gone {
                    self.report.faults.push(format!("carrier {id} was refused: {refusal:?}"));
                }
            }
            Verdict::Begin { mut session, answer, rest, .. } => {
                carrier.admitted = true;
                session.accept();
                carrier.pipes[1].write(&answer);
                self.server = Some(*session);
                self.admit(id, false, rest);
            }
            Verdict::Join { answer, rest, backup, .. } => {
                carrier.admitted = true;
                carrier.pipes[1].write(&answer);
                self.admit(id, backup, rest);
            }
        }
    }

    fn admit(&mut self, id: CarrierId, backup: bool, rest: Bytes) {
        if let Some(server) = &mut self.server {
            server.admitted(id, backup, self.now);
            server.received(id, rest, self.now);
        }
    }

    /// One side's bytes have all arrived, and it had closed.
    fn end(&mut self, id: CarrierId, from: Side) {
        match from {
            Side::Client => self.leave_server(id, "end of file"),
            Side::Server => self.client.lost(id, Loss::Transport("end of file".into()), self.now),
        }
        self.gone.insert(id);
    }

    /// Tells both sessions how a carrier does.
    fn tell(&mut self, id: CarrierId) {
        let Some(carrier) = self.carriers.get(&id).filter(|carrier| carrier.open_at.is_none()) else {
            return;
        };
        let [up, down] = &carrier.pipes;
        self.client.statistics(id, up.statistics(down), self.now);
        self.client.room(id, up.room(), self.now);
        if let Some(server) = &mut self.server {
            server.statistics(id, down.statistics(up), self.now);
            server.room(id, down.room(), self.now);
        }
    }

    fn session(&mut self, side: Side) -> Option<&mut Session> {
        match side {
            Side::Client => Some(&mut self.client),
            Side::Server => self.server.as_mut(),
        }
    }

    /// Lets the applications write and read.
    fn transfer(&mut self) {
        for number in 0..self.config.transfers.len() {
            self.write(number);
            self.read(number);
        }
    }

    fn write(&mut self, number: usize) {
        const CHUNK: u64 = 65_536;
        let transfer = self.config.transfers[number];
        let now = self.now;
        if transfer.at > now || self.progress[number].finished_writing {
            return;
        }
        let (mut written, stream) = (self.progress[number].written, self.progress[number].stream);
        let Some(session) = self.session(transfer.from) else { return };
        let stream = match stream {
            Some(stream) => stream,
            None => match session.open() {
                Ok(stream) => stream,
                Err(_) => return,
            },
        };
        while written < transfer.bytes {
            let length = CHUNK.min(transfer.bytes - written);
            if (session.capacity(stream) as u64) < length {
                break;
            }
            match session.write(stream, content(number, written, length as usize), now) {
                Ok(taken) => written += taken as u64,
                Err(_) => return,
            }
        }
        let finished = written == transfer.bytes && session.finish(stream, now).is_ok();
        let progress = &mut self.progress[number];
        progress.stream = Some(stream);
        progress.written = written;
        progress.finished_writing = finished;
    }

    fn read(&mut self, number: usize) {
        let transfer = self.config.transfers[number];
        let (now, to) = (self.now, other(transfer.from));
        let Some(stream) = self.progress[number].stream else { return };
        if self.progress[number].finished.is_some() || !self.announced[to as usize].contains(&stream) {
            return;
        }
        loop {
            let allowed = match transfer.read_rate {
                0 => u64::MAX,
                rate => {
                    let open_for = now.saturating_sub(transfer.at).as_secs_f64();
                    ((open_for * rate as f64) as u64).saturating_sub(self.progress[number].read)
                }
            };
            if allowed == 0 {
                return;
            }
            let Some(session) = self.session(to) else { return };
            match session.read(stream, allowed.min(1 << 20) as usize, now) {
                Ok(bytes) => {
                    let progress = &mut self.progress[number];
                    if bytes.is_empty() {
                        if progress.read != transfer.bytes {
                            let read = progress.read;
                            self.report.faults.push(format!("transfer {number} ended after {read} bytes"));
                        }
                        self.progress[number].finished = Some(now);
                        return;
                    }
                    let begins = progress.read;
                    if bytes != content(number, begins, bytes.len()) {
                        let end = begins + bytes.len() as u64;
                        self.report
                            .faults
                            .push(format!("transfer {number}: a wrong byte in {begins}..{end}"));
                    }
                    progress.read += bytes.len() as u64;
                    let since = progress.last_read.replace(now).unwrap_or(now);
                    if now - since >= Duration::from_millis(5) {
                        progress.gaps.push((since, now));
                    }
                }
                Err(ReadError::Blocked) => return,
                Err(error) => {
                    self.report.faults.push(format!("transfer {number}: {error}"));
                    self.progress[number].finished = Some(now);
                    return;
                }
            }
        }
    }

    /// Does what a session asks for.
    fn obey(&mut self, side: Side) {
        while let Some(instruction) = self.session(side).and_then(Session::poll) {
            match instruction {
                Instruction::Connect { carrier, candidate, small } => {
                    let link = self.config.session.candidates[candidate].path as usize;
                    let round_trips = self.config.handshakes.get(link).copied().unwrap_or(2);
                    let takes = 2 * self.config.links[link].delay * round_trips;
                    let exporter = self.dice.bytes();
                    let seed = self.config.seed ^ (u64::from(carrier.0) << 32);
                    let mss = if small { SMALL } else { MSS };
                    let pipes =
                        [0, 1].map(|way| Pipe::new(&self.config.links[link], seed ^ (way << 63), mss));
                    let open_at = Some(self.now + takes);
                    let new = Carrier {
                        link,
                        exporter,
                        open_at,
                        admitted: false,
                        forgotten: false,
                        pipes,
                        ends: [false, false],
                    };
                    self.carriers.insert(carrier, new);
                    self.report.connects.push((self.now, carrier, candidate));
                }
                Instruction::Send { carrier, head, body } => {
                    self.trace(side, carrier, &head, body.len());
                    if let Some(carrier) = self.carriers.get_mut(&carrier) {
                        carrier.pipes[side as usize].write(&head);
                        carrier.pipes[side as usize].write(&body);
                    }
                }
                Instruction::Close { carrier, abort } => self.close(side, carrier, abort),
                Instruction::Notify(notice) => {
                    if let Notice::StreamOpened(stream) = notice {
                        self.announced[side as usize].push(stream);
                    }
                    self.report.notices.push((self.now, side, notice));
                }
            }
        }
    }

    fn close(&mut self, side: Side, id: CarrierId, abort: bool) {
        let Some(carrier) = self.carriers.get_mut(&id) else { return };
        let carries = self.lanes[carrier.link][0].carries && !carrier.forgotten;
        if !abort {
            carrier.pipes[side as usize].finish();
            carrier.ends[side as usize] = true;
            return;
        }
        // A reset reaches the other side only where the link carries.
        self.carriers.remove(&id);
        if carries {
            match side {
                Side::Client => self.leave_server(id, "reset"),
                Side::Server => self.client.lost(id, Loss::Transport("reset".into()), self.now),
            }
        }
    }

    fn trace(&mut self, side: Side, carrier: CarrierId, head: &[u8], body: usize) {
        if let (true, Some(offset)) = (body > 0, head.get(12..20).and_then(|bytes| bytes.try_into().ok())) {
            let offset = u64::from_be_bytes(offset);
            self.report.sent.push((self.now, side, carrier, offset, body));
        }
        let mut mix = |value: u64| {
            self.report.trace =
                (self.report.trace ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        };
        mix(self.now.as_nanos() as u64);
        mix((side as u64) << 40 | u64::from(carrier.0));
        head.iter().for_each(|byte| mix(u64::from(*byte)));
        mix(body as u64);
    }

    /// When something happens next.
    fn next_event(&self) -> Option<Duration> {
        let carriers = self.carriers.values().filter_map(|carrier| match carrier.open_at {
            Some(at) => Some(at),
            None => carrier.pipes.iter().filter_map(|pipe| pipe.next(self.now)).min(),
        });
        let sessions = [Some(&self.client), self.server.as_ref()];
        let timers = sessions.into_iter().flatten().filter_map(|session| session.next_timeout(self.now));
        let faults = self.config.faults.first().map(|(at, ..)| *at);
        let writers = self.config.transfers.iter().map(|transfer| transfer.at).filter(|at| *at > self.now);
        let readers = self.slow_readers().then_some(self.now + Duration::from_millis(5));
        let soon = self.now + Duration::from_nanos(1);
        carriers.chain(timers).chain(faults).chain(writers).chain(readers).min().map(|at| at.max(soon))
    }

    fn slow_readers(&self) -> bool {
        let slow = |(transfer, progress): (&Transfer, &Progress)| {
            transfer.read_rate > 0 && progress.stream.is_some() && progress.finished.is_none()
        };
        self.config.transfers.iter().zip(&self.progress).any(slow)
    }

    /// Timeouts of the sessions.
    fn tick(&mut self) {
        let ids: Vec<CarrierId> = self.carriers.keys().copied().collect();
        ids.into_iter().for_each(|id| self.tell(id));
        let now = self.now;
        for side in [Side::Client, Side::Server] {
            if let Some(session) = self.session(side)
                && session.next_timeout(now).is_some_and(|at| at <= now)
            {
                session.timeout(now);
            }
        }
        for late in self.acceptor.sweep(now) {
            self.carriers.remove(&late);
        }
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}
