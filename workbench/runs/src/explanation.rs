//! Explains a failed run in a few lines: the task of the connection, the pending timers, and the last events.
//!
//! A run is exactly reproducible, so that it is repeated with its last events kept. A successful run has no
//! extra cost.

use hawser_syntax::{OneLine, Printable};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use hawser_inspect::trace::{
    Context, Filter, Flows, LastEvents, ProgramLine, Recorder, TraceValue, TracedEvent,
};
use hawser_sim::end_status::{EndStanding, TimerStanding};
use hawser_sim::report::{FlowReport, LinkReport};
use hawser_sim::world::{FrameFate, FrameSighting};
use parking_lot::Mutex;
use serde::Serialize;

use crate::{Programs, Report, RunError, Scenario, observed};

/// The maximum number of lines of a story, unless its ends and links alone need more.
const MAX_LINES: usize = 30;
/// The minimum number of lines of events.
const MIN_EVENT_LINES: usize = 8;
/// The number of events and packets that are kept during the run.
const KEPT_EVENTS: usize = 16;
const KEPT_PACKETS: usize = 4096;
/// The column of places in the source, at which an event's fields are truncated.
const PLACES: usize = 80;
const MAX_WIDTH: usize = 120;

/// The explanation of a failed run.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The first failure.
    pub failure: String,
    /// The time when the run ended, in seconds.
    pub seconds: f64,
    /// The reason for the end; see [`Report::end`].
    pub end: &'static str,
    /// The scenario's flow to which the connection belongs; absent when no connection is to blame.
    pub flow: Option<usize>,
    /// The ends of the connection, the client's first.
    pub ends: Vec<EndStory>,
    /// The directions of the links.
    pub links: Vec<LinkStory>,
    /// The time of the fault, in seconds; absent if an expected event merely did not happen.
    pub failed: Option<f64>,
    /// The last events of the connection, or of all hosts, until the fault or until the end; the oldest
    /// first.
    pub events: Vec<ExplainedEvent>,
    /// The reason why there are no events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The state of an end, and the statements that last set its timers.
#[derive(Clone, Debug, Serialize)]
pub struct EndStory {
    /// The end's state.
    #[serde(flatten)]
    pub standing: EndStanding,
    /// For each timer, the statement that last started or stopped it.
    pub set: BTreeMap<String, Set>,
}

/// The start or stop of a timer by a statement.
#[derive(Clone, Debug, Serialize)]
pub struct Set {
    /// The time in seconds.
    pub seconds: f64,
    /// The time when it was to fire, in seconds; absent if it was stopped.
    pub fires: Option<f64>,
    /// The statement that set it.
    #[serde(flatten)]
    pub line: ProgramLine,
}

/// One direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStory {
    /// The direction's figures.
    #[serde(flatten)]
    pub link: LinkReport,
    /// The last packet that it lost.
    pub last_lost: Option<LostPacket>,
}

/// A lost packet.
#[derive(Clone, Debug, Serialize)]
pub struct LostPacket {
    /// The packet's number in a capture.
    pub packet: u64,
    /// The time of the loss, in seconds.
    pub seconds: f64,
    /// The rule that lost it.
    pub rule: &'static str,
}

/// An event, and the fate of the packets that it sent.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedEvent {
    /// The event with its effects.
    #[serde(flatten)]
    pub event: TracedEvent,
    /// The packets, each with the index of its instruction.
    pub packets: Vec<(usize, PacketFate)>,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PacketFate {
    /// The packet's number in a capture.
    pub packet: u64,
    /// `under way`, `delivered`, or the rule that lost it.
    pub fate: &'static str,
}

/// Explains the failed run of this report. Returns `None` if it did not fail.
///
/// # Errors
/// The reason why the scenario cannot be run at all.
pub fn why(
    programs: &Programs,
    scenario: &Scenario,
    report: &Report,
) -> Result<Option<Explanation>, RunError> {
    let Some(failure) = report.failures.first() else {
        return Ok(None);
    };
    let standing = |flow: &&FlowReport| flow.ends.is_some();
    let blamed = report.flows.iter().filter(standing).find(|flow| !flow.ok);
    let flow = blamed.or_else(|| report.flows.iter().find(standing));
    let filter = Filter { flow: flow.map(|flow| flow.flow), ..Filter::default() };
    let connection = flow.and_then(|flow| {
        let FlowReport { flow: number, port, client_port, .. } = flow;
        let [from, to] = flow.ends.as_deref()?.each_ref().map(|end| &end.host);
        super::between(scenario, *number, [from, to], [client_port.unwrap_or(0), *port])
    });
    let ends = || flow.and_then(|flow| flow.ends.as_deref()).into_iter().flatten();
    let failed = ends().filter_map(|end| end.failed).min_by(f64::total_cmp);
    let names: Vec<String> = scenario.host.iter().map(|host| host.name.clone()).collect();
    let tail = Arc::new(Mutex::new(RecentEvents {
        until: failed.map_or(u64::MAX, |seconds| (seconds * 1e9).round() as u64),
        ..RecentEvents::default()
    }));
    let into = Arc::clone(&tail);
    let last = LastEvents { count: KEPT_EVENTS, until_ns: tail.lock().until };
    let recorder = Recorder::last(
        hawser_sim::START,
        filter,
        last,
        Box::new(move |event| into.lock().see(event)),
    )
    .with_flows(Flows::new(connection));
    let packets = Rc::new(RefCell::new(Packets::default()));
    let seen = Rc::clone(&packets);
    let watch = Box::new(move |sight: &FrameSighting<'_>| seen.borrow_mut().see(sight));
    let options = hawser_sim::Options { seed: Some(report.seed), packets: Some(watch), ..Default::default() };
    let again = observed(programs, scenario, recorder.clone(), options);
    recorder.finish();
    let (tail, packets) = (tail.lock(), packets.borrow());
    let happened = |event: &TracedEvent| {
        let mut happening = packets.explain(event, &names);
        happening.event.flow = flow.map(|flow| flow.flow);
        happening
    };
    Ok(Some(Explanation {
        failure: failure.clone(),
        seconds: report.seconds,
        end: report.end,
        flow: flow.map(|flow| flow.flow),
        ends: ends().map(|end| tail.end(end)).collect(),
        failed,
        links: report
            .links
            .iter()
            .enumerate()
            .map(|(pipe, link)| packets.link(pipe, link))
            .collect(),
        events: tail.events.iter().map(happened).collect(),
        note: again
            .err()
            .map(|error| format!("its events cannot be shown: {error}")),
    }))
}

/// The last events, and the last write of each field of a context.
#[derive(Default)]
struct RecentEvents {
    /// The time limit in nanoseconds. Later events do not count as the last ones.
    until: u64,
    /// True after a false assertion. Later events do not count as the last ones.
    is_over: bool,
    events: VecDeque<TracedEvent>,
    /// By host, context type and field: the time, the value and the statement.
    writes: BTreeMap<(String, String, String), (u64, TraceValue, ProgramLine)>,
}

impl RecentEvents {
    fn see(&mut self, event: &TracedEvent) {
        for change in &event.changes {
            let key = (
                event.host.to_string(),
                change.context.to_string(),
                change.field.to_string(),
            );
            let write = (event.at_ns, change.new.clone(), change.line.clone());
            self.writes.insert(key, write);
        }
        if self.is_over || event.at_ns > self.until {
            return;
        }
        self.is_over = event.outcome == "assert";
        if self.events.len() == KEPT_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event.clone());
    }

    fn end(&self, standing: &EndStanding) -> EndStory {
        let context = standing.context.clone().unwrap_or_default();
        let set = standing.timers.iter().filter_map(|timer| {
            let key = (standing.host.clone(), context.clone(), timer.timer.clone());
            let (at, value, line) = self.writes.get(&key)?;
            let fires = match value {
                TraceValue::Time(at) => Some(seconds(*at)),
                _ => None,
            };
            let set = Set { seconds: seconds(*at), fires, line: line.clone() };
            Some((timer.timer.clone(), set))
        });
        EndStory { set: set.collect(), standing: standing.clone() }
    }
}

/// The last packets, in order, and the last one that each pipe lost.
#[derive(Default)]
struct Packets {
    /// The number, host, cause and fate of each packet.
    last: VecDeque<(u64, usize, u32, &'static str)>,
    lost: BTreeMap<usize, LostPacket>,
}

impl Packets {
    fn see(&mut self, sight: &FrameSighting<'_>) {
        let (number, cause) = (sight.frame.number, sight.frame.cause);
        let fate = match sight.fate {
            FrameFate::Sent => {
                if self.last.len() == KEPT_PACKETS {
                    self.last.pop_front();
                }
                return self.last.push_back((number, sight.from, cause, "under way"));
            }
            // The packet is still in flight.
            FrameFate::Arrived | FrameFate::Forwarded => return,
            FrameFate::Delivered => "delivered",
            FrameFate::Lost(rule) => {
                let seconds = hawser_time::nanos(sight.at - hawser_sim::START) as f64 / 1e9;
                let lost = LostPacket { packet: number, seconds, rule };
                self.lost.extend(sight.pipe.map(|pipe| (pipe, lost)));
                rule
            }
        };
        let first = self.last.front().map_or(0, |(first, ..)| *first);
        let place = number
            .checked_sub(first)
            .and_then(|place| usize::try_from(place).ok());
        if let Some(packet) = place.and_then(|place| self.last.get_mut(place)) {
            packet.3 = fate;
        }
    }

    /// Returns an event with its packets.
    fn explain(&self, event: &TracedEvent, names: &[String]) -> ExplainedEvent {
        let host = names.iter().position(|name| **name == *event.host);
        let causes = event.first_cause..event.first_cause + event.instructions.len() as u32;
        let mine = self
            .last
            .iter()
            .filter(|(_, from, cause, _)| Some(*from) == host && causes.contains(cause));
        let sent = mine.map(|(packet, _, cause, fate)| {
            let instruction = (cause - event.first_cause) as usize;
            let sent = PacketFate { packet: *packet, fate };
            (instruction, sent)
        });
        ExplainedEvent { packets: sent.collect(), event: event.clone() }
    }

    fn link(&self, pipe: usize, link: &LinkReport) -> LinkStory {
        LinkStory { link: link.clone(), last_lost: self.lost.get(&pipe).cloned() }
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![format!("why: {}", self.failure)];
        lines.extend(self.ends.iter().flat_map(end_lines));
        lines.extend(self.links.iter().map(link_line));
        lines.push(format!(
            "  the run ended at {:.9} s: {}",
            self.seconds,
            self.ending()
        ));
        let shown = self.shown();
        if !shown.is_empty() {
            let until = match self.failed {
                Some(seconds) => format!(" until it failed at {seconds:.9} s"),
                None => String::new(),
            };
            lines.push(format!("  the last events{until}:"));
        }
        lines.extend(shown.iter().flat_map(ExplainedEvent::lines));
        lines.extend(self.note.iter().map(|note| format!("  {note}")));
        let (why, lines) = lines.split_at(1);
        write!(f, "{}", Printable(&why[0]))?;
        lines.iter().try_for_each(|line| write!(f, "\n{}", OneLine(line)))
    }
}

impl Explanation {
    /// Returns the options with which `hawser sim trace` shows the last events.
    #[must_use]
    pub fn trace_options(&self) -> String {
        let flow = self
            .flow
            .map_or_else(String::new, |flow| format!(" --flow {flow}"));
        let first = self.shown().first().map_or(0, |happening| happening.event.at_ns);
        format!("{flow} --from {:.9}s", seconds(first))
    }

    /// Returns the events that fit into the text.
    fn shown(&self) -> &[ExplainedEvent] {
        let others: usize = self.ends.iter().map(|end| end_lines(end).len()).sum();
        let room = MAX_LINES.saturating_sub(others + self.links.len() + 3);
        let mut room = room.max(MIN_EVENT_LINES);
        let mut from = self.events.len();
        for happening in self.events.iter().rev() {
            let lines = happening.lines().len();
            if lines > room && from < self.events.len() {
                break;
            }
            room = room.saturating_sub(lines);
            from -= 1;
        }
        &self.events[from..]
    }

    fn ending(&self) -> &'static str {
        match self.end {
            "done" => "all data had arrived",
            "time" => "its time limit was reached",
            "idle" => "no timer is armed and no packet is under way, so no further event could occur",
            "stalled" => "time stood still",
            _ => "packets circulated, but no byte reached an application",
        }
    }
}

fn end_lines(end: &EndStory) -> Vec<String> {
    let standing = &end.standing;
    let connection = match (standing.local, standing.remote) {
        (Some(local), Some(remote)) => format!(", {local} > {remote}"),
        _ => String::new(),
    };
    let context = match &standing.context {
        Some(context) => format!(", {context}"),
        None => ", without a context".to_owned(),
    };
    let mut lines = vec![
        format!("  {} ({}{connection}{context})", standing.host, standing.side),
        format!("    application: {}", standing.application),
    ];
    if standing.kept > 0 || standing.unread > 0 {
        let EndStanding { kept, unsent, unread, .. } = standing;
        let mut parts = Vec::new();
        if *kept > 0 {
            parts.push(format!(
                "{kept} bytes are not acknowledged, {unsent} of them were never sent"
            ));
        }
        if *unread > 0 {
            parts.push(format!("{unread} bytes delivered but not read"));
        }
        lines.push(format!("    engine: {}", parts.join("; ")));
    }
    if !standing.deferred.is_empty() {
        let requests = standing.deferred.join(", ");
        lines.push(format!("    requests whose chains have no room: {requests}"));
    }
    if standing.context.is_some() {
        lines.extend(timer_lines(end));
    }
    lines
}

/// Returns one line for each timer that ever ran, and one for all others.
fn timer_lines(end: &EndStory) -> Vec<String> {
    let standing = &end.standing;
    let mut lines = Vec::new();
    let mut never = Vec::new();
    for timer in &standing.timers {
        match (timer.fires, end.set.get(&timer.timer)) {
            (None, None) => never.push(timer.timer.as_str()),
            (_, set) => lines.push(format!("    timer {}", timer_state(timer, set))),
        }
    }
    if !never.is_empty() {
        lines.push(format!("    never armed: {}", never.join(", ")));
    }
    let is_waiting = !standing.application.waits_for.is_empty();
    if is_waiting && standing.timers.iter().all(|timer| timer.fires.is_none()) {
        lines.push("    no timer is armed: only a packet can wake it".to_owned());
    }
    lines
}

fn timer_state(timer: &TimerStanding, set: Option<&Set>) -> String {
    let name = &timer.timer;
    let by = |set: &Set| format!("by {}:{}", set.line.file, set.line.line);
    match (timer.fires, set) {
        (Some(fires), Some(set)) => format!(
            "{name} fires at {fires:.9} s; started at {:.9} s {}",
            set.seconds,
            by(set)
        ),
        (Some(fires), None) => format!("{name} fires at {fires:.9} s"),
        (None, Some(set)) => match set.fires {
            Some(fired) => format!(
                "{name} is not armed: it fired at {fired:.9} s; started at {:.9} s {}",
                set.seconds,
                by(set)
            ),
            None => format!("{name} is not armed: stopped at {:.9} s {}", set.seconds, by(set)),
        },
        (None, None) => format!("{name} is not armed"),
    }
}

fn link_line(link: &LinkStory) -> String {
    let LinkReport { link: name, from, to, sent, up, under_way, .. } = &link.link;
    let state = if *up { "up" } else { "down" };
    let lost: u64 = link.link.dropped.values().sum();
    let last = link.last_lost.as_ref().map_or_else(String::new, |last| {
        format!(
            ", the last at {:.9} s (packet {}, by `{}`)",
            last.seconds, last.packet, last.rule
        )
    });
    format!(
        "  link {name} {from} -> {to}: {state}, {under_way} under way; {sent} packets sent, {lost} lost{last}"
    )
}

impl ExplainedEvent {
    fn lines(&self) -> Vec<String> {
        let event = &self.event;
        let mut head = format!(
            "    {:.9} {} {} {}",
            seconds(event.at_ns),
            event.host,
            event.source,
            event.event
        );
        let shown = event
            .fields
            .iter()
            .filter(|(_, value)| !value.is_zero() && !names_ends(event.context.as_ref(), value));
        for (name, value) in shown {
            head += &format!(" {name}={value}");
        }
        let mut lines = vec![cut(&head, MAX_WIDTH)];
        for (index, instruction) in event.instructions.iter().enumerate() {
            let of_it = self.packets.iter().filter(|(of, _)| *of == index);
            let packets: Vec<String> = of_it
                .map(|(_, sent)| match sent.fate {
                    "delivered" | "under way" => format!("packet {} {}", sent.packet, sent.fate),
                    rule => format!("packet {} lost by `{rule}`", sent.packet),
                })
                .collect();
            let mut text = format!("      {}", instruction.instruction);
            let is_packet = instruction.instruction == "pkt_gen";
            for (name, value) in instruction.arguments.iter().filter(|_| !is_packet) {
                text += &format!(" {name} {value}");
            }
            for count in &instruction.counted {
                text += &format!(" [{}]", count.counter);
            }
            if is_packet {
                text += &format!(": {}", packets.join(", "));
            }
            let text = cut(&text, PLACES - 1);
            lines.push(format!(
                "{text:<PLACES$}{}:{}",
                instruction.line.file, instruction.line.line
            ));
        }
        if event.outcome != "done" && event.outcome != "stopped" {
            let why = event.why.as_deref().unwrap_or_default();
            let counted: String = event
                .counted
                .iter()
                .map(|count| format!(" [{}]", count.counter))
                .collect();
            lines.push(format!("      {} {why}{counted}", event.outcome));
        }
        lines
    }
}

/// Returns whether a field repeats an end of the story's connection.
fn names_ends(context: Option<&Context>, value: &TraceValue) -> bool {
    let Some(context) = context else { return false };
    let ends = [context.local, context.remote].into_iter().flatten();
    let value = value.to_string();
    let mut names = ends.flat_map(|end: SocketAddr| [end.ip().to_string(), end.port().to_string()]);
    names.any(|name| name == value)
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}
