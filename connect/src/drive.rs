//! Drives one race: turns the machine's actions into sockets and timers, and their results into events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use hawser_time::Instant;
use tokio::sync::{broadcast, oneshot};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use hawser_race::resolve::{Answer, Answers, Lookup, Resolver};
use hawser_race::{
    Action, AttemptOutcome, CacheKey, Candidate, CandidateId, Defeat, Event, Failure, Knowledge, Question,
    Questions, Race,
};
use hawser_session::{InterfaceChange, network_identity};

use super::interact::RaceFlow;
use super::race_candidates::RaceCandidates;
use super::racer::SharedRacer;
use super::winner::{OutcomeCallback as Learn, StreamOutcome, Winner};
use super::{AttemptError, ConnectError, Connected, Description, Duplex, RaceEvent, RaceReport, Request};

/// The maximum number of IPv4 addresses of one answer for which NAT64 addresses are looked up.
const MAX_TRANSLATED: usize = 4;
/// The time that questions have to complete after the race, so that later races find the answers (version 3,
/// connection attempts).
const LINGER: Duration = Duration::from_secs(1);
/// The ports at which HTTPS records are asked for with any transports. At other ports only a transport that
/// speaks HTTP implies a web origin.
const WEB_PORTS: [u16; 2] = [80, 443];

type Reply = oneshot::Sender<Result<Connected, Box<ConnectError>>>;
type AttemptEnd = Result<(Id, Result<Box<dyn Duplex>, AttemptError>), JoinError>;

/// A race, with its sockets, timers and questions.
pub(super) struct RaceDriver {
    shared: Arc<SharedRacer>,
    request: Request,
    race: Race,
    found: RaceCandidates,
    /// The name of the network at the beginning of this race.
    network: Arc<str>,
    began: std::time::Instant,
    wake: Option<Instant>,
    /// The resolver, and its pending answers.
    resolver: Resolver,
    answers: Option<Answers>,
    questions: Vec<(Question, Failure, String)>,
    changes: Option<broadcast::Receiver<InterfaceChange>>,
    attempts: JoinSet<Result<Box<dyn Duplex>, AttemptError>>,
    /// The candidate of each attempt's task, and the handle to end it.
    ids: HashMap<Id, CandidateId>,
    running: HashMap<CandidateId, AbortHandle>,
    /// Streams that the race has not judged yet, and the errors of failed candidates.
    ready: HashMap<CandidateId, Box<dyn Duplex>>,
    errors: BTreeMap<CandidateId, AttemptError>,
    started: HashMap<CandidateId, Instant>,
    /// The receiver of the outcome; `None` once the outcome was sent, or once the caller has gone.
    reply: Option<Reply>,
    /// Its place on the bus, if there is a bus.
    flow: Option<RaceFlow>,
}

impl RaceDriver {
    pub(super) fn new(shared: Arc<SharedRacer>, request: Request, reply: Reply) -> RaceDriver {
        let (lookup, network) = (lookup(&request), Arc::clone(&shared.lock().network));
        let resolver = shared.resolver();
        let asked = |question| u16::from(lookup.as_ref().is_some_and(|l| l.questions().contains(&question)));
        let questions = Questions {
            ipv4: asked(Question::Ipv4),
            ipv6: asked(Question::Ipv6),
            service: asked(Question::Service),
        };
        let wanted = hawser_race::Request {
            security: request.security,
            connectionless: request.connectionless,
            deadline: request.deadline,
        };
        RaceDriver {
            race: Race::new(request.profile.clone(), wanted, questions, Instant::ORIGIN),
            found: RaceCandidates::new(request.destination.clone(), Arc::clone(&request.transports)),
            network,
            began: std::time::Instant::now(),
            wake: None,
            answers: lookup.map(|lookup| resolver.lookup(&lookup)),
            resolver,
            questions: Vec::new(),
            changes: Some(shared.changes()),
            attempts: JoinSet::new(),
            ids: HashMap::new(),
            running: HashMap::new(),
            ready: HashMap::new(),
            errors: BTreeMap::new(),
            started: HashMap::new(),
            reply: Some(reply),
            flow: shared
                .provider
                .as_ref()
                .map(|provider| provider.begin(request.destination.to_string())),
            shared,
            request,
        }
    }

    /// Drives the race until no event can follow.
    pub(super) async fn run(mut self) {
        let mut events = VecDeque::from([self.found.at_once()]);
        loop {
            while let Some(event) = events.pop_front() {
                let event = self.informed(event);
                for action in self.race.on(event, self.now()) {
                    self.act(action);
                }
            }
            if self.race.is_over() {
                break;
            }
            events.extend(self.next().await);
        }
        if let Some(answers) = self.answers {
            answers.linger(LINGER);
        }
    }

    fn now(&self) -> Instant {
        Instant::after(self.began.elapsed())
    }

    /// Waits for the next events.
    async fn next(&mut self) -> Vec<Event> {
        let wake = self.wake.map(|at| at - self.now());
        tokio::select! {
            answer = next_answer(&mut self.answers) => match answer {
                Some(answer) => self.answered(answer),
                None => {
                    self.answers = None;
                    Vec::new()
                }
            },
            Some(ended) = self.attempts.join_next_with_id() => self.ended(ended).into_iter().collect(),
            change = next_change(&mut self.changes) => match change {
                Some(change) => vec![Event::NetworkChanged { gone: network_identity::gone(&change) }],
                None => Vec::new(),
            },
            () = gone(&mut self.reply) => {
                self.reply = None;
                vec![Event::Cancelled]
            }
            () = sleep(wake) => {
                self.wake = None;
                vec![Event::Wake]
            }
        }
    }

    fn answered(&mut self, answer: Answer) -> Vec<Event> {
        let question = answer.question;
        match &answer.result {
            Ok(records) => {
                let hints = records
                    .services
                    .services
                    .iter()
                    .flat_map(|service| service.hints());
                let addresses = records.addresses.iter().copied().chain(hints).collect();
                self.report(RaceEvent::Answered { question, addresses });
            }
            Err(error) => {
                let (failure, why) = (error.failure(), error.to_string());
                self.questions.push((question, failure, why.clone()));
                self.report(RaceEvent::Unanswered { question, failure, why });
            }
        }
        // The race must learn of further questions before it learns that one is answered.
        let further = match question {
            Question::Ipv4 => self.ask_translators(&answer),
            Question::Ipv6 | Question::Service => Vec::new(),
        };
        let mut events = self.found.answered(answer);
        if question == Question::Service {
            events.splice(0..0, self.ask_for_others());
        }
        events.splice(0..0, further);
        events
    }

    /// Asks for the addresses by which the network's NAT64 reaches IPv4 addresses of the destination's name.
    /// The name's IPv6 addresses may be missing or broken, and IPv4 is not routed from here (RFC 8305, 7.2).
    fn ask_translators(&mut self, answer: &Answer) -> Vec<Event> {
        let (Some(answers), Ok(records), None) = (
            &mut self.answers,
            &answer.result,
            self.request.destination.address(),
        ) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        let addresses = records.addresses.iter().take(MAX_TRANSLATED);
        for &address in addresses.filter(|address| network_identity::has_ipv6_alone(**address)) {
            if let Ok(lookup) = Lookup::addresses(&address.to_string()) {
                events.push(Event::Asked(Question::Ipv6));
                answers.also(&self.resolver, &lookup.only(&[Question::Ipv6]).translated());
            }
        }
        events
    }

    /// Asks for the addresses of the hosts that service records name.
    fn ask_for_others(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(answers) = &mut self.answers else {
            return events;
        };
        for host in self.found.other_hosts() {
            // A record may name a host that is not valid: it has no addresses.
            if let Ok(lookup) = Lookup::addresses(&format!("{host}.")) {
                events.extend(lookup.questions().iter().copied().map(Event::Asked));
                answers.also(&self.resolver, &lookup);
            }
        }
        events
    }

    /// Handles the end of an attempt.
    fn ended(&mut self, ended: AttemptEnd) -> Option<Event> {
        let (task, result) = match ended {
            Ok((task, result)) => (task, result),
            // The task was cancelled, which needs no report; or it panicked.
            Err(error) if error.is_cancelled() => {
                self.ids.remove(&error.id());
                return None;
            }
            Err(error) => {
                let why = format!("the attempt broke off: {error}");
                (
                    error.id(),
                    Err(AttemptError { failure: Failure::Local, is_network: false, why }),
                )
            }
        };
        let id = self.ids.remove(&task)?;
        // A task that was cancelled as it ended is no longer listed, or its candidate has a new task.
        if self.running.get(&id)?.id() != task {
            return None;
        }
        self.running.remove(&id);
        match result {
            Ok(stream) => {
                self.ready.insert(id, stream);
                Some(Event::Established(id))
            }
            Err(error) => {
                let failure = error.failure;
                if let Some(candidate) = self.describe(id) {
                    self.report(RaceEvent::Failed { candidate, failure, why: error.why.clone() });
                }
                self.errors.insert(id, error);
                Some(Event::Failed(id, failure))
            }
        }
    }

    /// Adds the remembered outcome of each candidate to an event.
    fn informed(&self, event: Event) -> Event {
        let Event::Found { question, mut candidates } = event else {
            return event;
        };
        let now = self.shared.now();
        let mut state = self.shared.lock();
        for candidate in &mut candidates {
            candidate.known = state.cache.consult(&self.key(candidate), now);
            if let Knowledge::Won { took } = candidate.known {
                candidate.round_trip = Some(took);
            }
        }
        Event::Found { question, candidates }
    }

    fn key(&self, candidate: &Candidate) -> CacheKey {
        CacheKey::new(&self.network, candidate)
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Start(id) => self.start(id, false),
            Action::Probe(id) => self.start(id, true),
            Action::Cancel(id) => self.cancel(id),
            Action::Won(id) => self.won(id),
            Action::AllFailed(defeat) => self.lost(&defeat),
            Action::Record(id, outcome) => {
                if let Some(candidate) = self.race.candidate(id) {
                    self.shared.record(self.key(candidate), outcome);
                }
            }
            Action::Wake(at) => self.wake = Some(at),
        }
    }

    fn start(&mut self, id: CandidateId, is_probe: bool) {
        let Some(candidate) = self.found.candidate(id) else {
            return;
        };
        let (connect, candidate) = (Arc::clone(&candidate.connect), candidate.description.clone());
        let known = self
            .race
            .candidate(id)
            .map_or("unknown", |candidate| word(candidate.known));
        self.report(if is_probe {
            RaceEvent::Probed { candidate }
        } else {
            RaceEvent::Started { candidate, known }
        });
        let task = self.attempts.spawn(async move { connect().await });
        self.ids.insert(task.id(), id);
        self.running.insert(id, task);
        self.started.insert(id, self.now());
    }

    fn cancel(&mut self, id: CandidateId) {
        if let Some(task) = self.running.remove(&id) {
            task.abort();
        }
        self.ready.remove(&id);
        if let Some(candidate) = self.describe(id) {
            self.report(RaceEvent::Cancelled { candidate });
        }
    }

    fn won(&mut self, id: CandidateId) {
        let now = self.now();
        let (stream, candidate) = (self.ready.remove(&id), self.describe(id));
        let key = self.race.candidate(id).map(|candidate| self.key(candidate));
        let (Some(stream), Some(candidate), Some(key)) = (stream, candidate, key) else {
            return;
        };
        let own = now - self.started.get(&id).copied().unwrap_or_default();
        self.report(RaceEvent::Won { candidate: candidate.clone(), took: own });
        if let Some(reply) = self.reply.take() {
            let stream = Box::new(Winner::new(stream, self.learn(key, candidate.clone(), own)));
            // If the caller has gone in the meantime, the stream is closed.
            let _ = reply.send(Ok(Connected { stream, candidate, took: now.since_origin() }));
        }
    }

    /// Makes the callback that remembers and reports the behaviour of a winner's stream, which connected
    /// within `took`.
    fn learn(&self, key: CacheKey, candidate: Description, took: Duration) -> Learn {
        let (shared, began) = (Arc::clone(&self.shared), self.began);
        let (destination, watcher) = (self.request.destination.clone(), self.request.watcher.clone());
        Box::new(move |verdict| {
            let candidate = candidate.clone();
            let (outcome, what) = match verdict {
                StreamOutcome::Recovered => {
                    (AttemptOutcome::Won { took }, RaceEvent::Won { candidate, took })
                }
                StreamOutcome::Failed(failure, why) => (
                    AttemptOutcome::Failed(failure),
                    RaceEvent::Failed { candidate, failure, why },
                ),
            };
            shared.record(key.clone(), outcome);
            tracing::debug!(%destination, "{what}");
            if let Some(watcher) = &watcher {
                watcher(RaceReport { after: began.elapsed(), what });
            }
        })
    }

    fn lost(&mut self, defeat: &Defeat) {
        let mut candidates = Vec::new();
        for &(id, failure) in &defeat.candidates {
            let Some(candidate) = self.describe(id) else {
                continue;
            };
            let own = self.errors.remove(&id);
            let why = failure.to_string();
            candidates.push((
                candidate,
                own.unwrap_or(AttemptError { failure, is_network: false, why }),
            ));
        }
        let (to, after) = (self.request.destination.clone(), self.began.elapsed());
        let error = ConnectError::new(to, defeat, candidates, std::mem::take(&mut self.questions), after);
        self.report(RaceEvent::AllFailed { failure: error.failure, why: error.to_string() });
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(Err(Box::new(error)));
        }
    }

    fn describe(&self, id: CandidateId) -> Option<Description> {
        self.found
            .candidate(id)
            .map(|candidate| candidate.description.clone())
    }

    fn report(&self, what: RaceEvent) {
        tracing::debug!(destination = %self.request.destination, "{what}");
        if let Some(flow) = &self.flow {
            flow.report(&what);
        }
        if let Some(watcher) = &self.request.watcher {
            watcher(RaceReport { after: self.began.elapsed(), what });
        }
    }
}

/// Returns the questions that a request needs, if any. Its destination was validated when it was made.
pub(super) fn lookup(request: &Request) -> Option<Lookup> {
    if !request
        .transports
        .iter()
        .any(|transport| transport.needs_addresses())
    {
        return None;
    }
    let (host, port) = (request.destination.host(), request.destination.port());
    match request.destination.address() {
        // An address has one family, and needs no name server.
        Some(address) => {
            let lookup = Lookup::addresses(host).ok()?;
            Some(match address.is_ipv6() {
                true => lookup.only(&[Question::Ipv6]),
                // Without IPv4 there may be NAT64 (RFC 8305, 7.1).
                false if network_identity::has_ipv6_alone(address) => lookup.translated(),
                false => lookup.only(&[Question::Ipv4]),
            })
        }
        None if WEB_PORTS.contains(&port)
            || request.transports.iter().any(|transport| transport.is_https()) =>
        {
            Lookup::https(host, port).ok()
        }
        None => Lookup::addresses(host).ok(),
    }
}

fn word(known: Knowledge) -> &'static str {
    match known {
        Knowledge::Unknown => "unknown",
        Knowledge::Won { .. } => "won",
        Knowledge::Lost { .. } => "lost",
        Knowledge::Failed => "failed",
        Knowledge::Blocked { .. } => "blocked",
    }
}

async fn next_answer(answers: &mut Option<Answers>) -> Option<Answer> {
    match answers {
        Some(answers) => answers.next().await,
        None => pending().await,
    }
}

/// Waits for the next change; `None` when some were missed, which requires the same reaction.
async fn next_change(changes: &mut Option<broadcast::Receiver<InterfaceChange>>) -> Option<InterfaceChange> {
    let Some(open) = changes else {
        return pending().await;
    };
    match open.recv().await {
        Ok(change) => Some(change),
        Err(broadcast::error::RecvError::Lagged(_)) => None,
        Err(broadcast::error::RecvError::Closed) => {
            *changes = None;
            None
        }
    }
}

async fn gone(reply: &mut Option<Reply>) {
    match reply {
        Some(reply) => reply.closed().await,
        None => pending().await,
    }
}

async fn sleep(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => pending().await,
    }
}
