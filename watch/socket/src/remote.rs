//! A T-ware in another process: the same source code as in the loop, at the other end of the socket.

use std::sync::Arc;
use std::time::Duration;

use hawser_bus::ring::{Consumer, SLOT};
use hawser_bus::{
    Access, EventType, Field, Hands, Modification, Schema, Scope, Signal, SignalBuf, SourceFlow, SourceId,
    Subscription, Tware, ValueKind, Variable,
};
use hawser_time::nanos;
use serde_json::{Value, json};

use super::client::{Client, ClientError, ServerMessage};
use super::shared::RingWaker;

/// The maximum number of sources that are remembered.
const MAX_SOURCES: usize = 4096;
/// The maximum number of signals taken from the ring in one turn.
const TURN: usize = 4096;

/// A T-ware that receives signals of another process's flows, and steers them.
pub struct Remote {
    client: Client,
    tware: Box<dyn Tware>,
    subscriptions: Vec<Subscription>,
    /// The number of each subscription at the other end.
    ids: Vec<u32>,
    ring: Option<(Consumer, RingWaker)>,
    sources: Vec<RemoteSource>,
    hands: Hands,
    buf: SignalBuf,
}

/// A source of the other process.
struct RemoteSource {
    id: SourceId,
    schema: Arc<Schema>,
    /// The event numbers at the other end, by event of the local schema. The source may have events that this
    /// subscriber may not see.
    events: Vec<u16>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("ids", &self.ids)
            .finish_non_exhaustive()
    }
}

/// Runs a T-ware at the other end of the socket until the other process is gone. Signals come as lines;
/// [`Remote::new`] has a ring for higher rates.
///
/// # Errors
/// When one of its subscriptions is refused, and when the connection ends.
pub fn run_remote(client: Client, tware: Box<dyn Tware>) -> Result<(), ClientError> {
    let mut remote = Remote::new(client, tware, None)?;
    loop {
        remote.turn(Duration::from_secs(1))?;
    }
}

impl Remote {
    /// Makes the T-ware's subscriptions. Signals come as lines, or through a ring of the given number of
    /// slots.
    ///
    /// # Errors
    /// When one of its subscriptions is refused.
    pub fn new(
        mut client: Client,
        tware: Box<dyn Tware>,
        slots: Option<usize>,
    ) -> Result<Remote, ClientError> {
        let ring = slots.map(|slots| client.ring(slots)).transpose()?;
        let subscriptions = tware.subscriptions();
        let mut remote = Remote {
            client,
            tware,
            ids: Vec::with_capacity(subscriptions.len()),
            subscriptions,
            ring,
            sources: Vec::new(),
            hands: Hands::default(),
            buf: SignalBuf::default(),
        };
        remote.learn()?;
        for at in 0..remote.subscriptions.len() {
            let line = subscribe(&remote.subscriptions[at], remote.ring.is_some());
            let answer = remote.client.ask(&line)?;
            let number = answer["subscribed"]
                .as_u64()
                .and_then(|number| u32::try_from(number).ok());
            remote
                .ids
                .push(number.ok_or_else(|| protocol_error("the number of a subscription is missing"))?);
        }
        Ok(remote)
    }

    /// Returns the connection, for requests between turns.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Waits for signals, for at most `timeout`, and has the T-ware handle those that are queued. Returns
    /// their number.
    ///
    /// # Errors
    /// When the other process is gone, or refused a request.
    pub fn turn(&mut self, timeout: Duration) -> Result<usize, ClientError> {
        match &self.ring {
            Some((ring, waker)) => {
                waker.wait(ring, timeout).map_err(ClientError::Gone)?;
                let count = self.drain()?;
                // Only lines show whether the other process still exists.
                if count == 0 {
                    self.client.receive(Some(Duration::from_millis(1)))?;
                }
                Ok(count)
            }
            None => match self.client.receive(Some(timeout))? {
                ServerMessage::Signal(signal) => {
                    self.line(&signal)?;
                    Ok(1)
                }
                // A T-ware sets the variable again if it still needs it.
                ServerMessage::Ended(_) | ServerMessage::Event(_) | ServerMessage::Nothing => Ok(0),
            },
        }
    }

    /// Takes the signals queued in the ring.
    fn drain(&mut self) -> Result<usize, ClientError> {
        let mut words = [0; SLOT - 1];
        let mut count = 0;
        while count < TURN
            && let Some((ring, _)) = &mut self.ring
            && ring.pop(&mut words)
        {
            count += 1;
            let Some(signal) = Signal::new(&words) else {
                continue;
            };
            let (source, event) = (signal.target().source, signal.event());
            let Some(at) = self.source(source)? else { continue };
            // The local number of the event.
            let own = self.sources[at].events.iter().position(|there| *there == event.0);
            let Some(own) = own else { continue };
            words[0] = words[0] & !(0xffff << 32) | (own as u64) << 32;
            if self.buf.take(&words) {
                self.signalled()?;
            }
        }
        Ok(count)
    }

    /// Takes a signal that came as a line.
    fn line(&mut self, line: &Value) -> Result<(), ClientError> {
        let number = |value: &Value| value.as_u64();
        let flow: Option<SourceFlow> = line["flow"].as_str().and_then(|flow| flow.parse().ok());
        let (Some(target), Some(id)) = (flow, number(&line["subscription"])) else {
            return Err(protocol_error("a signal without a flow or a subscription"));
        };
        let subscription = self.ids.iter().position(|known| u64::from(*known) == id);
        let (Some(subscription), Some(at)) = (subscription, self.source(target.source)?) else {
            return Ok(());
        };
        let schema = &self.sources[at].schema;
        let Some(event) = line["event"].as_str().and_then(|name| schema.event(name)) else {
            return Ok(());
        };
        let fields = &schema.events()[usize::from(event.0)].fields;
        let mut values: Vec<u64> = fields
            .iter()
            .map(|field| number(&line["fields"][&field.name]).unwrap_or(0))
            .collect();
        let count = values.len() as u64;
        let with = self.subscriptions[subscription].with.iter();
        values.extend(with.map(|name| number(&line["with"][name]).unwrap_or(0)));
        let lost = number(&line["lost"]).unwrap_or(0);
        let first = id | u64::from(event.0) << 32 | count << 48 | (values.len() as u64) << 56;
        let second = u64::from(target.source.0) | lost << 32;
        let mut words = vec![first, second, target.flow.0, number(&line["time"]).unwrap_or(0)];
        words.append(&mut values);
        if self.buf.take(&words) {
            self.signalled()
        } else {
            Err(protocol_error("a signal with too many values"))
        }
    }

    /// Has the T-ware handle the signal in the buffer, and sends its modifications.
    fn signalled(&mut self) -> Result<(), ClientError> {
        let signal = self.buf.signal();
        let Some(subscription) = self.ids.iter().position(|id| *id == signal.subscription().0) else {
            return Ok(());
        };
        self.tware.signal(subscription, &signal, &mut self.hands);
        let wanted: Vec<Modification> = self.hands.take().collect();
        wanted
            .iter()
            .try_for_each(|modification| self.steer(modification))
    }

    fn steer(&mut self, modification: &Modification) -> Result<(), ClientError> {
        let Modification { target, variable, set } = modification;
        let Some(at) = self.source(target.source)? else {
            return Ok(());
        };
        let Some(variable) = self.sources[at].schema.variable_type(*variable) else {
            return Ok(());
        };
        let mut steer = json!({ "flow": target.to_string(), "variable": variable.name });
        if let Some((value, lease)) = set {
            steer["value"] = json!(value);
            steer["lease"] = json!(nanos(*lease));
        }
        self.client.send(&json!({ "steer": steer }))
    }

    /// Returns the index of a source in the list; `None` when the source is already gone.
    fn source(&mut self, id: SourceId) -> Result<Option<usize>, ClientError> {
        let find = |sources: &[RemoteSource]| sources.iter().position(|known| known.id == id);
        if let Some(at) = find(&self.sources) {
            return Ok(Some(at));
        }
        self.learn()?;
        Ok(find(&self.sources))
    }

    /// Asks for the present sources, and calls the T-ware's `begin` for new ones.
    fn learn(&mut self) -> Result<(), ClientError> {
        let answer = self.client.ask(&json!({ "offers": {} }))?;
        let offers = answer["offers"]
            .as_array()
            .ok_or_else(|| protocol_error("the list of sources is missing"))?;
        for offer in offers {
            let known = source(offer)?;
            if self.sources.iter().any(|there| there.id == known.id) || self.sources.len() >= MAX_SOURCES {
                continue;
            }
            self.tware.begin(known.id, &known.schema);
            self.sources.push(known);
        }
        let there = |known: &RemoteSource| {
            offers
                .iter()
                .any(|o| o["source"].as_u64() == Some(known.id.0.into()))
        };
        self.sources.retain(there);
        Ok(())
    }
}

fn protocol_error(what: &str) -> ClientError {
    ClientError::Protocol(what.to_owned())
}

/// Writes a subscription as a request.
fn subscribe(subscription: &Subscription, ring: bool) -> Value {
    let events: Vec<_> = subscription
        .events
        .iter()
        .map(hawser_bus::Pattern::as_str)
        .collect();
    let scope = match &subscription.scope {
        Scope::All => json!(""),
        Scope::One(target) => json!({ "flow": target.to_string() }),
        Scope::Rule(rule) => json!(rule.as_str()),
    };
    json!({ "subscribe": {
        "events": events,
        "with": subscription.with,
        "scope": scope,
        "priority": subscription.priority,
        "interval": nanos(subscription.filter.interval),
        "frequency": subscription.filter.frequency,
        "ring": ring,
    } })
}

/// Parses the offer of a source, as far as this subscriber may see it.
fn source(offer: &Value) -> Result<RemoteSource, ClientError> {
    let list = |key: &str| offer[key].as_array().map_or(&[][..], Vec::as_slice);
    let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
    let field = |of: &Value| Field { name: name(of), kind: kind(of) };
    let event = |of: &Value| EventType {
        name: name(of),
        fields: of["fields"].as_array().into_iter().flatten().map(field).collect(),
    };
    let variable = |of: &Value| {
        let access = match (of["min"].as_u64(), of["max"].as_u64()) {
            (Some(min), Some(max)) => Access::Modifiable { min, max },
            _ => Access::Observable,
        };
        Variable { name: name(of), kind: kind(of), access }
    };
    let events = list("events").iter().map(event).collect();
    let variables = list("variables").iter().map(variable).collect();
    let schema = Schema::new(offer["provider"].as_str().unwrap_or_default(), events, variables)
        .map_err(|error| protocol_error(&error.to_string()))?;
    let id = offer["source"].as_u64().and_then(|id| u32::try_from(id).ok());
    let id = id.ok_or_else(|| protocol_error("a source without a number"))?;
    let number = |of: &Value| {
        of["number"]
            .as_u64()
            .and_then(|n| u16::try_from(n).ok())
            .unwrap_or(u16::MAX)
    };
    let events = list("events").iter().map(number).collect();
    Ok(RemoteSource { id: SourceId(id), schema: Arc::new(schema), events })
}

fn kind(of: &Value) -> ValueKind {
    let subscriber = |value: &Value| Some((value["value"].as_u64()?, value["name"].as_str()?.to_owned()));
    match of["kind"].as_str() {
        Some("bool") => ValueKind::Bool,
        Some("duration") => ValueKind::Duration,
        Some("time") => ValueKind::Time,
        Some("enum") => ValueKind::Enum(
            of["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(subscriber)
                .collect(),
        ),
        _ => ValueKind::Number,
    }
}
