//! The debugger's position, and its moves.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::trace::{Filter, Flows, TracedEvent};
use hawser_engine::Stack;
use hawser_engine::program::Program;
use hawser_interp::{Halted, Steps, Unsupported};
use hawser_sim::world::FrameFate;
use hawser_sim::{Options, ResolveError, Run, RunError, START, Scenario};

use crate::debug::breakpoint::{self, BreakCondition, BreakError, Breakpoint, Meant, PacketOrigin, Set};
use crate::debug::checked_expression::Cache;
use crate::debug::command::{Move, RunTarget};
use crate::debug::contexts::{Contexts, creates};
use crate::debug::player::{HostEvent, OccurrenceQueue, Player};
use crate::debug::program::HostProgram;
use crate::debug::stop::{Reason, RunOutcome, Stop};

/// A function that finds a program by name and sets its params: see [`hawser_sim::Resolve`].
pub type Resolver = Box<dyn Fn(&str, &[String]) -> Result<Arc<dyn Program>, ResolveError>>;

/// The input of a debugging session.
pub struct DebuggerInput {
    /// The scenario to run.
    pub scenario: Scenario,
    /// A seed that replaces the scenario's.
    pub seed: Option<u64>,
    /// The scenario's flows, by which events name their flow.
    pub flows: Arc<Flows>,
    /// The source of the scenario's programs.
    pub resolve: Resolver,
}

/// A scenario could not be debugged.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// The scenario cannot be run at all.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A host's program uses a construct that the interpreter does not run.
    #[error("host `{host}`: {error}")]
    Unsupported {
        /// The name of the host.
        host: String,
        /// The construct that does not run.
        error: Unsupported,
    },
}

/// The number of events between two calls of `pause`.
const EVENTS_PER_QUESTION: u64 = 256;

/// A debugger, positioned before a statement of an event or at the end of the run.
pub struct Debugger {
    begin: DebuggerInput,
    pub(crate) programs: Vec<HostProgram>,
    pub(crate) player: Option<Player>,
    /// For each host, its contexts before the event and the number of its earlier events.
    pub(crate) contexts: Vec<Contexts>,
    /// The life of each host at its last event.
    lives: Vec<u32>,
    counts: Vec<u64>,
    /// The number of events taken from runs so far.
    played: u64,
    /// The number of the event in the run; after the last event, one more than their count.
    pub(crate) number: u64,
    /// The current event; `None` when the run is over.
    pub(crate) current: Option<Current>,
    /// The index of the statement that is about to run.
    pub(crate) statement: usize,
    pub(crate) end: Option<RunOutcome>,
    pub(crate) breakpoints: Vec<Set>,
    last_breakpoint: u32,
    /// The hosts' contexts at the last stop.
    pub(crate) before: Vec<Contexts>,
    /// The selected host, if it is not the event's.
    pub(crate) selected: Option<usize>,
    /// The selected function: 0 is the innermost, 1 its caller.
    pub(crate) frame: usize,
    pub(crate) expressions: Cache,
}

/// The event of the debugger's position.
pub(crate) struct Current {
    pub(crate) seen: HostEvent,
    /// The event's number on its host.
    number: u64,
    event: OnceCell<TracedEvent>,
    steps: OnceCell<Steps>,
}

impl Current {
    /// Returns the event's trace, computed on demand, because most events are only passed.
    pub(crate) fn event(&self, program: &HostProgram) -> &TracedEvent {
        self.event.get_or_init(|| {
            let shown = self.seen.kept.shown();
            let event = program
                .tracer
                .borrow_mut()
                .event(&shown, &Filter::default(), &program.flows);
            TracedEvent { number: self.number, ..event.expect("every event is wanted") }
        })
    }

    /// Returns the statements that the event runs.
    pub(crate) fn steps(&self, program: &HostProgram) -> &Steps {
        self.steps.get_or_init(|| match self.seen.kept.outcome {
            Some(_) => program
                .interpreter
                .walk(&self.seen.before(), self.seen.kept.records.wanted()),
            None => Steps::default(),
        })
    }

    /// Returns the event's memory and call stack after this many of its statements.
    pub(crate) fn halted(&self, program: &HostProgram, statement: usize) -> Halted {
        match self.seen.kept.outcome {
            Some(_) => {
                program
                    .interpreter
                    .halt(&self.seen.before(), statement, self.seen.kept.records.wanted())
            }
            None => self.seen.before(),
        }
    }
}

impl Debugger {
    /// Starts before the first event of a scenario's run.
    ///
    /// # Errors
    /// The reason why it cannot be debugged.
    pub fn begin(begin: DebuggerInput) -> Result<Debugger, DebugError> {
        let found = Rc::new(RefCell::new(Vec::new()));
        let (into, flows) = (Rc::clone(&found), Arc::clone(&begin.flows));
        let player = start(&begin, move |host, stack| {
            let program = HostProgram::new(stack.program(), host, &flows);
            into.borrow_mut()
                .push(program.map_err(|error| (host.to_owned(), error)));
        })?;
        let programs: Result<Vec<_>, _> = found.take().into_iter().collect();
        let programs = programs.map_err(|(host, error)| DebugError::Unsupported { host, error })?;
        let hosts = programs.len();
        let mut debugger = Debugger {
            begin,
            programs,
            player: Some(player),
            contexts: vec![Contexts::default(); hosts],
            lives: vec![1; hosts],
            counts: vec![0; hosts],
            played: 0,
            number: 0,
            current: None,
            statement: 0,
            end: None,
            breakpoints: Vec::new(),
            last_breakpoint: 0,
            before: Vec::new(),
            selected: None,
            frame: 0,
            expressions: Cache::default(),
        };
        debugger.advance();
        debugger.before = debugger.known();
        Ok(debugger)
    }

    /// Returns the stop before the first event.
    pub fn entry(&mut self) -> Stop {
        self.stopped(Reason::Entry)
    }

    /// Moves to another place. The debugger occasionally asks `pause` whether to stop on the way.
    ///
    /// # Errors
    /// Fails if the run could not be repeated. The debugger's position is then undefined.
    pub fn go(&mut self, to: &Move, pause: &mut dyn FnMut() -> bool) -> Result<Stop, DebugError> {
        (self.selected, self.frame) = (None, 0);
        match to {
            Move::Continue => self.forwards(pause),
            Move::Reverse => self.backwards(pause),
            Move::Step => self.step(),
            Move::Next => self.until_depth(|depth, own| depth <= own),
            Move::Out => self.until_depth(|depth, own| depth < own),
            Move::Back => self.back(),
            Move::Event => {
                self.advance();
                Ok(self.stopped(Reason::Step))
            }
            Move::BackEvent if self.statement > 0 => {
                self.statement = 0;
                Ok(self.stopped(Reason::Step))
            }
            Move::BackEvent => self.goto(self.number.saturating_sub(1), 0, Reason::Step),
            Move::To(RunTarget::Event(number)) => self.goto(*number, 0, Reason::Step),
            Move::To(RunTarget::Time(time)) => self.goto_time(*time),
        }
    }

    /// Adds a breakpoint, on one host or on all, with or without a condition.
    ///
    /// # Errors
    /// The part of the breakpoint that does not exist.
    pub fn add(
        &mut self,
        what: BreakCondition,
        host: Option<&str>,
        condition: Option<String>,
    ) -> Result<Breakpoint, BreakError> {
        let host = host.map(|name| self.host(name)).transpose()?;
        let (what, meant) = match what {
            BreakCondition::Line { file, line } => breakpoint::line(&self.programs, file.as_deref(), line)?,
            BreakCondition::Event(ref name) => {
                let meant = breakpoint::event(&self.programs, name)?;
                (what, meant)
            }
            BreakCondition::Field(ref name) => {
                let meant = breakpoint::field(&self.programs, name)?;
                (what, meant)
            }
            BreakCondition::Packet(None) => (what, Meant::Packet(None)),
            BreakCondition::Packet(Some(number)) => (what, Meant::Packet(Some(self.find_packet(number)?))),
            BreakCondition::Assert => (what, Meant::Assert),
        };
        self.last_breakpoint += 1;
        let shown = Breakpoint {
            number: self.last_breakpoint,
            what,
            host: host.map(|host| self.programs[host].host.clone()),
            condition,
        };
        self.breakpoints.push(Set { shown: shown.clone(), host, meant });
        Ok(shown)
    }

    /// Removes a breakpoint. Returns whether there was one with this number.
    pub fn clear(&mut self, number: u32) -> bool {
        let before = self.breakpoints.len();
        self.breakpoints.retain(|set| set.shown.number != number);
        self.breakpoints.len() < before
    }

    /// Removes all breakpoints and returns their count.
    pub fn clear_all(&mut self) -> usize {
        std::mem::take(&mut self.breakpoints).len()
    }

    /// Returns the breakpoints.
    pub fn breakpoints(&self) -> impl Iterator<Item = &Breakpoint> {
        self.breakpoints.iter().map(|set| &set.shown)
    }

    /// Selects a host for later questions, until the debugger moves.
    ///
    /// # Errors
    /// Fails if the scenario has no such host.
    pub fn select_host(&mut self, name: &str) -> Result<(), BreakError> {
        self.selected = Some(self.host(name)?);
        self.frame = 0;
        Ok(())
    }

    /// Selects one of the active functions, where 0 is the innermost. Returns whether there is one with this
    /// number.
    pub fn select_frame(&mut self, frame: usize) -> bool {
        let exists = frame < self.frames().len();
        if exists {
            (self.selected, self.frame) = (None, frame);
        }
        exists
    }

    /// Returns the hosts' names in the scenario's order.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|program| program.host.as_str())
    }

    /// Returns the files of the hosts' programs with their texts, each once.
    #[must_use]
    pub fn files(&self) -> Vec<(&str, &str)> {
        let files = self.programs.iter().flat_map(|program| &program.module.files);
        let mut found: Vec<(&str, &str)> = Vec::new();
        for (name, text) in files {
            if !found.iter().any(|(known, _)| known == name) {
                found.push((name, text));
            }
        }
        found
    }

    /// Returns the number of events taken from runs so far, which measures the cost of moves. Each move
    /// backwards runs again.
    #[must_use]
    pub fn played(&self) -> u64 {
        self.played
    }

    /// Returns the scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.begin.scenario
    }

    pub(crate) fn host(&self, name: &str) -> Result<usize, BreakError> {
        let found = self.hosts().position(|host| host == name);
        found.ok_or_else(|| BreakError::Host(name.to_owned(), self.hosts().collect::<Vec<_>>().join(", ")))
    }

    /// Returns the program of the event's host.
    pub(crate) fn program(&self) -> Option<&HostProgram> {
        Some(&self.programs[self.current.as_ref()?.seen.host])
    }

    /// Returns the number of statements that the event runs.
    pub(crate) fn statements(&self) -> usize {
        let steps = self.current.as_ref().zip(self.program());
        steps.map_or(0, |(current, program)| current.steps(program).statements.len())
    }

    /// Returns the event's memory at the debugger's position.
    pub(crate) fn halted(&self) -> Halted {
        let current = self.current.as_ref().zip(self.program());
        current.map_or_else(Halted::default, |(current, program)| {
            current.halted(program, self.statement)
        })
    }

    /// Returns the hosts' contexts at the debugger's position.
    pub(crate) fn known(&self) -> Vec<Contexts> {
        let mut known = self.contexts.clone();
        if let Some(current) = self
            .current
            .as_ref()
            .filter(|current| current.seen.kept.outcome.is_some())
        {
            let host = current.seen.host;
            let event = current.seen.event();
            let creates = event.and_then(|event| creates(&self.programs[host].module, event));
            known[host] = known[host].with(&self.halted(), creates);
        }
        known
    }

    /// Takes the next event. Returns false when the run is over.
    fn advance(&mut self) -> bool {
        let Some(player) = &mut self.player else {
            return false;
        };
        if let Some(current) = self.current.take() {
            self.contexts[current.seen.host].apply(&current.seen);
        }
        (self.number, self.statement) = (self.number + 1, 0);
        let Some(seen) = player.next() else {
            self.finish();
            return false;
        };
        if std::mem::replace(&mut self.lives[seen.host], seen.life) != seen.life {
            // A host loses its contexts when it goes down.
            self.contexts[seen.host] = Contexts::default();
        }
        self.counts[seen.host] += 1;
        self.played += 1;
        self.current = Some(Current {
            number: self.counts[seen.host],
            seen,
            event: OnceCell::new(),
            steps: OnceCell::new(),
        });
        true
    }

    fn finish(&mut self) {
        let Some(player) = self.player.take() else {
            return;
        };
        let report = player.report();
        self.end = Some(RunOutcome {
            ok: report.ok,
            failures: report.failures,
            events: self.number - 1,
            at_ns: (report.seconds * 1e9) as u64,
        });
    }

    /// Returns to the first event without a stop.
    pub(crate) fn rewind(&mut self) -> Result<(), DebugError> {
        (self.selected, self.frame) = (None, 0);
        self.restart()
    }

    /// Runs again from the start.
    fn restart(&mut self) -> Result<(), DebugError> {
        self.player = Some(start(&self.begin, |_, _| {})?);
        self.contexts.fill(Contexts::default());
        self.lives.fill(1);
        self.counts.fill(0);
        (self.number, self.statement) = (0, 0);
        (self.current, self.end) = (None, None);
        self.advance();
        Ok(())
    }

    /// Goes to a statement of an event, or past its last statement. If there are fewer events, goes to the
    /// end of the run.
    fn seek(&mut self, number: u64, statement: usize) -> Result<(), DebugError> {
        if number < self.number {
            self.restart()?;
        }
        while self.number < number && self.advance() {}
        self.statement = statement.min(self.statements());
        Ok(())
    }

    fn goto(&mut self, number: u64, statement: usize, reason: Reason) -> Result<Stop, DebugError> {
        if number == 0 {
            self.seek(1, 0)?;
            return Ok(self.stopped(Reason::Beginning));
        }
        self.seek(number, statement)?;
        Ok(self.stopped(reason))
    }

    fn goto_time(&mut self, time: Duration) -> Result<Stop, DebugError> {
        let is_later = |current: &Current| current.seen.kept.now - START >= time;
        if self.current.as_ref().is_none_or(is_later) {
            self.restart()?;
        }
        while self.current.as_ref().is_some_and(|current| !is_later(current)) && self.advance() {}
        self.statement = 0;
        Ok(self.stopped(Reason::Step))
    }

    fn step(&mut self) -> Result<Stop, DebugError> {
        if self.statement < self.statements() {
            self.statement += 1;
        } else {
            self.advance();
        }
        Ok(self.stopped(Reason::Step))
    }

    fn back(&mut self) -> Result<Stop, DebugError> {
        match self.statement {
            0 => self.goto(self.number.saturating_sub(1), usize::MAX, Reason::Step),
            statement => {
                self.statement = statement - 1;
                Ok(self.stopped(Reason::Step))
            }
        }
    }

    /// Goes to the next statement of the event at a matching depth relative to this one, or past the last
    /// statement. From there, goes to the next event. Earlier breakpoints stop the move.
    fn until_depth(&mut self, is_right: impl Fn(usize, usize) -> bool) -> Result<Stop, DebugError> {
        let Some((current, program)) = self.current.as_ref().zip(self.program()) else {
            return Ok(self.stopped(Reason::End));
        };
        let statements = &current.steps(program).statements;
        let Some(here) = statements.get(self.statement) else {
            self.advance();
            return Ok(self.stopped(Reason::Step));
        };
        let after = &statements[self.statement + 1..];
        let found = after.iter().position(|other| is_right(other.depth, here.depth));
        let found = found.map_or(statements.len(), |found| self.statement + 1 + found);
        let hit = self.hits().into_iter().find(|hit| hit.statement > self.statement);
        if let Some(hit) = hit.filter(|hit| hit.statement < found) {
            return Ok(self.stopped_at(hit));
        }
        self.statement = found;
        Ok(self.stopped(Reason::Step))
    }

    fn forwards(&mut self, pause: &mut dyn FnMut() -> bool) -> Result<Stop, DebugError> {
        let mut from = Some(self.statement);
        loop {
            let mut hits = self.hits().into_iter();
            if let Some(hit) = hits.find(|hit| from.is_none_or(|from| hit.statement > from)) {
                return Ok(self.stopped_at(hit));
            }
            from = None;
            if !self.advance() {
                return Ok(self.stopped(Reason::End));
            }
            if self.number.is_multiple_of(EVENTS_PER_QUESTION) && pause() {
                return Ok(self.stopped(Reason::Pause));
            }
        }
    }

    /// Returns to the last earlier hit, in this event or else in a run up to it.
    fn backwards(&mut self, pause: &mut dyn FnMut() -> bool) -> Result<Stop, DebugError> {
        let (number, statement) = (self.number, self.statement);
        let mut earlier = self.hits().into_iter().filter(|hit| hit.statement < statement);
        if let Some(hit) = earlier.next_back() {
            return Ok(self.stopped_at(hit));
        }
        let mut last = None;
        self.restart()?;
        while self.number < number {
            if let Some(hit) = self.hits().pop() {
                last = Some((self.number, hit));
            }
            if !self.advance() || self.number.is_multiple_of(EVENTS_PER_QUESTION) && pause() {
                break;
            }
        }
        if self.number < number {
            return Ok(self.stopped(Reason::Pause));
        }
        let Some((number, hit)) = last else {
            return self.goto(0, 0, Reason::Beginning);
        };
        self.seek(number, 0)?;
        Ok(self.stopped_at(hit))
    }

    /// Finds the instruction that sent a packet of the run.
    fn find_packet(&self, number: u64) -> Result<PacketOrigin, BreakError> {
        let found = Rc::new(Cell::new(None));
        let into = Rc::clone(&found);
        let lives = Rc::new(RefCell::new(BTreeMap::<String, u32>::new()));
        let begun = Rc::clone(&lives);
        let names: Vec<String> = self.hosts().map(str::to_owned).collect();
        let options = Options {
            seed: self.begin.seed,
            packets: Some(Box::new(move |sight| {
                if sight.fate == FrameFate::Sent && sight.frame.number == number {
                    into.set(Some(PacketOrigin {
                        host: sight.from,
                        life: lives.borrow()[&names[sight.from]],
                        cause: sight.frame.cause,
                    }));
                }
            })),
            // Frames carry the number of their instruction only if the stack is observed.
            stacks: Some(Box::new(move |host, stack| {
                *begun.borrow_mut().entry(host.to_owned()).or_default() += 1;
                stack.set_event_tap(Some(Box::new(|_| {})));
            })),
            ..Options::default()
        };
        let failed = |error: RunError| BreakError::Run(error.to_string());
        let mut run = Run::begin(&self.begin.scenario, &*self.begin.resolve, options).map_err(failed)?;
        while found.get().is_none() && run.step() {}
        match found.get() {
            None => Err(BreakError::Packet(number)),
            Some(PacketOrigin { cause: 0, .. }) => Err(BreakError::NetworkPacket(number)),
            Some(origin) => Ok(origin),
        }
    }
}

/// Begins the observed run. `show` receives each host's initial stack, in the order of the hosts.
fn start(
    begin: &DebuggerInput,
    mut show: impl FnMut(&str, &mut Stack) + 'static,
) -> Result<Player, RunError> {
    let queue = OccurrenceQueue::default();
    let taps = queue.clone();
    let mut lives: Vec<(String, u32)> = Vec::new();
    let observe = move |name: &str, stack: &mut Stack| {
        let known = lives.iter().position(|(host, _)| host == name);
        let host = known.unwrap_or_else(|| {
            show(name, stack);
            lives.push((name.to_owned(), 0));
            lives.len() - 1
        });
        lives[host].1 += 1;
        stack.set_event_tap(Some(taps.tap(host, lives[host].1)));
    };
    let options = Options {
        seed: begin.seed,
        stacks: Some(Box::new(observe)),
        packets: Some(queue.watcher()),
        ..Options::default()
    };
    let run = Run::begin(&begin.scenario, &*begin.resolve, options)?;
    Ok(Player::new(run, queue))
}
