//! The race: a machine.
//!
//! * `messages`: requests, events, actions
//! * `line`: which candidate is started when
//! * `end`: what becomes of all when one has won, or none

mod end;
mod line;
mod messages;

use std::time::Duration;

use hawser_time::Instant;

use crate::{Candidate, CandidateId, Failure, Handshake, Knowledge, Outcome, Profile, Service, Success};

pub use messages::{Action, Connectionless, Defeat, Event, Question, Questions, Request, Why};

/// The staggered race of candidates for one connection.
///
/// Make one when the questions for the name have been asked, and hand it [`Event`]s as they happen,
/// with the time; carry out the [`Action`]s in their order. Drop it when [`Race::is_over`]: after
/// [`Action::Won`] it may still see to probes in the background.
///
/// `now` is a point on a clock of the caller's choice, the same throughout a race; it is taken for not to go
/// back.
#[derive(Clone, Debug)]
pub struct Race {
    profile: Profile,
    request: Request,
    phase: Phase,
    began: Instant,
    now: Instant,
    entrants: Vec<Entrant>,
    /// Those that wait, in order, by index.
    line: Vec<usize>,
    /// Those that were started, in order.
    starts: Vec<usize>,
    last_start: Instant,
    /// Questions that are unanswered, and those without an answer.
    questions: Questions,
    unanswered: Vec<(Question, Failure)>,
    /// When there was first somebody to start, and when the first could be.
    first_found: Option<Instant>,
    opened: Option<Instant>,
    /// Starts that failures have brought forward.
    early_starts: usize,
    /// The wake-up that was asked for last.
    wake_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Racing,
    /// By this index.
    Won(usize),
    Lost,
}

#[derive(Clone, Debug)]
struct Entrant {
    candidate: Candidate,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running {
        since: Instant,
    },
    Probing {
        since: Instant,
    },
    Won {
        since: Instant,
        took: Duration,
    },
    Failed(Failure),
    /// Never admitted, withdrawn, or cancelled as a loser.
    Out(Failure),
}

impl Race {
    /// The maximum number of candidates of one race; more are left out.
    pub const MAX_CANDIDATES: usize = 128;

    /// A race that begins at `now`, with so many questions unanswered. Its first event, if nothing
    /// else has happened, is [`Event::Wake`]: only then does it ask to be woken at its deadline.
    #[must_use]
    pub fn new(profile: Profile, request: Request, questions: Questions, now: Instant) -> Race {
        Race {
            profile,
            request,
            phase: Phase::Racing,
            began: now,
            now,
            entrants: Vec::new(),
            line: Vec::new(),
            starts: Vec::new(),
            last_start: now,
            questions,
            unanswered: Vec::new(),
            first_found: None,
            opened: None,
            early_starts: 0,
            wake_at: None,
        }
    }

    /// Takes an event; returns what is to be done, in order.
    pub fn on(&mut self, event: Event, now: Instant) -> Vec<Action> {
        self.now = self.now.max(now);
        let mut actions = Vec::new();
        match event {
            Event::Found { question, candidates } => self.found(question, candidates),
            Event::Asked(question) => self.questions.ask(question),
            Event::Missing { question, why } => self.missing(question, why),
            Event::Withdrawn(ids) => self.withdrawn(&ids),
            Event::Ranked(ranks) => self.ranked(ranks, &mut actions),
            Event::Connected(id) => self.connected(id, &mut actions),
            Event::Established(id) => self.established(id, &mut actions),
            Event::Failed(id, why) => self.failed(id, why, &mut actions),
            Event::NetworkChanged { gone } => self.network_changed(gone.as_deref(), &mut actions),
            Event::Cancelled => self.cancelled(&mut actions),
            Event::Wake => {}
        }
        self.expire(&mut actions);
        self.start_due(&mut actions);
        self.give_up_if_exhausted(&mut actions);
        self.schedule_wake(&mut actions);
        actions
    }

    /// Who has won.
    #[must_use]
    pub fn winner(&self) -> Option<CandidateId> {
        match self.phase {
            Phase::Won(index) => Some(self.entrants[index].candidate.id),
            Phase::Racing | Phase::Lost => None,
        }
    }

    /// Whether nothing will happen any more: it has a winner or none, and nothing is under way.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_busy = self.entrants.iter().any(|entrant| entrant.since().is_some());
        self.phase != Phase::Racing && !is_busy && !self.starts_go_on()
    }

    /// A candidate that was given.
    #[must_use]
    pub fn candidate(&self, id: CandidateId) -> Option<&Candidate> {
        self.find(id).map(|index| &self.entrants[index].candidate)
    }

    fn find(&self, id: CandidateId) -> Option<usize> {
        self.entrants
            .iter()
            .position(|entrant| entrant.candidate.id == id)
    }

    fn found(&mut self, question: Option<Question>, candidates: Vec<Candidate>) {
        if let Some(question) = question {
            self.questions.answer(question);
        }
        if self.phase != Phase::Racing {
            return;
        }
        candidates.into_iter().for_each(|candidate| self.admit(candidate));
        if !self.line.is_empty() {
            self.first_found.get_or_insert(self.now);
        }
        self.arrange();
    }

    /// Lets a candidate in, or leaves it out for good.
    fn admit(&mut self, mut candidate: Candidate) {
        let is_known = self.entrants.iter().any(|entrant| {
            let other = &entrant.candidate;
            let is_same = other.transport == candidate.transport
                && other.remote == candidate.remote
                && other.interface == candidate.interface;
            other.id == candidate.id || (is_same && entrant.state != State::Out(Failure::NotStarted))
        });
        if is_known {
            return;
        }
        if self.entrants.len() >= Race::MAX_CANDIDATES {
            return;
        }
        let is_connectionless = candidate.handshake == Handshake::Connectionless;
        let state = if candidate.security < self.request.security {
            State::Out(Failure::LessSecure)
        } else if is_connectionless && self.request.connectionless == Connectionless::Never {
            State::Out(Failure::Connectionless)
        } else {
            State::Waiting
        };
        if is_connectionless && self.request.connectionless == Connectionless::LastResort {
            // Whatever it won before, it won without a peer.
            (candidate.is_last_resort, candidate.known) = (true, Knowledge::Unknown);
        }
        if state == State::Waiting {
            self.line.push(self.entrants.len());
        }
        self.entrants.push(Entrant { candidate, state });
    }

    fn missing(&mut self, question: Question, why: Failure) {
        if self.questions.answer(question) && self.unanswered.len() < Race::MAX_CANDIDATES {
            self.unanswered.push((question, why));
        }
    }

    fn withdrawn(&mut self, ids: &[CandidateId]) {
        for &id in ids {
            let index = self
                .find(id)
                .filter(|&index| self.entrants[index].state == State::Waiting);
            if let Some(index) = index {
                self.entrants[index].state = State::Out(Failure::NotStarted);
                self.line.retain(|&waiting| waiting != index);
            }
        }
    }

    fn ranked(&mut self, ranks: Vec<(CandidateId, Option<Service>)>, actions: &mut Vec<Action>) {
        if self.phase != Phase::Racing {
            return;
        }
        for (id, service) in ranks {
            let Some(index) = self.find(id) else { continue };
            let entrant = &mut self.entrants[index];
            entrant.candidate.service = service;
            entrant.candidate.is_fallback = service.is_none();
            if entrant.candidate.is_fallback && entrant.is_running() {
                entrant.state = State::Waiting;
                self.line.push(index);
                actions.push(Action::Cancel(id));
            }
        }
        self.arrange();
    }

    fn connected(&mut self, id: CandidateId, actions: &mut Vec<Action>) {
        let Some(index) = self.find(id) else { return };
        let is_enough = self.profile.success == Success::Transport
            || self.entrants[index].candidate.handshake != Handshake::Secure;
        if is_enough {
            self.succeeded(index, actions);
        }
    }

    fn established(&mut self, id: CandidateId, actions: &mut Vec<Action>) {
        if let Some(index) = self.find(id) {
            self.succeeded(index, actions);
        }
    }

    fn failed(&mut self, id: CandidateId, why: Failure, actions: &mut Vec<Action>) {
        let Some(index) = self.find(id) else { return };
        match self.entrants[index].state {
            State::Running { .. } => self.attempt_failed(index, why, actions),
            State::Probing { .. } => {
                self.entrants[index].state = State::Failed(why);
                actions.push(Action::Record(id, Outcome::Failed(why)));
            }
            State::Waiting | State::Won { .. } | State::Failed(_) | State::Out(_) => {}
        }
    }

    fn network_changed(&mut self, gone: Option<&str>, actions: &mut Vec<Action>) {
        for index in 0..self.entrants.len() {
            let entrant = &mut self.entrants[index];
            entrant.candidate.known = Knowledge::Unknown;
            let id = entrant.candidate.id;
            if gone != Some(&entrant.candidate.interface) {
                continue;
            }
            match entrant.state {
                State::Waiting => entrant.state = State::Out(Failure::InterfaceGone),
                State::Running { .. } => {
                    actions.push(Action::Cancel(id));
                    self.attempt_failed(index, Failure::InterfaceGone, actions);
                }
                State::Probing { .. } => {
                    entrant.state = State::Out(Failure::InterfaceGone);
                    actions.push(Action::Cancel(id));
                }
                State::Won { .. } | State::Failed(_) | State::Out(_) => {}
            }
        }
        self.line
            .retain(|&index| self.entrants[index].state == State::Waiting);
        self.arrange();
    }

    /// Gives up attempts and probes that have had their time.
    fn expire(&mut self, actions: &mut Vec<Action>) {
        let limit = self.profile.attempt_limit();
        for index in 0..self.entrants.len() {
            let entrant = &self.entrants[index];
            let is_late = entrant.since().is_some_and(|since| since + limit <= self.now);
            if is_late {
                let id = entrant.candidate.id;
                actions.push(Action::Cancel(id));
                self.failed(id, Failure::Timeout, actions);
            }
        }
        if self.phase == Phase::Racing && self.deadline() <= self.now {
            self.lose(Why::Deadline, actions);
        }
    }

    fn deadline(&self) -> Instant {
        self.began + self.request.deadline
    }
}

impl Entrant {
    /// When its attempt or probe began, while that is under way.
    fn since(&self) -> Option<Instant> {
        match self.state {
            State::Running { since } | State::Probing { since } => Some(since),
            State::Waiting | State::Won { .. } | State::Failed(_) | State::Out(_) => None,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}
