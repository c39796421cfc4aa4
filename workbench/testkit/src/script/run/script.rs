//! The events of a script, in order.
//!
//! Time passes only while an event waits for its own time or for a packet. The stack's work in between
//! happens at the stack's own times.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use hawser_time::Instant;

use super::ScriptEnvironment;
use super::calls::{CallError, CallProgress, Kernel};
use super::config::Config;
use super::expect::{Match, SentPacket, compare, is_extra};
use super::flows::{Cookies, Flows, ScriptFlow};
use super::inject::{self, Impossible};
use super::report::{ScriptFailure, ScriptOutcome, ScriptReport, seconds};
use super::symbols::{errno, errno_name, number};
use super::world::Environment;
use crate::script::python::{self, PythonFault, Value};
use crate::script::syntax::tree::{
    ACK, Action, Call, EventTime, Expression, IpPacket, PacketBody, SYN, ScriptEvent, Segment,
};
use crate::script::syntax::{Script, ScriptPosition};
use crate::script::wire::{self, DecodedContent, Tcp};

/// The maximum number of lines of a trace that are kept.
const TRACE: usize = 10_000;
/// The maximum number of turns of the stack in one script; more turns mean an endless loop.
const TURNS: u64 = 20_000_000;
/// The maximum number of packets that wait to be compared.
const QUEUE: usize = 100_000;

/// A call that has not returned.
struct BlockedCall {
    call: Call,
    place: ScriptPosition,
    /// The time by which the call has to return.
    due: Instant,
    stage: u64,
}

pub(super) struct Runner<'a> {
    script: Script,
    config: Config,
    /// True after the first event other than a command.
    begun: bool,
    /// The folder of set-up scripts.
    folder: PathBuf,
    bench: &'a ScriptEnvironment<'a>,
    world: Box<dyn Environment>,
    kernel: Kernel,
    flows: Flows,
    queue: VecDeque<SentPacket>,
    pending: Option<BlockedCall>,
    start: Instant,
    /// The time from which relative times count.
    last: Instant,
    /// The delay with which the current event began, in real time.
    late: Duration,
    variables: BTreeMap<String, Value>,
    printed: Vec<String>,
    trace: Vec<String>,
    turns: u64,
}

/// A result whose error ends the script early.
type StepResult<T> = Result<T, ScriptOutcome>;

impl<'a> Runner<'a> {
    pub(super) fn new(
        script: Script,
        (config, folder): (Config, PathBuf),
        bench: &'a ScriptEnvironment<'a>,
        world: Box<dyn Environment>,
        kernel: Kernel,
    ) -> Runner<'a> {
        let start = world.now();
        let cookies = Cookies::from_table(kernel.cookies());
        let flows = Flows::new(cookies);
        Runner {
            script,
            config,
            begun: false,
            folder,
            bench,
            world,
            kernel,
            flows,
            queue: VecDeque::new(),
            pending: None,
            start,
            last: start,
            late: Duration::ZERO,
            variables: BTreeMap::new(),
            printed: Vec::new(),
            trace: Vec::new(),
            turns: 0,
        }
    }

    pub(super) fn run(mut self) -> ScriptReport {
        let events = std::mem::take(&mut self.script.events);
        let result = events
            .iter()
            .try_for_each(|event| self.event(event))
            .and_then(|()| self.finish());
        let verdict = match result {
            Ok(()) => ScriptOutcome::Passed,
            Err(verdict) => verdict,
        };
        // Packets that no event expected help to explain a failure.
        ScriptReport {
            notes: self.config.notes,
            printed: self.printed,
            trace: self.trace,
            in_kernel: self.world.handled(),
            ..ScriptReport::new(verdict)
        }
    }

    fn failure(
        &self,
        place: ScriptPosition,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> ScriptFailure {
        let at = self.world.now() - self.start;
        ScriptFailure { place, at, expected: expected.into(), got: got.into() }
    }

    fn failed<T>(
        &self,
        place: ScriptPosition,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> StepResult<T> {
        Err(ScriptOutcome::Failed(self.failure(place, expected, got)))
    }

    /// Runs an event, from its time on.
    fn event(&mut self, event: &ScriptEvent) -> StepResult<()> {
        let (from, to) = self.times(event.when);
        self.late = Duration::ZERO;
        self.begun |= !matches!(event.action, Action::Command(_));
        match &event.action {
            Action::Outbound(packet) => return self.outbound(packet, event, (from, to)),
            Action::Inbound(packet) => {
                self.begin(from)?;
                self.inbound(packet, event.place)?;
            }
            Action::Call(call) => {
                self.finish_pending()?;
                self.begin(from)?;
                self.call(call, event)?;
            }
            Action::Command(command) => {
                self.wait_until(from)?;
                self.command(command.text.trim(), event.place)?;
            }
            Action::Code(block) => {
                self.wait_until(from)?;
                self.settle()?;
                let names = self.kernel.info();
                let result = python::execute(block, &names, &mut self.variables, &mut self.printed);
                if let Err(error) = result {
                    let (expected, got) = match error.why {
                        PythonFault::IsFalse { assertion, message } => (assertion, message),
                        PythonFault::NoValue(why) => ("code that runs".into(), why.to_string()),
                    };
                    return self.failed(error.place, expected, got);
                }
            }
        }
        self.last = match event.when {
            EventTime::Any => self.world.now(),
            _ => from + self.late,
        };
        Ok(())
    }

    /// Returns the earliest and the latest time of an event.
    fn times(&self, when: EventTime) -> (Instant, Instant) {
        match when {
            EventTime::At(at) => (self.start.plus_nanos(at), self.start.plus_nanos(at)),
            EventTime::After(after) => (self.last.plus_nanos(after), self.last.plus_nanos(after)),
            EventTime::Between(from, to) => (self.start.plus_nanos(from), self.start.plus_nanos(to)),
            EventTime::AfterBetween(from, to) => (self.last.plus_nanos(from), self.last.plus_nanos(to)),
            EventTime::Any => (self.world.now(), Instant::NEVER),
        }
    }

    /// Runs a command in the middle of a script. Its params apply to connections that begin from now on.
    /// Settings of the device and of limits come too late.
    fn command(&mut self, text: &str, place: ScriptPosition) -> StepResult<()> {
        // The commands before all events have been read already.
        if !self.begun {
            return Ok(());
        }
        let before = (
            self.config.params.clone(),
            self.config.notes.len(),
            self.config.keepalive_idle,
        );
        if let Err(what) = self
            .config
            .command(text, &self.folder, self.bench.table, self.bench.read)
        {
            return Err(ScriptOutcome::Unsupported(self.failure(place, "", beyond(what))));
        }
        let asked = std::mem::take(&mut self.config.listeners_asked_for);
        if let Some(port) = asked.iter().find(|port| !self.kernel.listens(**port)) {
            return self.failed(
                place,
                format!("a listener at port {port}"),
                "no socket listens at this port",
            );
        }
        let counts = std::mem::take(&mut self.config.counts_asked_for);
        for (state, digits) in &counts {
            let found = self.kernel.count_in(state).to_string();
            if !found.contains(digits.as_str()) {
                return self.failed(
                    place,
                    format!("{digits} sockets in {state}"),
                    format!("{found} sockets are in this state"),
                );
            }
        }
        let dropped = std::mem::take(&mut self.config.dropped);
        dropped.iter().for_each(|state| self.kernel.drop_in(state));
        let answered = !asked.is_empty() || !counts.is_empty() || !dropped.is_empty();
        let idle_is_new = self.config.keepalive_idle != before.2;
        self.kernel.config.keepalive_idle = self.config.keepalive_idle;
        if self.config.params == before.0 {
            if !answered && !idle_is_new && self.config.notes.len() == before.1 {
                let line = text.lines().map(str::trim).collect::<Vec<_>>().join("; ");
                self.config
                    .notes
                    .push(format!("`{line}` has no effect in the middle of the script"));
            }
            return Ok(());
        }
        self.kernel.config.params = self.config.params.clone();
        let program = super::program(&mut self.config, self.bench.program);
        let changed = program.map_err(|error| error.to_string()).and_then(|program| {
            let changed = self.kernel.stack.change_params(program);
            changed.map_err(|error| error.to_string())
        });
        changed.or_else(|why| self.failed(place, "params that can be changed", why))
    }

    fn inbound(&mut self, packet: &IpPacket, place: ScriptPosition) -> StepResult<()> {
        let inbound = match &packet.body {
            PacketBody::Tcp(segment) => {
                let begins = segment.flags & (SYN | ACK) == SYN || self.flows.current().is_none();
                let context = (begins, self.kernel.listening);
                inject::select(
                    &mut self.flows,
                    &self.config,
                    inject::inward(segment.ports),
                    context,
                );
                let flow = self.flows.current_with_cookies();
                flow.map(|(flow, cookies)| {
                    inject::segment(segment, &packet.ip, (flow, cookies), &self.config)
                })
            }
            PacketBody::Icmp(icmp) => self.flows.current().map(|flow| inject::icmp(icmp, flow)),
            PacketBody::Udp(..) => Some(Err(Impossible::Unsupported("UDP packets".into()))),
            PacketBody::Encapsulated(what) => Some(Err(Impossible::Unsupported(format!(
                "encapsulated packets (`{what}`)"
            )))),
        };
        let inbound = match inbound {
            Some(Ok(inbound)) => inbound,
            Some(Err(impossible)) => return Err(self.impossible(impossible, place)),
            None => {
                let wrong = Impossible::Wrong("the packet belongs to no connection".into());
                return Err(self.impossible(wrong, place));
            }
        };
        if let Some(flow) = self.flows.current()
            && let Some(isn) = flow.peer_isn
        {
            self.kernel.peer_isns.insert(flow.remote, isn);
        }
        self.record('<', &wire::expected(packet));
        let frames = match inbound.tcp {
            Some(tcp) if self.world.is_real() => inject::parts(&tcp, inbound.seg_size),
            _ => vec![inbound.bytes],
        };
        for frame in frames {
            // The packet arrives while the stack sleeps. Chains in front of the stack, if any, run first.
            let is_lent = self.kernel.stack.lend(self.world.wire());
            let mut done = self.world.inject(frame, inbound.seg_size);
            if is_lent {
                let now = self.world.now();
                done = done.and(self.kernel.stack.take_back(now, self.world.wire()));
            }
            if let Err(error) = done {
                return self.failed(
                    place,
                    "a packet from the peer",
                    format!("the device failed: {error}"),
                );
            }
        }
        self.settle()
    }

    fn impossible(&self, impossible: Impossible, place: ScriptPosition) -> ScriptOutcome {
        match impossible {
            Impossible::Unsupported(what) => {
                ScriptOutcome::Unsupported(self.failure(place, "", beyond(what)))
            }
            Impossible::Wrong(why) => ScriptOutcome::Unreadable(self.failure(place, "", why)),
        }
    }

    fn outbound(
        &mut self,
        packet: &IpPacket,
        event: &ScriptEvent,
        (from, to): (Instant, Instant),
    ) -> StepResult<()> {
        let segment: &Segment = match &packet.body {
            PacketBody::Tcp(segment) => segment,
            PacketBody::Udp(..) | PacketBody::Icmp(_) => {
                return Err(self.impossible(
                    Impossible::Unsupported("outbound packets other than TCP".into()),
                    event.place,
                ));
            }
            PacketBody::Encapsulated(what) => {
                let what = format!("encapsulated packets (`{what}`)");
                return Err(self.impossible(Impossible::Unsupported(what), event.place));
            }
        };
        let expected = format!("> {}", wire::expected(packet));
        inject::select(
            &mut self.flows,
            &self.config,
            inject::outward(segment.ports),
            (false, None),
        );
        let earliest = from - self.config.tolerance;
        let latest = to + self.config.tolerance;
        let mut done = 0;
        let at = loop {
            self.settle()?;
            let Some((flow, cookies)) = self.flows.current_with_cookies() else {
                let wrong = Impossible::Wrong("the packet belongs to no connection".into());
                return Err(self.impossible(wrong, event.place));
            };
            let front = self.queue.iter().find(|sent| flow.sent(&sent.tcp)).cloned();
            let Some(front) = front else {
                if !self.turn(latest)? {
                    let got = if done == 0 {
                        "no packet".into()
                    } else {
                        format!("only {done} bytes of it")
                    };
                    return self.failed(event.place, format!("{expected} at {}", self.relative(from)), got);
                }
                continue;
            };
            let came = format!(
                "> {} at {}",
                shown(&front.tcp, flow),
                seconds(front.at - self.start)
            );
            if self.bench.leniency.extra_acks && done == 0 && is_extra(&mut self.queue, flow, segment, &front)
            {
                continue;
            }
            let outcome = compare(
                (packet, segment),
                &mut self.queue,
                (flow, cookies),
                &mut done,
                (&self.config, self.bench.leniency),
            );
            if let Match::No(why) = outcome {
                return self.failed(event.place, expected, format!("{came}\n            {why}"));
            }
            if front.at < earliest || front.at > latest {
                return self.failed(
                    event.place,
                    format!("{expected} at {}", self.relative(from)),
                    came,
                );
            }
            if let Match::Yes = outcome {
                break front.at;
            }
        };
        self.last = match event.when {
            EventTime::At(_) | EventTime::After(_) => from,
            EventTime::Between(..) | EventTime::AfterBetween(..) | EventTime::Any => at,
        };
        Ok(())
    }

    fn relative(&self, at: Instant) -> String {
        seconds(at - self.start)
    }

    fn call(&mut self, call: &Call, event: &ScriptEvent) -> StepResult<()> {
        let base = if matches!(event.when, EventTime::After(_) | EventTime::AfterBetween(..)) {
            self.last
        } else {
            self.start
        };
        let due = call.until.map(|until| base.plus_nanos(until));
        let mut stage = 0;
        let progress = self.attempt(call, event.place, &mut stage)?;
        match (progress, due) {
            (CallProgress::Done(answer), None) => self.check(call, event.place, &answer),
            (CallProgress::Done(answer), Some(due)) => {
                self.check(call, event.place, &answer)?;
                self.on_time(call, event.place, due)
            }
            (CallProgress::Blocked, Some(due)) => {
                self.pending = Some(BlockedCall { call: call.clone(), place: event.place, due, stage });
                Ok(())
            }
            (CallProgress::Blocked, None) => {
                // The call may wait only for events of this instant.
                self.pending = Some(BlockedCall {
                    call: call.clone(),
                    place: event.place,
                    due: self.world.now(),
                    stage,
                });
                Ok(())
            }
        }
    }

    /// Makes a call, and checks its effect on connections.
    fn attempt(&mut self, call: &Call, place: ScriptPosition, stage: &mut u64) -> StepResult<CallProgress> {
        self.kernel.now = self.world.now();
        let made = self.kernel.call(call, stage);
        if call.name == "listen" {
            self.flows.forget_current();
        }
        if let Some((local, remote)) = self.kernel.connecting.take() {
            self.flows.open(local, remote);
        }
        self.settle_stack()?;
        match made {
            Ok(progress) => Ok(progress),
            Err(CallError::Unsupported(what)) => {
                Err(ScriptOutcome::Unsupported(self.failure(place, "", beyond(what))))
            }
            Err(CallError::Misuse(why)) => Err(ScriptOutcome::Unreadable(self.failure(
                place,
                "",
                why.to_string(),
            ))),
        }
    }

    fn check(&self, call: &Call, place: ScriptPosition, answer: &super::calls::CallAnswer) -> StepResult<()> {
        let expected = result_text(call);
        let got = match answer.errno {
            0 => format!("{}() returned {}", call.name, answer.value),
            code => format!("{}() returned {} {}", call.name, answer.value, errno_name(code)),
        };
        let value_fits = match &call.result {
            Expression::Anything => true,
            result => number(result).is_ok_and(|value| value == answer.value),
        };
        let errno_fits = match call.errno.as_deref() {
            None => true,
            Some(name) => errno(name) == Some(answer.errno),
        };
        if !value_fits || !errno_fits {
            return self.failed(place, expected, got);
        }
        match &answer.differs {
            Some(differs) => self.failed(place, expected, format!("{got}, but {differs}")),
            None => Ok(()),
        }
    }

    fn on_time(&self, call: &Call, place: ScriptPosition, due: Instant) -> StepResult<()> {
        let now = self.world.now();
        let tolerance = self.config.tolerance;
        if now - due <= tolerance && due - now <= Instant::after(tolerance).since_origin() {
            return Ok(());
        }
        let expected = format!("{}() to return at {}", call.name, self.relative(due));
        self.failed(place, expected, format!("it returned at {}", self.relative(now)))
    }

    /// Resumes the blocked call.
    fn resume(&mut self) -> StepResult<bool> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(false);
        };
        match self.attempt(&pending.call, pending.place, &mut pending.stage)? {
            CallProgress::Done(answer) => {
                self.check(&pending.call, pending.place, &answer)?;
                self.on_time(&pending.call, pending.place, pending.due)?;
                Ok(true)
            }
            CallProgress::Blocked => {
                if self.world.now() > pending.due + self.config.tolerance {
                    let expected =
                        format!("{} at {}", result_text(&pending.call), self.relative(pending.due));
                    return self.failed(pending.place, expected, "the call has not returned");
                }
                self.pending = Some(pending);
                Ok(false)
            }
        }
    }

    /// Waits until the blocked call returns.
    fn finish_pending(&mut self) -> StepResult<()> {
        self.settle()?;
        while let Some(pending) = &self.pending {
            let limit = (pending.due + self.config.tolerance).plus_nanos(1);
            self.turn(limit)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> StepResult<()> {
        self.finish_pending()
    }

    /// Lets time pass until an event's time. A late start in real time delays all later events, because the
    /// machine was busy, not the stack.
    fn begin(&mut self, at: Instant) -> StepResult<()> {
        self.wait_until(at)?;
        if self.world.is_real() {
            self.late = self.world.now() - at;
            self.start += self.late;
            self.last += self.late;
        }
        Ok(())
    }

    /// Lets time pass until `at`.
    fn wait_until(&mut self, at: Instant) -> StepResult<()> {
        self.settle()?;
        while self.world.now() < at {
            self.turn(at)?;
        }
        Ok(())
    }

    /// Waits for the next occurrence, at most until `limit`, and processes it. Returns false if the limit is
    /// reached.
    fn turn(&mut self, limit: Instant) -> StepResult<bool> {
        if self.world.now() >= limit {
            return Ok(false);
        }
        let now = self.world.now();
        // A blocked call is checked when it is due, and when it is late.
        let due = self.pending.as_ref().map(|pending| pending.due);
        let late = due.map(|due| (due + self.config.tolerance).plus_nanos(1));
        let checks = [due, late].into_iter().flatten().filter(|at| *at > now);
        let next = checks
            .chain(self.kernel.stack.next_deadline())
            .fold(limit, Instant::min);
        if next == Instant::NEVER {
            return Ok(false); // no event is left, so time need not pass
        }
        if let Err(error) = self.world.wait(next) {
            return self.failed(
                ScriptPosition::default(),
                "a device that works",
                error.to_string(),
            );
        }
        self.settle()?;
        Ok(true)
    }

    /// Does all work that is due now.
    fn settle(&mut self) -> StepResult<()> {
        self.settle_stack()?;
        while self.pending.is_some() && self.resume()? {
            self.settle_stack()?;
        }
        Ok(())
    }

    /// Does the stack's part of that work.
    fn settle_stack(&mut self) -> StepResult<()> {
        loop {
            self.turns += 1;
            if self.turns > TURNS {
                return self.failed(
                    ScriptPosition::default(),
                    "a script that ends",
                    "the stack never comes to rest",
                );
            }
            let now = self.world.now();
            self.kernel.now = now;
            let polled = self.kernel.stack.poll(now, self.world.wire());
            let busy = match polled {
                Ok(busy) => busy,
                Err(error) => {
                    return self.failed(
                        ScriptPosition::default(),
                        "a device that works",
                        error.to_string(),
                    );
                }
            };
            let noticed = self.kernel.take_notices();
            self.kernel.settle_errors();
            self.kernel.remember();
            self.collect()?;
            if !busy && !noticed {
                return Ok(());
            }
        }
    }

    /// Collects the packets that the stack has sent.
    fn collect(&mut self) -> StepResult<()> {
        let frames = match self.world.sent() {
            Ok(frames) => frames,
            Err(error) => {
                return self.failed(
                    ScriptPosition::default(),
                    "a device that works",
                    error.to_string(),
                );
            }
        };
        for (at, frame) in frames {
            match wire::decode(&frame) {
                DecodedContent::Tcp(tcp) => self.take(at, tcp),
                // On a device, the kernel sends packets as well.
                DecodedContent::Other { from, .. } if from != self.config.local => {}
                DecodedContent::Other { protocol, len, .. } => {
                    self.record('>', &format!("a packet of protocol {protocol}, {len} bytes"));
                }
                DecodedContent::Broken(why) => {
                    return self.failed(
                        ScriptPosition::default(),
                        "packets that are right",
                        format!("the stack sent {why}"),
                    );
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, at: Instant, tcp: Tcp) {
        let text = match self.flows.find(&tcp) {
            Some(flow) => {
                flow.note(&tcp);
                shown(&tcp, flow)
            }
            None => wire::seen(&tcp, 0, 0),
        };
        self.record('>', &text);
        if self.queue.len() < QUEUE {
            self.queue.push_back(SentPacket { at, tcp });
        }
    }

    fn record(&mut self, direction: char, text: &str) {
        if self.trace.len() < TRACE {
            let at = seconds(self.world.now() - self.start);
            self.trace.push(format!("{at} {direction} {text}"));
        }
    }
}

/// Returns the minimum duration of events, if each happens on time.
pub(super) fn length(events: &[ScriptEvent]) -> Duration {
    let (mut last, mut latest) = (0_u64, 0);
    for event in events {
        last = match event.when {
            EventTime::At(at) | EventTime::Between(at, _) => at,
            EventTime::After(after) | EventTime::AfterBetween(after, _) => last.saturating_add(after),
            EventTime::Any => last,
        };
        latest = last.max(latest);
    }
    Duration::from_nanos(latest)
}

/// Shows a packet of the stack in the script's numbers.
fn shown(tcp: &Tcp, flow: &ScriptFlow) -> String {
    wire::seen(tcp, flow.own_base(tcp.flags), flow.peer_base(tcp.flags))
}

pub(super) fn beyond(what: impl std::fmt::Display) -> String {
    format!("not supported in scripts here: {what}")
}

/// Shows a call's expected result.
fn result_text(call: &Call) -> String {
    let value = match &call.result {
        Expression::Number(value) => value.to_string(),
        Expression::Word(word) => word.clone(),
        _ => "anything".into(),
    };
    let errno = call
        .errno
        .as_deref()
        .map(|name| format!(" {name}"))
        .unwrap_or_default();
    format!("{}() = {value}{errno}", call.name)
}
