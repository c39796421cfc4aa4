//! A client's connection to the socket: answers its requests, and delivers its signals.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hawser_bus::ring::{Consumer, Ring, Waker};
use hawser_bus::{
    Access, AuditEntry, Bus, BusError, DocumentWatch, Fault, FlowId, Modification, Refusal, RequestOrigin,
    Rights, Schema, Scope, SourceFlow, SourceId, Subscriber, SubscriptionId, VariableId,
};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tracing::{debug, info};

use super::answer;
use super::documents;
use super::request::{self, Attach, Detach, Flows, Hello, Json, Request, RequestError};
use super::rules::Rules;
use super::serve::Parting;
use super::shared;
use crate::local::{Answers, LineError, Lines, MAX_ANSWER, PeerLine};

/// The number of signals that can be queued for a subscriber.
const QUEUE: usize = 1024;
/// The maximum number of subscriptions of one connection.
const MAX_SUBSCRIPTIONS: usize = 64;
/// The maximum time that a source may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of signals written before requests get their turn.
const TURN: usize = 256;
/// The maximum number of schemas that are remembered.
const SCHEMAS: usize = 64;

/// The reasons for which a request is refused; the text goes to the client.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestRefusal {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("`hello` must come before the first subscription")]
    LateHello,
    #[error("the connection has no ring: request one first, {{\"ring\":{{\"slots\":4096}}}}")]
    NoRing,
    #[error("this connection already has a ring")]
    SecondRing,
    #[error("cannot create a ring: {0}")]
    Ring(#[source] io::Error),
    #[error("the subscriber has ended")]
    NoSubscriber,
    #[error("the source has ended")]
    NoSource,
    #[error("`{0}` names {1} variables: set one at a time")]
    NotOneVariable(String, usize),
    #[error("{0} is read-only: its program does not declare it modifiable")]
    ReadOnly(String),
    #[error("{0}: {1}")]
    Variable(String, Refusal),
    #[error("{0}; it may still take effect, as `attachments` will show")]
    Late(BusError),
    #[error("this process stores no documents; `hawser proxy --policy` does")]
    NoDocuments,
    /// A document or a filter has faults; the text is the request's keyword.
    #[error("refused")]
    Faults(&'static str, Vec<Fault>),
    #[error("the answer is longer than {MAX_ANSWER} bytes: list with a filter")]
    LongAnswer,
    #[error("the provider's answer is not JSON: {0}")]
    Answer(#[from] hawser_documents::Fault),
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
}

/// A client's connection.
pub(super) struct Connection {
    subscriber: Arc<Subscriber>,
    /// The id of its process.
    process: Option<u32>,
    priority: u8,
    queue: Ring,
    signals: Consumer,
    ready: Arc<Notify>,
    /// The queue in shared memory, if requested.
    ring: Option<Ring>,
    /// File descriptors to be sent with the next answer.
    files: Vec<OwnedFd>,
    /// True if one of its requests was accepted.
    known: bool,
    /// The variables that come with the signals of each subscription.
    with: Vec<(SubscriptionId, Vec<String>)>,
    /// Schemas of sources, as far as they were needed.
    schemas: Vec<(SourceId, Arc<Schema>)>,
    /// The events of documents, if they are watched.
    watch: Option<Box<dyn DocumentWatch>>,
}

impl Connection {
    pub(super) fn new(
        bus: Bus,
        rules: &Rules,
        user: u32,
        process: Option<u32>,
    ) -> Result<Connection, BusError> {
        let name = format!("user-{user}");
        let rights = rules.rights(&name, user);
        let priority = rights.priority.min(1);
        let ready = Arc::new(Notify::new());
        let waker = ready.clone();
        let waker: Waker = Arc::new(move || waker.notify_one());
        let (queue, signals) = Ring::new(QUEUE, Some(waker));
        let subscriber = Arc::new(join(&bus, user, process, &name, rights, priority, &ready)?);
        Ok(Connection {
            subscriber,
            process,
            priority,
            queue,
            signals,
            ready,
            ring: None,
            files: Vec::new(),
            known: false,
            with: Vec::new(),
            schemas: Vec::new(),
            watch: None,
        })
    }

    /// Takes requests and delivers signals, until the peer closes its side, or this side shuts down. A
    /// subscriber then receives its queued signals.
    pub(super) async fn converse(
        &mut self,
        lines: &mut Lines,
        answers: &mut Answers,
        rules: &Rules,
        user: u32,
        mut parting: Parting,
    ) -> Result<(), LineError> {
        loop {
            // A received line goes before signals, so that a flood of signals does not delay answers. After
            // its first accepted request a client may be idle, because it has subscriptions or holds.
            let line = tokio::select! {
                biased;
                line = lines.next_or_idle(self.known) => line?,
                () = wait(&self.subscriber, &self.signals, &self.ready) => {
                    self.give(lines, answers).await?;
                    continue;
                }
                event = documents::next_event(&mut self.watch) => {
                    let event = event.map_err(|end| LineError::Refused(end.to_string()))?;
                    write(lines, answers, format!("{event}\n").as_bytes()).await?;
                    continue;
                }
                // The client sends no more lines, so the connection ends.
                _ = parting.changed() => {
                    while self.signals.is_ready() {
                        self.give(lines, answers).await?;
                    }
                    return Ok(());
                }
            };
            let answer = match line {
                Some(PeerLine::Whole(line)) => self.take(&line, rules, user).await,
                Some(PeerLine::TooLong(beginning)) => Some(self.error(
                    &RequestError::TooLong.into(),
                    request::begins_steering(&beginning),
                )),
                None => return Ok(()),
            };
            match answer {
                Some(answer) if self.files.is_empty() => answers.send(&answer).await?,
                Some(answer) => {
                    answers.send_with(&answer, &self.files).await?;
                    self.files.clear();
                }
                None => {}
            }
        }
    }

    /// Carries out the request in a line, and answers.
    pub(super) async fn take(&mut self, line: &[u8], rules: &Rules, user: u32) -> Option<Value> {
        self.schemas.clear();
        let answer = match request::parse(line) {
            Ok(request) => self.answer(request, rules, user).await,
            Err(error) => Err(error.into()),
        };
        self.known |= answer.is_ok();
        answer.unwrap_or_else(|refusal| Some(self.error(&refusal, request::is_steering(line))))
    }

    /// Makes the answer to a refused line. A client does not wait for the answer to a `steer`. Its error is
    /// therefore marked, so that it is not taken for the answer to another request.
    fn error(&self, refusal: &RequestRefusal, is_steering: bool) -> Value {
        let mut error = self.refusal(refusal);
        if is_steering {
            error["of"] = "steer".into();
        }
        error
    }

    /// Makes the answer to a request that is refused, and logs the refusal.
    fn refusal(&self, refusal: &RequestRefusal) -> Value {
        self.log(refusal);
        let mut error = json!({ "error": refusal.to_string() });
        if let RequestRefusal::Faults(word, faults) = refusal {
            error["diagnostics"] = documents::diagnostics(word, faults);
        }
        error
    }

    /// Logs a refusal. Its text may include text of the client, so it is escaped.
    fn log(&self, refusal: &RequestRefusal) {
        let (client, why) = (self.subscriber.name(), refusal.to_string());
        match refusal {
            RequestRefusal::Bus(BusError::NoRight { .. }) => {
                info!(client, why = ?why, "a request is refused: no right");
            }
            _ => debug!(client, why = ?why, "a request is refused"),
        }
    }

    /// Delivers queued signals.
    async fn give(&mut self, lines: &mut Lines, answers: &mut Answers) -> Result<(), LineError> {
        let mut text = Vec::new();
        let (with, schemas, bus) = (&self.with, &mut self.schemas, self.subscriber.bus());
        // A source may offer more than it did before.
        schemas.clear();
        while let Some(notice) = self.subscriber.next_notice() {
            let Some(schema) = schema_of(schemas, bus, notice.target.source) else {
                continue;
            };
            debug!(client = self.subscriber.name(), flow = %notice.target, why = ?notice.why, "a lease has ended");
            text.extend_from_slice(answer::ended(&notice, schema).to_string().as_bytes());
            text.push(b'\n');
        }
        let mut count = 0;
        let mut words = [0; hawser_bus::ring::SLOT - 1];
        while count < TURN && self.signals.pop(&mut words) {
            count += 1;
            let Some(signal) = hawser_bus::Signal::new(&words) else {
                continue;
            };
            let Some((_, with)) = with.iter().find(|(id, _)| *id == signal.subscription()) else {
                continue;
            };
            let Some(schema) = schema_of(schemas, bus, signal.target().source) else {
                continue;
            };
            let schema = match schema.event_type(signal.event()) {
                Some(_) => schema.clone(),
                None => bus
                    .schema(signal.target().source)
                    .unwrap_or_else(|_| schema.clone()),
            };
            text.extend_from_slice(answer::signal(&signal, &schema, with).to_string().as_bytes());
            text.push(b'\n');
        }
        write(lines, answers, &text).await
    }

    async fn answer(
        &mut self,
        request: Request,
        rules: &Rules,
        user: u32,
    ) -> Result<Option<Value>, RequestRefusal> {
        let bus = self.subscriber.bus().clone();
        let answer = match request {
            Request::Hello(hello) => self.hello(&hello, rules, user)?,
            Request::Offers(_) => {
                let rights = self.rights()?;
                answer::offers(&bus.sources(), &rights)
            }
            Request::Flows(Flows { scope }) => self.flows(&scope).await?,
            Request::Subscriptions(_) => answer::subscriptions(&bus.subscriptions()),
            Request::Audit(_) => {
                let (mut entries, forgotten) = bus.audit();
                let rights = self.rights()?;
                entries.retain(|entry| self.may_know(&rights, entry));
                answer::audit(&entries, forgotten)
            }
            Request::Subscribe(wanted) => self.subscribe(wanted)?,
            Request::Change(change) => {
                let id = SubscriptionId(change.subscription);
                self.subscriber
                    .change(id, |subscription| change.apply(subscription))?;
                json!({ "changed": id.0 })
            }
            Request::Unsubscribe(id) => {
                self.subscriber.unsubscribe(SubscriptionId(id))?;
                self.with.retain(|(known, _)| known.0 != id);
                json!({ "unsubscribed": id })
            }
            Request::Statistics(id) => {
                if !self.with.iter().any(|(known, _)| known.0 == id) {
                    return Err(BusError::NoSubscription(id).into());
                }
                let subscriber = self.subscriber.clone();
                let sum = aside(move || subscriber.statistics(SubscriptionId(id), ANSWER_TIMEOUT)).await?;
                answer::statistics(&sum)
            }
            Request::Probe(probe) => self.probe(&probe).await?,
            Request::Modify(modify) => {
                let modification =
                    self.modification(modify.flow, &modify.variable, Some((modify.value, modify.lease)))?;
                self.modify(&modification, modify.priority).await?
            }
            Request::Steer(steer) => {
                let set = steer.value.map(|value| (value, steer.lease));
                let modification = self.modification(steer.flow, &steer.variable, set)?;
                self.subscriber.steer(&modification);
                return Ok(None);
            }
            Request::Release(release) => {
                let modification = self.modification(release.flow, &release.variable, None)?;
                self.modify(&modification, None).await?
            }
            Request::Ring(wanted) => self.share(wanted)?,
            Request::Attachments(_) => answer::attachments(&bus.sources(), &self.subscriber),
            Request::Attach(Attach { source, name, text, params }) => {
                self.change_program("attached", source, name, Some((text, params)))
                    .await?
            }
            Request::Detach(Detach { source, name }) => {
                self.change_program("detached", source, name, None).await?
            }
            Request::List(Json(filter)) => documents::list(&self.subscriber, &filter)?,
            Request::Put(Json(document)) => documents::put(&self.subscriber, &document)?,
            Request::Delete(name) => documents::delete(&self.subscriber, &name)?,
            Request::Watch(Json(filter)) => self.watch(&filter)?,
        };
        Ok(Some(answer))
    }

    /// Joins the bus under the client's own name.
    fn hello(&mut self, hello: &Hello, rules: &Rules, user: u32) -> Result<Value, RequestRefusal> {
        if !self.with.is_empty() {
            return Err(RequestRefusal::LateHello);
        }
        let Hello { name, priority } = hello;
        let rights = rules.rights(name, user);
        let (bus, ready) = (self.subscriber.bus(), &self.ready);
        let subscriber = join(bus, user, self.process, name, rights.clone(), *priority, ready)?;
        self.subscriber = Arc::new(subscriber);
        self.priority = *priority;
        debug!(client = name, process = self.process, "a client has a name");
        Ok(answer::hello(name, *priority, &rights))
    }

    fn subscribe(&mut self, wanted: request::Subscribe) -> Result<Value, RequestRefusal> {
        if self.with.len() >= MAX_SUBSCRIPTIONS {
            return Err(BusError::Full("subscriptions", MAX_SUBSCRIPTIONS).into());
        }
        let queue = match wanted.ring {
            true => self.ring.as_ref().ok_or(RequestRefusal::NoRing)?,
            false => &self.queue,
        };
        let id = self.subscriber.subscribe(wanted.subscription(), queue)?;
        self.with.push((id, wanted.with));
        Ok(json!({ "subscribed": id.0 }))
    }

    /// Watches documents from now on; an earlier watch ends.
    fn watch(&mut self, filter: &str) -> Result<Value, RequestRefusal> {
        self.watch = Some(documents::watch(&self.subscriber, filter)?);
        Ok(json!({ "done": "watch" }))
    }

    /// Makes a ring in memory that is shared with the subscriber.
    fn share(&mut self, wanted: request::Ring) -> Result<Value, RequestRefusal> {
        if self.ring.is_some() {
            return Err(RequestRefusal::SecondRing);
        }
        let offer = shared::offer(wanted.slots).map_err(RequestRefusal::Ring)?;
        let slots = offer.ring.slots();
        self.ring = Some(offer.ring);
        self.files = offer.files;
        Ok(json!({ "ring": { "slots": slots, "words": hawser_bus::ring::words_for(slots) } }))
    }

    /// Attaches a text to a source's program, or detaches the attachment of the given name. Other connections
    /// are served while a text is checked, which takes a while.
    async fn change_program(
        &self,
        done: &str,
        source: u32,
        name: String,
        text: Option<(String, Vec<String>)>,
    ) -> Result<Value, RequestRefusal> {
        let (subscriber, called) = (self.subscriber.clone(), name.clone());
        let result = aside(move || {
            let pending = match text {
                Some((text, params)) => subscriber.attach(SourceId(source), &called, &text, &params)?,
                None => subscriber.detach(SourceId(source), &called, "")?,
            };
            pending.wait(ANSWER_TIMEOUT)?.map_err(|refusal| match refusal {
                Refusal::NotToAttach => {
                    let what = "attach to a program or to detach".to_owned();
                    BusError::NoRight { who: subscriber.name().to_owned(), what }
                }
                refusal => refusal.into(),
            })
        });
        let warnings = result.await?.map_err(|error: BusError| match error {
            BusError::Timeout => RequestRefusal::Late(error),
            error => error.into(),
        })?;
        let mut answer = json!({ "source": source, "name": name });
        if !warnings.is_empty() {
            answer["warnings"] = warnings.into();
        }
        Ok(json!({ done: answer }))
    }

    fn rights(&self) -> Result<Arc<Rights>, RequestRefusal> {
        self.subscriber.rights().ok_or(RequestRefusal::NoSubscriber)
    }

    /// Returns whether the client may see an entry of the log. Entries have values, so the client must be
    /// allowed to read the variable. It always sees its own entries, and those about a source as a whole,
    /// which have no value.
    fn may_know(&self, rights: &Rights, entry: &AuditEntry) -> bool {
        entry.who == self.subscriber.name()
            || entry.target.flow == FlowId::ALL
            || rights.may_observe(&entry.variable)
    }

    /// Returns the flows of sources of which the client may observe some event or variable.
    async fn flows(&self, scope: &Scope) -> Result<Value, RequestRefusal> {
        let rights = self.rights()?;
        let mut out = Vec::new();
        for source in self.subscriber.bus().sources() {
            let events = source.schema.offered().map(|(_, event)| &event.name);
            let mut names = events.chain(source.schema.variables().iter().map(|variable| &variable.name));
            if !names.any(|name| rights.may_observe(name)) {
                continue;
            }
            let Ok(pending) = self.subscriber.flows(source.id) else {
                continue;
            };
            let flows = aside(move || pending.wait(ANSWER_TIMEOUT)).await;
            let flows = flows.ok().and_then(Result::ok).unwrap_or_default();
            let provider = source.schema.provider();
            for (flow, info) in &flows {
                let target = SourceFlow { source: source.id, flow: *flow };
                if scope.holds(target, info) {
                    out.push(answer::flow(target, provider, info));
                }
            }
        }
        Ok(json!({ "flows": out }))
    }

    async fn probe(&mut self, probe: &request::Probe) -> Result<Value, RequestRefusal> {
        let source = probe.flow.source;
        let patterns: Vec<String> = if probe.variables.is_empty() {
            vec!["*".into()]
        } else {
            probe.variables.clone()
        };
        let mut variables: Vec<VariableId> = Vec::new();
        for pattern in patterns {
            variables.extend(self.variables(source, &pattern)?);
        }
        let pending = self.subscriber.probe(probe.flow, variables.clone())?;
        let answer = aside(move || pending.wait(ANSWER_TIMEOUT)).await??;
        let answer = answer.ok_or(BusError::Refused(Refusal::NoFlow(probe.flow)))?;
        let schema =
            schema_of(&mut self.schemas, self.subscriber.bus(), source).ok_or(RequestRefusal::NoSource)?;
        let named = |(id, value): (&VariableId, &Option<u64>)| {
            Some((schema.variable_type(*id)?.name.clone(), json!((*value)?)))
        };
        let values: Map<String, Value> = variables.iter().zip(&answer.values).filter_map(named).collect();
        Ok(
            json!({ "probed": { "flow": probe.flow.to_string(), "time": answer.time.as_nanos(), "values": values } }),
        )
    }

    /// Finds variables by name or pattern; `.conn.srtt` is completed with the provider's name.
    fn variables(&mut self, source: SourceId, name: &str) -> Result<Vec<VariableId>, BusError> {
        let schema = schema_of(&mut self.schemas, self.subscriber.bus(), source);
        let whole = match schema {
            Some(schema) if name.starts_with('.') => format!("{}{name}", schema.provider()),
            _ => name.to_owned(),
        };
        self.subscriber.variables(source, &whole.into())
    }

    fn modification(
        &mut self,
        target: SourceFlow,
        variable: &str,
        set: Option<(u64, Duration)>,
    ) -> Result<Modification, RequestRefusal> {
        let variables = self.variables(target.source, variable)?;
        match variables[..] {
            [variable] => Ok(Modification { target, variable, set }),
            _ => Err(RequestRefusal::NotOneVariable(
                variable.to_owned(),
                variables.len(),
            )),
        }
    }

    /// Makes the error for a modification that a source refused, with names.
    fn refused(&mut self, refusal: Refusal, modification: &Modification) -> RequestRefusal {
        let source = modification.target.source;
        let variable = schema_of(&mut self.schemas, self.subscriber.bus(), source)
            .and_then(|schema| schema.variable_type(modification.variable));
        match (refusal, variable) {
            (Refusal::NoRight, Some(v)) if v.access == Access::Observable => {
                RequestRefusal::ReadOnly(v.name.clone())
            }
            (Refusal::NoRight, Some(v)) => {
                let (who, what) = (self.subscriber.name().to_owned(), format!("set {}", v.name));
                BusError::NoRight { who, what }.into()
            }
            (refusal, Some(v)) => RequestRefusal::Variable(v.name.clone(), refusal),
            (refusal, None) => BusError::from(refusal).into(),
        }
    }

    async fn modify(
        &mut self,
        modification: &Modification,
        priority: Option<u8>,
    ) -> Result<Value, RequestRefusal> {
        let priority = priority.unwrap_or(self.priority);
        let pending = self.subscriber.modify(modification, priority)?;
        let before = aside(move || pending.wait(ANSWER_TIMEOUT)).await??;
        let before = before.map_err(|refusal| self.refused(refusal, modification))?;
        let word = if modification.set.is_some() {
            "modified"
        } else {
            "released"
        };
        Ok(json!({ word: { "flow": modification.target.to_string(), "before": before } }))
    }
}

/// Waits for a signal.
async fn wait(subscriber: &Subscriber, signals: &Consumer, ready: &Notify) {
    while !subscriber.is_notified() && signals.doze() {
        ready.notified().await;
    }
}

/// Sends lines, and reads from the peer at the same time.
async fn write(lines: &mut Lines, answers: &mut Answers, text: &[u8]) -> Result<(), LineError> {
    tokio::select! {
        written = answers.write(text) => written,
        never = lines.take_in() => match never {},
    }
}

/// Joins the bus for a process, with a waker for its notices.
fn join(
    bus: &Bus,
    user: u32,
    process: Option<u32>,
    name: &str,
    rights: Rights,
    priority: u8,
    ready: &Arc<Notify>,
) -> Result<Subscriber, BusError> {
    let waker = ready.clone();
    let origin = RequestOrigin { user: Some(user), process };
    bus.join_from(
        origin,
        name,
        rights,
        priority,
        Arc::new(move || waker.notify_one()),
    )
}

/// Runs a blocking wait on another thread, so that no other connection is delayed.
async fn aside<T: Send + 'static>(wait: impl FnOnce() -> T + Send + 'static) -> Result<T, RequestRefusal> {
    Ok(tokio::task::spawn_blocking(wait).await?)
}

/// Returns the schema of a source, and remembers it. A source that is gone may have left signals.
fn schema_of<'a>(
    known: &'a mut Vec<(SourceId, Arc<Schema>)>,
    bus: &Bus,
    source: SourceId,
) -> Option<&'a Arc<Schema>> {
    if !known.iter().any(|(id, _)| *id == source) {
        let schema = bus.schema(source).ok()?;
        if known.len() >= SCHEMAS {
            known.remove(0);
        }
        known.push((source, schema));
    }
    known
        .iter()
        .find(|(id, _)| *id == source)
        .map(|(_, schema)| schema)
}
