//! Reads lines from a running process or from a recording.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hawser::interact::record::{self, Header, LineContent, MAX_LINE, Modification, RecordLine, SCHEMA};
use hawser::interact::{Client, ClientError, ServerMessage};
use hawser::time::nanos;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::interact::{exit, list, text};

/// The maximum number of flows probed per poll. Further flows are only listed.
const MAX_PROBED: usize = 64;
/// The number of probes between two requests for the offers, unless an unknown source appears.
const OFFERS_EVERY: u32 = 20;

/// The number of lines of a recording that are read ahead.
const LINES: usize = 64;

/// The next item of a source.
pub(super) enum SourceItem {
    Line(Box<RecordLine>),
    /// No item arrived in time.
    Nothing,
    End,
}

fn line(line: RecordLine) -> SourceItem {
    SourceItem::Line(Box::new(line))
}

/// A running process.
pub(super) struct LiveSource {
    client: Client,
    subscription: Option<u64>,
    began: Instant,
    every: Duration,
    next_probe: Instant,
    probes: u32,
    queue: VecDeque<RecordLine>,
    offers: Value,
    flows: Value,
    /// Set when the process has gone. Its last signals may still have to be read.
    has_ended: bool,
    /// The time and count last reported, by the entry's client, flow, variable and act.
    audit: HashMap<[String; 4], (u64, u64)>,
}

/// The subscription that is requested from a process.
pub(super) struct WantedSubscription<'a> {
    pub(super) pattern: &'a str,
    pub(super) scope: Option<&'a str>,
    pub(super) interval: Duration,
    pub(super) every: Duration,
}

impl LiveSource {
    /// Subscribes to the process.
    pub(super) fn start(mut client: Client, wanted: &WantedSubscription<'_>) -> Result<LiveSource, Exit> {
        let scope = match wanted.scope {
            Some(scope) if scope.contains('=') => json!(scope),
            Some(flow) => json!({ "flow": flow }),
            None => json!(""),
        };
        let interval = nanos(wanted.interval);
        let request = json!({ "subscribe": {
            "events": [wanted.pattern], "interval": interval, "scope": scope, "priority": 0,
        } });
        let subscription = client.ask(&request).map_err(exit)?["subscribed"].as_u64();
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            schema: SCHEMA.to_owned(),
            process: client.process(),
            began: began.as_millis() as u64,
            pattern: wanted.pattern.to_owned(),
            interval,
        };
        let now = Instant::now();
        Ok(LiveSource {
            client,
            subscription,
            began: now,
            every: wanted.every,
            next_probe: now,
            probes: 0,
            queue: VecDeque::from([RecordLine { at: 0, what: LineContent::Header(header) }]),
            offers: Value::Null,
            flows: Value::Null,
            has_ended: false,
            audit: HashMap::new(),
        })
    }

    pub(super) fn next(&mut self, timeout: Duration) -> Result<SourceItem, Exit> {
        if let Some(first) = self.queue.pop_front() {
            return Ok(line(first));
        }
        let rest = self.next_probe.saturating_duration_since(Instant::now());
        if rest.is_zero() && !self.has_ended {
            match self.poll() {
                Ok(()) => {}
                // The signals that the process left behind are still readable.
                Err(error) if is_gone(&error) => self.has_ended = true,
                Err(error) => return Err(exit(error)),
            }
            return Ok(SourceItem::Nothing);
        }
        let rest = if self.has_ended {
            timeout
        } else {
            rest.min(timeout)
        };
        match self.client.receive(Some(rest)) {
            Ok(ServerMessage::Signal(signal)) => {
                if !self.is_offered(&signal) {
                    // An event of a program's attachment is new, so the offers are requested again.
                    self.probes = 0;
                }
                let signal = serde_json::from_value(signal).map_err(|error| exit(protocol(&error)))?;
                Ok(line(RecordLine {
                    at: self.at(),
                    what: LineContent::Signal(signal),
                }))
            }
            Ok(ServerMessage::Ended(_) | ServerMessage::Event(_) | ServerMessage::Nothing) => {
                Ok(SourceItem::Nothing)
            }
            // The end of the watched process is not a failure of this command.
            Err(error) if is_gone(&error) => Ok(SourceItem::End),
            Err(error) => Err(exit(error)),
        }
    }

    /// Returns whether the last offers contain a signal's event.
    fn is_offered(&self, signal: &Value) -> bool {
        let mut events = self
            .offers
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|offer| list(offer, "events"));
        events.any(|event| event["name"] == signal["event"])
    }

    fn at(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn push(&mut self, kind: &str, what: Value) -> Result<(), ClientError> {
        let what = serde_json::from_value(json!({ kind: what })).map_err(|error| protocol(&error))?;
        let at = self.at();
        self.queue.push_back(RecordLine { at, what });
        Ok(())
    }

    /// Requests the state that no signals report.
    fn poll(&mut self) -> Result<(), ClientError> {
        self.next_probe = Instant::now() + self.every;
        let flows = self.client.ask(&json!({ "flows": {} }))?["flows"].take();
        let has_changed = flows != self.flows;
        if has_changed || self.probes.is_multiple_of(OFFERS_EVERY) {
            let offers = self.client.ask(&json!({ "offers": {} }))?["offers"].take();
            if offers != self.offers {
                self.offers = offers.clone();
                self.push("offers", offers)?;
            }
        }
        if has_changed {
            self.flows = flows.clone();
            self.push("flows", flows)?;
        }
        self.probes = self.probes.wrapping_add(1);
        let names: Vec<Value> = self
            .flows
            .as_array()
            .into_iter()
            .flatten()
            .map(|f| f["flow"].clone())
            .collect();
        for flow in names.into_iter().take(MAX_PROBED) {
            match self.client.ask(&json!({ "probe": { "flow": flow } })) {
                Ok(mut answer) => self.push("sample", answer["probed"].take())?,
                // The flow has ended since.
                Err(ClientError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.poll_audit()?;
        if let Some(subscription) = self.subscription {
            let mut answer = self.client.ask(&json!({ "statistics": subscription }))?;
            self.push("statistics", answer["statistics"].take())?;
        }
        Ok(())
    }

    /// Reports audit entries that are new or have been repeated.
    fn poll_audit(&mut self) -> Result<(), ClientError> {
        let answer = self.client.ask(&json!({ "audit": {} }))?;
        let mut fresh = Vec::new();
        for entry in list(&answer, "audit") {
            let key = ["who", "flow", "variable", "act"].map(|name| text(entry, name).to_owned());
            let state = (
                entry["last"].as_u64().unwrap_or(0),
                entry["count"].as_u64().unwrap_or(0),
            );
            if self.audit.get(&key) != Some(&state) {
                fresh.push((key, state, entry.clone()));
            }
        }
        // The log is ordered, so of several entries with equal keys the last is the latest.
        fresh.retain(|(key, state, _)| self.audit.get(key).is_none_or(|known| known.0 <= state.0));
        if fresh.is_empty() {
            return Ok(());
        }
        if self.audit.len() > 4096 {
            self.audit.clear();
        }
        let mut entries: Vec<Modification> = Vec::new();
        for (key, state, entry) in fresh {
            self.audit.insert(key, state);
            entries.push(serde_json::from_value(entry).map_err(|error| protocol(&error))?);
        }
        let at = self.at();
        self.queue
            .push_back(RecordLine { at, what: LineContent::Audit(entries) });
        Ok(())
    }
}

/// The error of an answer whose form this version does not know.
fn protocol(error: &serde_json::Error) -> ClientError {
    ClientError::Protocol(hawser_documents::fault_of_value(error).to_string())
}

/// Returns whether the other process has ended, rather than being slow.
fn is_gone(error: &ClientError) -> bool {
    matches!(error, ClientError::Gone(error) if error.kind() != std::io::ErrorKind::TimedOut)
}

pub(super) struct Replay {
    path: String,
    /// The lines, read by a thread of their own, because a pipe may deliver none for a long time.
    lines: Receiver<std::io::Result<String>>,
    number: usize,
    /// The start of the replay, if it runs at the recorded speed.
    began: Option<Instant>,
    waiting: Option<RecordLine>,
}

impl Replay {
    pub(super) fn open(path: &Path, at_own_speed: bool) -> Result<Replay, Exit> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Exit::input(format!("{name}: {error}")))?;
        let began = at_own_speed.then(Instant::now);
        let mut replay = Replay { path: name, lines: lines(file), number: 0, began, waiting: None };
        let text = replay.read(Duration::MAX)?.unwrap_or_default();
        let header = record::parse_header(&text).map_err(|error| replay.wrong(&error.to_string()))?;
        replay.waiting = Some(RecordLine { at: 0, what: LineContent::Header(header) });
        Ok(replay)
    }

    fn wrong(&self, why: &str) -> Exit {
        Exit::input(format!("{}:{}: {why}", self.path, self.number))
    }

    /// Returns a line, an empty line at the end, or `None` if none arrives in time.
    fn read(&mut self, timeout: Duration) -> Result<Option<String>, Exit> {
        let text = match self.lines.recv_timeout(timeout) {
            Ok(text) => text,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => Ok(String::new()),
        };
        self.number += 1;
        let text = text.map_err(|error| self.wrong(&error.to_string()))?;
        if text.len() == MAX_LINE {
            return Err(self.wrong(&format!("a line of more than {MAX_LINE} bytes")));
        }
        Ok(Some(text))
    }

    pub(super) fn next(&mut self, timeout: Duration) -> Result<SourceItem, Exit> {
        if self.waiting.is_none() {
            let Some(text) = self.read(timeout)? else {
                return Ok(SourceItem::Nothing);
            };
            // The last line of a truncated recording is incomplete.
            if !text.ends_with('\n') {
                return Ok(SourceItem::End);
            }
            self.waiting = Some(record::parse(&text).map_err(|error| self.wrong(&error.to_string()))?);
        }
        let Some(next) = self.waiting.take() else {
            return Ok(SourceItem::End);
        };
        if let Some(began) = self.began {
            let rest = Duration::from_nanos(next.at).saturating_sub(began.elapsed());
            if !rest.is_zero() {
                std::thread::sleep(rest.min(timeout));
                if rest > timeout {
                    self.waiting = Some(next);
                    return Ok(SourceItem::Nothing);
                }
            }
        }
        Ok(line(next))
    }
}

/// Reads the lines of a file. An empty line marks its end.
fn lines(file: File) -> Receiver<std::io::Result<String>> {
    let (sender, lines) = sync_channel(LINES);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(file);
        loop {
            let mut text = String::new();
            let mut limited = (&mut reader).take(MAX_LINE as u64);
            let read = limited.read_line(&mut text).map(|_| text);
            let is_last = !matches!(&read, Ok(text) if !text.is_empty());
            if sender.send(read).is_err() || is_last {
                return;
            }
        }
    });
    lines
}

/// A running process or a recording.
pub(super) enum WatchSource {
    Live(Box<LiveSource>),
    Replay(Replay),
}

impl WatchSource {
    pub(super) fn next(&mut self, timeout: Duration) -> Result<SourceItem, Exit> {
        match self {
            WatchSource::Live(live) => live.next(timeout),
            WatchSource::Replay(replay) => replay.next(timeout),
        }
    }
}
