//! The stack under test, its clock and its wire, and the execution of steps.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::net::InterfaceConfig;
use hawser_engine::program::Program;
use hawser_engine::wire::Wire;
use hawser_engine::{Errno, Handle, Notice, RequestError, Stack, StackConfig, StackCounters};
use hawser_sim::frame::Frame;
use hawser_sim::wire::SimWire;
use hawser_time::Instant;

use crate::step::causes::{Causes, Sender};
use crate::step::condition::{Conditions, Context, named};
use crate::step::cursor::Error;
use crate::step::image::{BoundNames, ImageMismatch};
use crate::step::literal::PacketLiteral;
use crate::step::notice_names::{errno, errno_name, notice_word};
use crate::step::packet::{Format, describe, whole};
use crate::step::parse::{Request, Step, StepLine, StepSetup, StepTime, Steps};
use crate::step::payload::Payload;
use crate::step::report::{StepFailure, StepPosition};
use crate::step::span;
use crate::step::verbs::{Registered, show_completion};

/// The maximum number of turns of the stack in one file; more turns mean an endless loop.
const MAX_TURNS: u64 = 5_000_000;
/// The maximum number of rounds at one instant.
const MAX_ROUNDS: u32 = 10_000;
/// The maximum number of packets and of notices that wait for a step.
const MAX_WAITING: usize = 100_000;
/// The maximum number of kept lines of the log.
const MAX_HAPPENED: usize = 100_000;
/// The seed of all randomness, so that every run of a file is the same.
const SEED: u64 = 1;
/// The maximum memory for received data, in bytes.
const RECEIVE_BYTES: u64 = 64 << 20;
/// The time when a file begins. It is not 0, because some programs measure from events before the first.
const START: Instant = Instant::after(Duration::from_secs(1_000));

/// A bench could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The program uses a construct that the interpreter does not run.
    #[error(transparent)]
    Unsupported(#[from] hawser_interp::Unsupported),
    /// The addresses or limits are invalid.
    #[error(transparent)]
    Config(#[from] hawser_engine::StackConfigError),
}

struct SentPacket {
    at: Instant,
    frame: Frame,
    sender: Option<Sender>,
}

/// One stack that runs a program, driven by a file's steps.
pub struct StepBench {
    program: Arc<dyn Program>,
    pub(crate) format: Format,
    pub(crate) stack: Stack,
    wire: SimWire,
    causes: Causes,
    pub(crate) setup: StepSetup,
    pub(crate) now: Instant,
    /// The time from which relative times count.
    last: Instant,
    turns: u64,
    handles: BTreeMap<String, Handle>,
    /// The connections of listeners that have not been accepted.
    incoming: VecDeque<(Handle, Handle)>,
    notices: VecDeque<(Handle, Notice)>,
    queue: VecDeque<SentPacket>,
    /// The sent and received length of each handle's stream.
    streams: BTreeMap<Handle, (u64, u64)>,
    pub(crate) names: BoundNames,
    /// The registered memory, by name.
    pub(crate) memory: BTreeMap<String, Registered>,
    every: BTreeMap<(bool, String), PacketLiteral>,
    conditions: Conditions,
    happened: Happened,
}

/// A log of the run, as steps.
#[derive(Default)]
struct Happened {
    lines: Vec<String>,
    /// The time of the last line.
    last: Duration,
    /// The number of lines that were taken already.
    taken: usize,
}

impl Happened {
    fn step(&mut self, at: Duration, text: &str) {
        let since = span::show(at.saturating_sub(self.last));
        self.last = at;
        self.line(format!("+{since:<10} {text}"));
    }

    fn line(&mut self, text: String) {
        if self.lines.len() < MAX_HAPPENED {
            self.lines.push(text);
        }
    }
}

pub(crate) type StepOutcome = Result<(), StepFailure>;

impl StepBench {
    /// Creates a stack that runs a program between the ends of a file. With `events`, the log also contains
    /// the effects of each event.
    ///
    /// # Errors
    /// The reason why it cannot be set up.
    pub fn new(program: Arc<dyn Program>, steps: &Steps, events: bool) -> Result<StepBench, SetupError> {
        let setup = steps.setup.clone();
        let own = std::iter::once(&setup.local).chain(&setup.others);
        let interface = InterfaceConfig {
            addresses: own.map(|ip| (*ip, if ip.is_ipv4() { 8 } else { 64 })).collect(),
            gateways: Vec::new(),
            mtu: setup.mtu,
        };
        let wire = SimWire::new(setup.mtu);
        let mut config = StackConfig::new(interface, SEED);
        // A file's data is accepted whole.
        config.limits.first_bytes = config.limits.tx_bytes;
        config.limits.rx_bytes = RECEIVE_BYTES;
        let mut stack = Stack::new(program.clone(), config, wire.caps())?;
        let causes = Causes::default();
        causes.observe(&mut stack, START, events)?;
        Ok(StepBench {
            format: Format::new(&*program)?,
            program,
            stack,
            wire,
            causes,
            setup,
            now: START,
            last: START,
            turns: 0,
            handles: BTreeMap::new(),
            incoming: VecDeque::new(),
            notices: VecDeque::new(),
            queue: VecDeque::new(),
            streams: BTreeMap::new(),
            names: BoundNames::new(),
            memory: BTreeMap::new(),
            every: BTreeMap::new(),
            conditions: Conditions::default(),
            happened: Happened::default(),
        })
    }

    /// Executes a step.
    ///
    /// # Errors
    /// The deviation from the step.
    pub(crate) fn step(&mut self, line: &StepLine) -> StepOutcome {
        let due = match line.when {
            StepTime::After(span) => self.last + span,
            StepTime::At(span) => START + span,
        };
        if let Step::Out { count, packet, within } = &line.step {
            return (0..*count).try_for_each(|_| self.expect(line, packet, due, *within));
        }
        if let Step::OutNothing(until) = line.step {
            let until = match until {
                StepTime::After(span) => due + span,
                StepTime::At(span) => START + span,
            };
            return self.expect_nothing(line, until);
        }
        if due < self.now && matches!(line.when, StepTime::At(_)) {
            let now = span::show(self.elapsed());
            return Err(self.wrong(
                line,
                Error::new(1, format!("this time is in the past: it is now {now}")),
            ));
        }
        self.run_until(line, due, false)?;
        self.last = due;
        // Notices are logged on arrival.
        if !matches!(
            line.step,
            Step::Notify { .. } | Step::Completion { .. } | Step::In(_)
        ) {
            self.happened.step(self.now - START, rest_of(line));
        }
        match &line.step {
            Step::Wait | Step::Out { .. } | Step::OutNothing(_) => Ok(()),
            Step::OutAny => {
                self.queue.clear();
                Ok(())
            }
            Step::Every { inbound, packet } => {
                self.format
                    .check(packet)
                    .map_err(|error| self.wrong(line, error))?;
                self.every
                    .insert((*inbound, packet.blueprint.clone()), packet.clone());
                Ok(())
            }
            Step::In(packet) => self.arrive(line, packet),
            Step::Assert { text, column } => self.assert(line, text, *column),
            Step::Notify { handle, notice, error } => self.notice(line, handle, notice, error.as_deref()),
            Step::Gone { handle } => self.gone(line, handle),
            Step::Completion { handle, fields } => self.completion(line, handle, fields),
            Step::Holds { memory, data, at } => self.holds(line, memory, (data, at)),
            Step::Request { handle, request, fails } => self.request(line, handle, request, fails.as_deref()),
        }
    }

    /// Checks that no unexpected packet is left.
    pub(crate) fn finish(&mut self, line: &StepLine) -> StepOutcome {
        self.expect_nothing(line, self.now)
    }

    /// Discards the packets that no step expects.
    pub(crate) fn forget_packets(&mut self) {
        self.queue.clear();
    }

    /// Returns the lines of the log since the last call.
    pub(crate) fn take_happened(&mut self) -> Vec<String> {
        let new = self
            .happened
            .lines
            .get(self.happened.taken..)
            .unwrap_or_default()
            .to_vec();
        self.happened.taken = self.happened.lines.len();
        new
    }

    pub(crate) fn all_happened(&self) -> &[String] {
        &self.happened.lines
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now - START
    }

    // Time.

    /// Lets time pass; with `stop`, only until a packet leaves.
    fn run_until(&mut self, line: &StepLine, until: Instant, stop: bool) -> StepOutcome {
        loop {
            self.turn(line)?;
            if stop && !self.queue.is_empty() {
                return Ok(());
            }
            match self.stack.next_deadline() {
                Some(deadline) if deadline <= until => self.now = deadline.max(self.now),
                _ => {
                    self.now = until.max(self.now);
                    return Ok(());
                }
            }
        }
    }

    /// Does all work that is due now.
    fn turn(&mut self, line: &StepLine) -> StepOutcome {
        for _ in 0..MAX_ROUNDS {
            self.turns += 1;
            let any = self.stack.poll(self.now, &mut self.wire);
            let any = any.map_err(|error| self.failed(line, "the stack runs", error.to_string()))?;
            self.collect();
            if let Some(text) = self.causes.take_assert() {
                let happened = format!("an assert of the program failed: {text}");
                return Err(self.failed(line, "the program's own asserts hold", happened));
            }
            if self.turns > MAX_TURNS {
                break;
            }
            if !any {
                return Ok(());
            }
        }
        Err(self.failed(
            line,
            "the stack comes to rest",
            "it never stops working: check whether the program raises an event, or starts a timer of 0, \
             each time"
                .into(),
        ))
    }

    /// Collects the stack's packets and notices.
    fn collect(&mut self) {
        for event in self.causes.take_events() {
            event
                .lines()
                .for_each(|text| self.happened.line(format!("// {text}")));
        }
        let at = self.now - START;
        let frames: Vec<Frame> = self.wire.sent().collect();
        for mut frame in frames {
            frame.complete();
            let sender = self.causes.sender(frame.cause);
            let sent = SentPacket { at: self.now, frame, sender };
            let text = self.show(&sent);
            if sent.sender.is_none() {
                self.happened.line(format!("// {text}"));
                continue;
            }
            self.happened.step(at, &format!("> {text}"));
            if self.queue.len() < MAX_WAITING {
                self.queue.push_back(sent);
            }
        }
        while let Some((handle, notice)) = self.stack.next_notice() {
            if let Notice::Accepted(child) = notice {
                self.incoming.push_back((handle, child));
            }
            self.note_notice(handle, notice);
            if self.notices.len() < MAX_WAITING {
                self.notices.push_back((handle, notice));
            }
        }
    }

    fn note_notice(&mut self, handle: Handle, notice: Notice) {
        let at = self.now - START;
        let known = self.handles.iter().find(|(_, known)| **known == handle);
        if let Some((name, _)) = known {
            let prefix = match name.as_str() {
                CONNECTION => String::new(),
                name => format!("{name}: "),
            };
            if let (Notice::Message(words), true) = (notice, self.stack.has_verbs()) {
                let shown = show_completion(words);
                return self.happened.step(at, &format!("{prefix}{shown}"));
            }
            let (word, error) = notice_word(notice);
            let readable = match notice {
                Notice::Readable => format!("  // {} bytes", self.stack.readable(handle)),
                _ => String::new(),
            };
            self.happened
                .step(at, &format!("{prefix}notify {word}{error}{readable}"));
        }
    }

    /// Shows a packet as it is written, with its sender.
    fn show(&self, sent: &SentPacket) -> String {
        let Some(sender) = &sent.sender else {
            return format!("the network layer sends {}", sent.frame.summary());
        };
        match self.format.open(sender.blueprint, &sent.frame) {
            Ok(opened) => self.format.show(&opened).to_string(),
            Err(error) => {
                let name = &self.format.module().blueprints[sender.blueprint].name;
                let bytes: String = whole(&sent.frame)
                    .iter()
                    .take(64)
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                format!("{name}{{}} // {}: {bytes}", describe(error))
            }
        }
    }

    // Packets.

    /// Delivers a packet.
    fn arrive(&mut self, line: &StepLine, packet: &PacketLiteral) -> StepOutcome {
        let packet = self.completed(true, packet);
        let ends = (self.setup.remote, self.setup.local);
        let frame = self.format.build(&packet, ends, &self.names);
        let frame = frame.map_err(|error| self.wrong(line, error))?;
        let text = match self.format.opened(&packet, &frame) {
            Some(shown) => format!("< {shown}"),
            None => rest_of(line).to_owned(),
        };
        self.happened.step(self.now - START, &text);
        let before = self.counts();
        self.wire.arrive(self.now, frame);
        self.turn(line)?;
        let counted: Vec<String> = self
            .counts()
            .into_iter()
            .zip(before)
            .filter(|((_, after), (_, before))| after != before)
            .map(|((name, _), _)| name)
            .collect();
        if !counted.is_empty() {
            self.happened.line(format!("// counted: {}", counted.join(", ")));
        }
        Ok(())
    }

    /// Returns the counts of irregular events.
    fn counts(&self) -> Vec<(String, u64)> {
        let stack = self
            .stack
            .counters()
            .rows()
            .filter(|(name, _)| !StackCounters::WORK.contains(name));
        let stack = stack.map(|(name, count)| (name.to_owned(), count));
        let interface = self.stack.interface_counters();
        let drops = hawser_engine::net::DropReason::ALL.iter();
        let drops = drops.map(|reason| (reason.label().to_owned(), interface.dropped(*reason)));
        stack.chain(drops).collect()
    }

    /// Adds the default fields of its kind to a packet.
    fn completed(&self, inbound: bool, packet: &PacketLiteral) -> PacketLiteral {
        let mut packet = packet.clone();
        if let Some(every) = self.every.get(&(inbound, packet.blueprint.clone())) {
            for (fields, more) in [(&mut packet.ip, &every.ip), (&mut packet.fields, &every.fields)] {
                let missing = more
                    .iter()
                    .filter(|field| !fields.iter().any(|known| known.name == field.name));
                let missing: Vec<_> = missing.cloned().collect();
                fields.splice(0..0, missing);
            }
        }
        packet
    }

    /// Expects that a packet leaves at a time, or within a span after it.
    fn expect(
        &mut self,
        line: &StepLine,
        packet: &PacketLiteral,
        due: Instant,
        within: Option<Duration>,
    ) -> StepOutcome {
        self.format
            .check(packet)
            .map_err(|error| self.wrong(line, error))?;
        let tolerance = self.setup.tolerance;
        let until = due + within.unwrap_or(Duration::ZERO).max(tolerance);
        self.run_until(line, until, true)?;
        let expected = format!("> {packet}");
        let Some(sent) = self.queue.pop_front() else {
            let until = span::show(until - START);
            return Err(self.failed(line, expected, format!("no packet left until {until}")));
        };
        let wanted = self.completed(false, packet);
        let happened = format!("> {} at {}", self.show(&sent), span::show(sent.at - START));
        let mut names = self.names.clone();
        let note = match self.format.compare(&wanted, &sent.frame, &mut names) {
            Err(ImageMismatch::Wrong(error)) => return Err(self.wrong(line, error)),
            Err(ImageMismatch::Differs(what)) => Some(what),
            Ok(()) if sent.at > until || sent.at + tolerance < due => {
                let due = span::show(due - START);
                Some(format!(
                    "it left at {}, not at {due}",
                    span::show(sent.at - START)
                ))
            }
            Ok(()) => None,
        };
        self.names = names;
        self.last = sent.at;
        match note {
            None => Ok(()),
            Some(note) => {
                let mut failure = self.failed(line, expected, happened);
                failure.notes = vec![note];
                failure.notes.extend(sent_by(&sent));
                Err(failure)
            }
        }
    }

    /// Expects that no packet leaves until a time.
    fn expect_nothing(&mut self, line: &StepLine, until: Instant) -> StepOutcome {
        self.run_until(line, until, true)?;
        self.last = until;
        let Some(sent) = self.queue.pop_front() else {
            return Ok(());
        };
        let happened = format!("> {} at {}", self.show(&sent), span::show(sent.at - START));
        let expected = format!("no packet until {}", span::show(until - START));
        let mut failure = self.failed(line, expected, happened);
        failure.notes.extend(sent_by(&sent));
        Err(failure)
    }

    // Applications.

    fn request(
        &mut self,
        line: &StepLine,
        handle: &Option<String>,
        request: &Request,
        fails: Option<&str>,
    ) -> StepOutcome {
        let wanted = match fails {
            None => None,
            Some(name) => Some(errno(name).ok_or_else(|| {
                let hint = "the name of an error, for example `listen 7001 fails EADDRINUSE`";
                self.wrong(
                    line,
                    Error::new(line.place.column, format!("`{name}` is not an error")).hint(hint),
                )
            })?),
        };
        let refused = self.ask(line, handle, request)?.err();
        match (refused, wanted) {
            (None, None) => {}
            (Some(error), Some(wanted)) if error.errno().0 == wanted => {}
            (None, Some(_)) => {
                let expected = format!("it fails with {}", fails.unwrap_or_default());
                return Err(self.failed(line, expected, "it did not fail".into()));
            }
            (Some(error), _) => {
                let expected = fails.map_or("it is done".to_owned(), |name| format!("it fails with {name}"));
                let happened = format!("it failed with {}: {error}", errno_name(error.errno().0));
                return Err(self.failed(line, expected, happened));
            }
        }
        self.turn(line)
    }

    /// Executes a request. A rejection by the stack or the program is the inner error.
    fn ask(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        request: &Request,
    ) -> Result<Result<(), RequestError>, StepFailure> {
        let name_or = |usual: &str| name.clone().unwrap_or_else(|| usual.to_owned());
        let now = self.now;
        match request {
            Request::Listen { port } => {
                let local = SocketAddr::new(self.setup.local, *port);
                let opened = self.stack.listen(now, local, 128);
                Ok(opened.map(|handle| self.name(name_or(LISTENER), handle)))
            }
            Request::Connect { to, port, from } => {
                let remote = SocketAddr::new(to.unwrap_or(self.setup.remote), *port);
                let local = (*from > 0).then(|| SocketAddr::new(self.setup.local, *from));
                let opened = self.stack.connect(now, remote, local);
                Ok(opened.map(|handle| self.name(name_or(CONNECTION), handle)))
            }
            Request::Accept { from } => {
                let listener = self.handle(line, from.as_ref(), LISTENER)?;
                let found = self.incoming.iter().position(|(of, _)| *of == listener);
                let Some((_, child)) = found.and_then(|index| self.incoming.remove(index)) else {
                    return Err(self.failed(line, "a connection to accept", "there is none".into()));
                };
                self.stack.accept(listener);
                self.name(name_or(CONNECTION), child);
                let held: Vec<_> = self
                    .notices
                    .iter()
                    .filter(|(of, _)| *of == child)
                    .copied()
                    .collect();
                held.into_iter()
                    .for_each(|(of, notice)| self.note_notice(of, notice));
                Ok(Ok(()))
            }
            Request::Send { data, takes } => {
                let handle = self.handle(line, name.as_ref(), CONNECTION)?;
                let payload = Payload::parse(data).map_err(|error| self.wrong(line, error))?;
                let sent = self.streams.get(&handle).map_or(0, |(sent, _)| *sent);
                let bytes = payload.bytes(sent);
                let taken = match self.stack.send(now, handle, &bytes) {
                    Ok(taken) => taken as u64,
                    Err(error) => return Ok(Err(error)),
                };
                self.streams.entry(handle).or_default().0 += taken;
                let wanted = takes.unwrap_or(bytes.len() as u64);
                if taken == wanted {
                    return Ok(Ok(()));
                }
                Err(self.failed(line, format!("{wanted} bytes are taken"), format!("{taken} were")))
            }
            Request::Recv { data } => self.recv(line, name, data).map(Ok),
            Request::Close | Request::Abort | Request::Release => {
                let handle = self.handle(line, name.as_ref(), CONNECTION)?;
                match request {
                    Request::Close => self.stack.close(now, handle),
                    Request::Abort => self.stack.abort(now, handle),
                    _ => self.stack.release(handle),
                }
                Ok(Ok(()))
            }
            Request::Open { direction, from } => {
                let connection = self.handle(line, from.as_ref(), CONNECTION)?;
                let opened = self.stack.open_stream(now, connection, *direction);
                Ok(opened.and_then(|stream| {
                    let stream = stream.ok_or(RequestError::Refused(Errno::AGAIN))?;
                    self.name(name_or(STREAM), stream);
                    Ok(())
                }))
            }
            Request::Reset { reason } => {
                let handle = self.handle(line, name.as_ref(), STREAM)?;
                Ok(self.stack.reset(now, handle, *reason))
            }
            Request::Stop { reason } => {
                let handle = self.handle(line, name.as_ref(), STREAM)?;
                Ok(self.stack.stop(now, handle, *reason))
            }
            Request::Option { option, value } => {
                let handle = self.handle(line, name.as_ref(), CONNECTION)?;
                let number = errno(option).or_else(|| option.parse().ok()).ok_or_else(|| {
                    let hint = "a number, or a name of the language as in `option OPT_NODELAY 1`";
                    self.wrong(
                        line,
                        Error::new(line.place.column, format!("`{option}` is not an option")).hint(hint),
                    )
                })?;
                let value = self.number(line, value)?;
                Ok(self.stack.set_option(now, handle, number, value))
            }
            Request::Pair(number, from, peer) => self.open_pair(line, name, (number, from, *peer)),
            Request::Register(fields) => self.register(line, name, fields),
            Request::Deregister => self.deregister(line, name).map(Ok),
            Request::Post(fields) => self.post(line, name, fields),
        }
    }

    fn recv(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        data: &crate::step::literal::ValueLiteral,
    ) -> StepOutcome {
        let handle = self.handle(line, name.as_ref(), CONNECTION)?;
        let wanted = Payload::parse(data).map_err(|error| self.wrong(line, error))?;
        // One byte more than expected reveals excess data.
        let mut bytes = vec![0; wanted.len() + 1];
        let mut len = 0;
        while len < bytes.len() {
            match self.stack.recv(self.now, handle, &mut bytes[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) => {
                    return Err(self.failed(line, "bytes to read", format!("it failed: {error}")));
                }
            }
        }
        bytes.truncate(len);
        self.streams.entry(handle).or_default().1 += len as u64;
        if wanted.matches(&bytes) {
            return Ok(());
        }
        let more = if len > wanted.len() { " or more" } else { "" };
        let shown = crate::step::payload::show(&bytes);
        Err(self.failed(
            line,
            format!("recv {}", data.literal),
            format!("recv {shown}{more}"),
        ))
    }

    pub(crate) fn name(&mut self, name: String, handle: Handle) {
        self.handles.insert(name, handle);
    }

    pub(crate) fn handle(
        &self,
        line: &StepLine,
        name: Option<&String>,
        usual: &str,
    ) -> Result<Handle, StepFailure> {
        let name = name.map_or(usual, String::as_str);
        self.handles.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.handles.keys().map(String::as_str).collect();
            let hint = match known.is_empty() {
                true => "`connect`, `listen` and `accept` open some: `NAME: connect 7001`".to_owned(),
                false => format!("there are: {}", known.join(", ")),
            };
            self.wrong(
                line,
                Error::new(line.place.column, format!("no handle is named `{name}`")).hint(hint),
            )
        })
    }

    /// Checks a condition about the contexts of the open handles that it names.
    fn assert(&mut self, line: &StepLine, text: &str, column: u32) -> StepOutcome {
        let mut contexts = Vec::new();
        for name in named(text)
            .into_iter()
            .filter(|name| self.handles.contains_key(*name))
        {
            let handle = self.handle(line, Some(&name.to_owned()), CONNECTION)?;
            let Some((id, bytes)) = self.stack.context(handle) else {
                return Err(self.failed(line, text, format!("the context of `{name}` has ended")));
            };
            contexts.push(Context { name: name.to_owned(), id, bytes: bytes.to_vec() });
        }
        let result = self
            .conditions
            .holds(&*self.program, &self.format, text, &contexts);
        match result {
            Ok(None) => Ok(()),
            Ok(Some(happened)) => Err(self.failed(line, text, happened)),
            Err(mut error) => {
                error.column += column - 1;
                Err(self.wrong(line, error))
            }
        }
    }

    fn gone(&mut self, line: &StepLine, name: &Option<String>) -> StepOutcome {
        let handle = self.handle(line, name.as_ref(), CONNECTION)?;
        match self.stack.context(handle) {
            None => Ok(()),
            Some(_) => Err(self.failed(line, "its context has ended", "it is there".into())),
        }
    }

    fn notice(
        &mut self,
        line: &StepLine,
        name: &Option<String>,
        notice: &str,
        error: Option<&str>,
    ) -> StepOutcome {
        let handle = self.handle(line, name.as_ref(), CONNECTION)?;
        let expected = format!(
            "notify {notice}{}",
            error.map_or(String::new(), |error| format!(" {error}"))
        );
        let Some(found) = self.next_notice(handle, notice) else {
            return Err(self.failed(line, expected, "no such notice arrived".into()));
        };
        let (word, errno) = notice_word(found);
        if word == notice && (error.is_none() || error == errno.strip_prefix(' ')) {
            return Ok(());
        }
        Err(self.failed(line, expected, format!("notify {word}{errno}")))
    }

    /// Takes the next notice of a handle. Notices of room are skipped unless one of them is expected.
    pub(crate) fn next_notice(&mut self, handle: Handle, wanted: &str) -> Option<Notice> {
        let is_room = |word: &str| matches!(word, "READABLE" | "WRITABLE");
        let is_it = |(of, known): &(Handle, Notice)| {
            let word = notice_word(*known).0;
            *of == handle && (word == wanted || !is_room(word) && !is_room(wanted))
        };
        let index = self.notices.iter().position(is_it)?;
        Some(self.notices.remove(index)?.1)
    }

    // Failures.

    pub(crate) fn failed(
        &self,
        line: &StepLine,
        expected: impl Into<String>,
        happened: String,
    ) -> StepFailure {
        StepFailure {
            place: line.place,
            at: self.elapsed(),
            expected: expected.into(),
            happened,
            notes: Vec::new(),
        }
    }

    pub(crate) fn wrong(&self, line: &StepLine, error: Error) -> StepFailure {
        let hint = (!error.hint.is_empty()).then(|| format!("hint: {}", error.hint));
        StepFailure {
            place: StepPosition { line: line.place.line, column: error.column },
            at: self.elapsed(),
            expected: String::new(),
            happened: error.message,
            notes: hint.into_iter().collect(),
        }
    }
}

/// The default names of a connection and a listener.
pub(crate) const CONNECTION: &str = "conn";
const LISTENER: &str = "listener";
const STREAM: &str = "stream";

/// Returns a step without its time.
fn rest_of(line: &StepLine) -> &str {
    let behind = line.text.trim_start_matches('+');
    let timed = behind.len() < line.text.len() || behind.starts_with(|c: char| c.is_ascii_digit());
    match timed {
        true => behind
            .find(char::is_whitespace)
            .map_or("", |at| behind[at..].trim_start()),
        false => &line.text,
    }
}

fn sent_by(sent: &SentPacket) -> Option<String> {
    let line = &sent.sender.as_ref()?.line;
    (!line.file.is_empty()).then(|| format!("sent by {}:{}", line.file, line.line))
}
