//! Observes the stacks and the links of a run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_engine::program::Program;
use hawser_inspect::trace::{TraceValue, TracedEvent};
use hawser_interp::Unsupported;
use hawser_sim::report::LinkReport;
use hawser_sim::world::{FrameFate, FrameSighting};
use hawser_sim::{Report, START, Scenario};
use hawser_testkit::step::Decoder;
use hawser_time::nanos;
use parking_lot::Mutex;

use crate::drawing::picture::{DrawnFlow, DrawnQueue, Field, Packet, Picture, Signal, Timer};
use crate::drawing::series::Series;
use crate::drawing::{signals, windows};

/// The maximum number of instructions of a host that are remembered until their packets leave.
const MAX_SENDERS: usize = 1 << 16;

/// The limits of the kept part of a run.
#[derive(Clone, Debug)]
pub struct DrawingLimits {
    /// The start of the kept part.
    pub from: Duration,
    /// The end of the kept part.
    pub to: Duration,
    /// The maximum number of packets; 10,000 by default.
    pub packets: usize,
    /// The maximum number of timers; 10,000 by default.
    pub timers: usize,
    /// The maximum number of fields of contexts; 400 by default.
    pub fields: usize,
    /// The maximum number of signals; 10,000 by default.
    pub signals: usize,
}

impl Default for DrawingLimits {
    fn default() -> DrawingLimits {
        DrawingLimits {
            from: Duration::ZERO,
            to: Duration::MAX,
            packets: 10_000,
            timers: 10_000,
            fields: 400,
            signals: 10_000,
        }
    }
}

/// A collector of the data for drawing a run. All observers of the run share it.
#[derive(Clone)]
pub struct Collector(Arc<Mutex<Collected>>);

struct Collected {
    limits: DrawingLimits,
    picture: Picture,
    /// For each flow of the picture, the scenario's flow and the two hosts.
    of_pairs: Vec<(usize, String, String)>,
    /// The host that owns each address.
    owners: BTreeMap<IpAddr, usize>,
    /// For each host, the decoder of its packets and their senders.
    hosts: Vec<OfHost>,
    lines: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    /// The index of each packet by its number.
    packets: BTreeMap<u64, usize>,
    timers: BTreeMap<(usize, String, String), RunCollector>,
    fields: BTreeMap<(usize, String, String), usize>,
}

#[derive(Default)]
struct OfHost {
    decoder: Option<Decoder>,
    senders: BTreeMap<u32, Sender>,
}

struct Sender {
    blueprint: String,
    line: usize,
    flow: Option<usize>,
}

struct RunCollector {
    since: u64,
    deadline: u64,
    flow: Option<usize>,
}

impl Collector {
    /// Creates a collector for runs of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, limits: DrawingLimits) -> Collector {
        let hosts: Vec<String> = scenario.host.iter().map(|host| host.name.clone()).collect();
        let number = |name: &str| hosts.iter().position(|known| known == name).unwrap_or(0);
        let addresses = scenario.host.iter().enumerate().flat_map(|(number, host)| {
            let addresses = host.parsed_addresses(number).unwrap_or_default();
            addresses.into_iter().map(move |(address, _)| (address, number))
        });
        let owners = addresses.collect();
        let flows = pairs(scenario).map(|(_, from, to)| DrawnFlow {
            name: format!("{from} to {to}"),
            hosts: [number(from), number(to)],
        });
        let of_pairs = pairs(scenario)
            .map(|(flow, from, to)| (flow, from.clone(), to.clone()))
            .collect();
        let picture = Picture {
            flows: flows.collect(),
            signal_types: vec![Vec::new(); hosts.len()],
            hosts: hosts.clone(),
            ..Picture::default()
        };
        Collector(Arc::new(Mutex::new(Collected {
            limits,
            picture,
            owners,
            of_pairs,
            hosts: hosts.iter().map(|_| OfHost::default()).collect(),
            lines: BTreeMap::new(),
            names: BTreeMap::new(),
            packets: BTreeMap::new(),
            timers: BTreeMap::new(),
            fields: BTreeMap::new(),
        })))
    }

    /// Announces the program of a host, so that its packets can be decoded.
    ///
    /// # Errors
    /// A construct of its program that the interpreter does not run.
    pub fn host(&self, host: &str, program: &dyn Program) -> Result<(), Unsupported> {
        let decoder = Decoder::new(program)?;
        let mut collected = self.0.lock();
        if let Some(number) = collected.number(host) {
            collected.hosts[number].decoder = Some(decoder);
            collected.picture.signal_types[number] = signals::types(program.module());
        }
        Ok(())
    }

    /// Adds the effects of an event of a host. Its flow is an index into the [`pairs`] of the scenario.
    pub fn event(&self, event: &TracedEvent) {
        let mut collected = self.0.lock();
        if let Some(host) = collected.number(&event.host) {
            collected.event(host, event);
        }
    }

    /// Adds an observation of a packet on its way.
    pub fn sight(&self, sight: &FrameSighting<'_>) {
        self.0.lock().sight(sight);
    }

    /// Returns the picture of a finished run.
    #[must_use]
    pub fn finish(&self, report: &Report) -> Picture {
        let mut collected = self.0.lock();
        let end = nanos(Duration::from_secs_f64(report.seconds));
        let running: Vec<_> = std::mem::take(&mut collected.timers).into_iter().collect();
        for ((host, _, name), timer) in running {
            collected.timer(host, name, &timer, end, "running");
        }
        let mut picture = collected.picture.clone();
        picture.number = windows::number(&picture);
        picture.windows = windows::windows(&picture);
        picture.name.clone_from(&report.name);
        picture.program.clone_from(&report.program);
        (picture.seed, picture.end_ns) = (report.seed, end);
        picture.failures.clone_from(&report.failures);
        picture.queues = report
            .links
            .iter()
            .filter_map(|link| queue(link, end.min(nanos(collected.limits.to))))
            .collect();
        for flow in &report.flows {
            let pair = collected
                .of_pairs
                .iter()
                .position(|(number, from, to)| *number == flow.flow && *from == flow.from && *to == flow.to);
            if let Some(named) = pair.and_then(|pair| picture.flows.get_mut(pair)) {
                named.name = format!("{} {} to {}, port {}", flow.app, flow.from, flow.to, flow.port);
            }
        }
        let fields = picture.fields.iter().map(|field| &field.points);
        let series = fields.chain(picture.queues.iter().map(|queue| &queue.points));
        picture.left_out.points = series.map(Series::thinned).sum();
        picture
    }
}

/// Returns the queue of a link's direction over time, if it was recorded.
fn queue(link: &LinkReport, end: u64) -> Option<DrawnQueue> {
    let depths = link.queue_depths.as_ref()?;
    let (mut points, mut mean) = (Series::default(), Series::default());
    for (from, max_bytes, mean_bytes) in depths.spans() {
        points.push(nanos(from), max_bytes);
        mean.push(nanos(from), mean_bytes.round() as u64);
    }
    // The queue was empty after the last of them.
    let after = depths.spans().last().map(|(from, ..)| from + depths.width());
    let after = after.map_or(0, nanos);
    for series in [&mut points, &mut mean] {
        if after < end {
            series.push(after, 0);
        }
    }
    Some(DrawnQueue { name: format!("{} to {}", link.from, link.to), points, mean })
}

impl Collected {
    /// Returns whether events at a time are kept.
    fn wants(&self, at: u64) -> bool {
        (nanos(self.limits.from)..=nanos(self.limits.to)).contains(&at)
    }

    fn number(&self, host: &str) -> Option<usize> {
        self.picture.hosts.iter().position(|known| known == host)
    }

    fn event(&mut self, host: usize, event: &TracedEvent) {
        let of = event.context.as_ref().or(event.created.as_ref());
        let context = of.map_or_else(String::new, ToString::to_string);
        self.senders(host, event);
        self.timers_of(host, event, &context);
        if self.wants(event.at_ns) {
            self.changes(host, event, &context);
            self.signals(host, event, &context);
        }
    }

    fn signals(&mut self, host: usize, event: &TracedEvent, context: &str) {
        for instruction in &event.instructions {
            let types = &self.picture.signal_types[host];
            let Some((name, fields)) = signals::emitted(instruction, types) else {
                continue;
            };
            if self.picture.signals.len() >= self.limits.signals {
                self.picture.left_out.signals += 1;
                continue;
            }
            self.picture.signals.push(Signal {
                at_ns: event.at_ns,
                host,
                flow: event.flow,
                context: context.to_owned(),
                name,
                fields,
                line: format!("{}:{}", instruction.line.file, instruction.line.line),
            });
        }
    }

    /// Records the instructions that send packets, with their lines.
    fn senders(&mut self, host: usize, event: &TracedEvent) {
        for (index, instruction) in event.instructions.iter().enumerate() {
            let Some((blueprint, _)) = instruction.arguments.first() else {
                continue;
            };
            if instruction.instruction != "pkt_gen" {
                continue;
            }
            let line = format!("{}:{}", instruction.line.file, instruction.line.line);
            let sender = Sender {
                blueprint: blueprint.to_string(),
                line: intern(&mut self.lines, line),
                flow: event.flow,
            };
            let senders = &mut self.hosts[host].senders;
            senders.insert(event.first_cause + index as u32, sender);
            if senders.len() > MAX_SENDERS {
                senders.pop_first();
            }
        }
    }

    fn timers_of(&mut self, host: usize, event: &TracedEvent, context: &str) {
        let at = event.at_ns;
        if event.source == "timer" {
            // The event does not name the timer that fired: it is the one that was due.
            let due = self
                .timers
                .iter()
                .find(|((on, of, _), timer)| *on == host && of == context && timer.deadline <= at);
            if let Some(key) = due.map(|(key, _)| key.clone())
                && let Some(timer) = self.timers.remove(&key)
            {
                self.timer(host, key.2, &timer, at, "fired");
            }
        }
        for instruction in &event.instructions {
            let arguments = &instruction.arguments;
            let argument = |name: &str| arguments.iter().find(|(known, _)| known.as_str() == name);
            let Some((_, TraceValue::Text(name))) = argument("timer") else {
                continue;
            };
            let key = (host, context.to_owned(), name.clone());
            let before = self.timers.remove(&key);
            let starts = instruction.instruction == "timer_start";
            if let Some(before) = before {
                let end = if starts { "restarted" } else { "stopped" };
                self.timer(host, name.clone(), &before, at, end);
            }
            if let (true, Some((_, TraceValue::Time(deadline)))) = (starts, argument("deadline")) {
                let running = RunCollector { since: at, deadline: *deadline, flow: event.flow };
                self.timers.insert(key, running);
            }
        }
    }

    fn timer(&mut self, host: usize, name: String, timer: &RunCollector, end_ns: u64, end: &'static str) {
        if !self.wants(timer.since) && !self.wants(end_ns) {
            return;
        }
        if self.picture.timers.len() >= self.limits.timers {
            self.picture.left_out.timers += 1;
            return;
        }
        self.picture.timers.push(Timer {
            host,
            flow: timer.flow,
            name,
            from_ns: timer.since,
            to_ns: end_ns,
            end,
        });
    }

    fn changes(&mut self, host: usize, event: &TracedEvent, context: &str) {
        for change in &event.changes {
            let number = |value: &TraceValue| match value {
                TraceValue::Number(number) => Some((*number, "number")),
                TraceValue::Flag(flag) => Some((u64::from(*flag), "number")),
                TraceValue::Span(span) => Some((*span, "span")),
                _ => None,
            };
            let (Some((old, _)), Some((new, unit))) = (number(&change.old), number(&change.new)) else {
                continue;
            };
            let key = (host, context.to_owned(), change.field.to_string());
            let known = self.fields.get(&key).copied();
            if known.is_none() && self.picture.fields.len() >= self.limits.fields {
                self.picture.left_out.changes += 1;
                continue;
            }
            let index = known.unwrap_or_else(|| {
                let mut points = Series::default();
                points.push(event.at_ns.saturating_sub(1), old);
                self.picture.fields.push(Field {
                    host,
                    flow: event.flow,
                    context: context.to_owned(),
                    name: change.field.to_string(),
                    unit,
                    points,
                });
                self.picture.fields.len() - 1
            });
            self.fields.insert(key, index);
            self.picture.fields[index].points.push(event.at_ns, new);
        }
    }

    fn sight(&mut self, sight: &FrameSighting<'_>) {
        let at = nanos(sight.at - START);
        let fate = match sight.fate {
            FrameFate::Sent => return self.sent(at, sight),
            // The packet is still in flight.
            FrameFate::Arrived | FrameFate::Forwarded => return,
            FrameFate::Delivered => "delivered",
            FrameFate::Lost(rule) => rule,
        };
        // The first copy counts.
        if let Some(index) = self.packets.remove(&sight.frame.number) {
            let packet = &mut self.picture.packets[index];
            (packet.fate, packet.end_ns) = (fate, at);
        }
    }

    fn sent(&mut self, at: u64, sight: &FrameSighting<'_>) {
        if !self.wants(at) {
            return;
        }
        if self.picture.packets.len() >= self.limits.packets {
            self.picture.left_out.packets += 1;
            return;
        }
        let host = &self.hosts[sight.from];
        let sender = host.senders.get(&sight.frame.cause);
        let decoded = sender.zip(host.decoder.as_ref());
        let decoded = decoded.and_then(|(sender, decoder)| decoder.decode(&sender.blueprint, sight.frame));
        let (text, numbers, payload) = match decoded {
            Some(decoded) => (decoded.text, decoded.numbers, decoded.payload),
            None => (sight.frame.summary(), Vec::new(), 0),
        };
        let numbers = numbers
            .into_iter()
            .map(|(name, value)| (intern(&mut self.names, name), value));
        let owner = |address| self.owners.get(&address).copied();
        let to = sight.frame.destination().and_then(owner).unwrap_or_default();
        let packet = Packet {
            number: sight.frame.number,
            at_ns: at,
            from: sight.from,
            to,
            flow: sender.and_then(|sender| sender.flow),
            fate: "under way",
            end_ns: at,
            line: sender.map(|sender| sender.line),
            blueprint: sender.map_or_else(String::new, |sender| sender.blueprint.clone()),
            text,
            numbers: numbers.collect(),
            payload,
        };
        self.packets
            .insert(sight.frame.number, self.picture.packets.len());
        self.picture.packets.push(packet);
        self.picture.lines = ordered(&self.lines, std::mem::take(&mut self.picture.lines));
        self.picture.names = ordered(&self.names, std::mem::take(&mut self.picture.names));
    }
}

/// Returns the flows of a scenario, once for each pair of hosts: the flow's number, the client's host and the
/// server's.
pub fn pairs(scenario: &Scenario) -> impl Iterator<Item = (usize, &String, &String)> {
    let flows = scenario.flow.iter().enumerate();
    flows.flat_map(|(number, flow)| flow.pairs().map(move |(from, to)| (number, from, to)))
}

/// Returns the number of a text, and assigns a new one if needed.
fn intern(known: &mut BTreeMap<String, usize>, text: String) -> usize {
    let next = known.len();
    *known.entry(text).or_insert(next)
}

/// Returns the texts in the order of their numbers, after the earlier ones in `before`.
fn ordered(known: &BTreeMap<String, usize>, mut before: Vec<String>) -> Vec<String> {
    if before.len() < known.len() {
        before = vec![String::new(); known.len()];
        for (text, index) in known {
            before[*index].clone_from(text);
        }
    }
    before
}
