//! The race: a machine.
//!
//! * `messages`: requests, events, actions
//! * `line`: the start times of candidates
//! * `end`: the end of a race, with or without a winner

mod end;
mod line;
mod messages;

use std::time::Duration;

use hawser_time::Instant;

use crate::{
    AttemptOutcome, Candidate, CandidateId, Failure, Handshake, Knowledge, Profile, ServiceParameters,
    Success,
};

pub use messages::{Action, Connectionless, Defeat, Event, FailureReason, Question, Questions, Request};

/// The staggered race of candidates for one connection.
///
/// The caller makes a race when it has asked the questions for the name, and passes it [`Event`]s as they
/// happen, with the time. It executes the [`Action`]s in order. It drops the race when [`Race::is_over`]
/// returns true: after [`Action::Won`], probes may still run in the background.
///
/// `now` is a point on a clock of the caller's choice, the same throughout a race, which must not go back.
#[derive(Clone, Debug)]
pub struct Race {
    profile: Profile,
    request: Request,
    phase: Phase,
    began: Instant,
    now: Instant,
    entrants: Vec<Entrant>,
    /// The waiting candidates in order, by index.
    line: Vec<usize>,
    /// The started candidates in order, by index.
    starts: Vec<usize>,
    last_start: Instant,
    /// The pending questions, and those that ended without an answer.
    questions: Questions,
    unanswered: Vec<(Question, Failure)>,
    /// The times at which a candidate was first available, and at which the line opened.
    first_found: Option<Instant>,
    opened: Option<Instant>,
    /// The number of starts that failures have brought forward.
    early_starts: usize,
    /// The last requested wake-up.
    wake_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Racing,
    /// The index of the winner.
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
    /// It was never admitted, withdrawn, or cancelled as a loser.
    Out(Failure),
}

impl Race {
    /// The maximum number of candidates of one race. Further ones are left out.
    pub const MAX_CANDIDATES: usize = 128;

    /// Makes a race that begins at `now`, with these pending questions. The race requests a wake-up at its
    /// deadline only in response to an event. If no other event occurs first, the caller should therefore
    /// send [`Event::Wake`].
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

    /// Handles an event, and returns the resulting actions in order.
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

    /// Returns the winner, if there is one.
    #[must_use]
    pub fn winner(&self) -> Option<CandidateId> {
        match self.phase {
            Phase::Won(index) => Some(self.entrants[index].candidate.id),
            Phase::Racing | Phase::Lost => None,
        }
    }

    /// Returns whether the race has ended, with or without a winner, and no attempt or probe is running.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_busy = self.entrants.iter().any(|entrant| entrant.since().is_some());
        self.phase != Phase::Racing && !is_busy && !self.starts_go_on()
    }

    /// Returns a candidate by its id.
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

    /// Admits a candidate, or leaves it out permanently.
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
            // Its earlier victories prove no peer.
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

    fn ranked(&mut self, ranks: Vec<(CandidateId, Option<ServiceParameters>)>, actions: &mut Vec<Action>) {
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
                actions.push(Action::Record(id, AttemptOutcome::Failed(why)));
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

    /// Ends attempts and probes that have exceeded their time limit.
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
            self.lose(FailureReason::Deadline, actions);
        }
    }

    fn deadline(&self) -> Instant {
        self.began + self.request.deadline
    }
}

impl Entrant {
    /// Returns the start time of its attempt or probe while that is running.
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
