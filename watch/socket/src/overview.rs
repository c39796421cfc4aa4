//! The flows of a process at one glance, condensed from the lines of a recording.
//!
//! Invariants: it takes lines and keys, and does no I/O. Each of its lists has a maximum length.

use std::collections::{BTreeMap, VecDeque};

use crate::record::{
    Counts, FlowRecord, Header, LineContent, Modification, Named, RecordLine, Sample, Signal,
};

/// The time span of sparklines, in nanoseconds.
pub const SPAN: u64 = 60_000_000_000;
/// The maximum number of points of a sparkline.
const MAX_POINTS: usize = 1024;
/// The maximum number of flows shown.
const MAX_FLOWS: usize = 1024;
/// The maximum number of event names that are counted.
const MAX_EVENTS: usize = 1024;
/// The maximum number of modifications that are stored.
const MAX_HELD: usize = 256;
/// The time for which an ended flow stays visible, in nanoseconds.
const LINGER: u64 = 5_000_000_000;
/// The number of latest events that are kept.
const LATEST: usize = 8;

/// The recent values of a variable.
#[derive(Clone, Debug, Default)]
pub struct Series(VecDeque<(u64, f64)>);

impl Series {
    fn push(&mut self, at: u64, value: f64) {
        self.0.push_back((at, value));
        while self.0.len() > MAX_POINTS || self.0.front().is_some_and(|(then, _)| at - *then.min(&at) > SPAN)
        {
            self.0.pop_front();
        }
    }

    /// Returns the maximum in each of `columns` equal parts of the last minute, or of the available time. A
    /// part without points is `None`.
    #[must_use]
    pub fn columns(&self, now: u64, columns: usize) -> Vec<Option<f64>> {
        let mut out = vec![None; columns];
        let Some((first, _)) = self.0.front() else {
            return out;
        };
        let begin = now.saturating_sub(SPAN).max(*first);
        let span = (now.saturating_sub(begin)).max(1);
        for (at, value) in self.0.iter().filter(|(at, _)| *at >= begin) {
            let part = (u128::from(at - begin) * columns as u128 / u128::from(span)) as usize;
            let slot: &mut Option<f64> = match out.get_mut(part.min(columns.saturating_sub(1))) {
                Some(slot) => slot,
                None => continue,
            };
            *slot = Some(slot.map_or(*value, |max| max.max(*value)));
        }
        out
    }

    /// Returns the latest value.
    #[must_use]
    pub fn last(&self) -> Option<f64> {
        self.0.back().map(|(_, value)| *value)
    }
}

/// A flow with its latest values.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The flow.
    pub flow: FlowRecord,
    /// The latest values of its variables.
    pub values: BTreeMap<String, u64>,
    /// The congestion window, in bytes.
    pub window: Series,
    /// The smoothed round-trip time, in nanoseconds.
    pub round_trip: Series,
    /// The delivery rate, in bit/s.
    pub rate: Series,
    delivered: Option<(u64, u64)>,
    /// The time at which the flow disappeared.
    pub gone: Option<u64>,
}

impl Watched {
    fn new(flow: FlowRecord) -> Watched {
        Watched {
            flow,
            values: BTreeMap::new(),
            window: Series::default(),
            round_trip: Series::default(),
            rate: Series::default(),
            delivered: None,
            gone: None,
        }
    }

    /// Returns the first variable whose last component is `end`.
    #[must_use]
    pub fn value(&self, end: &str) -> Option<(&str, u64)> {
        let found = self
            .values
            .iter()
            .find(|(name, _)| name.strip_suffix(end).is_some_and(|before| before.ends_with('.')));
        found.map(|(name, value)| (name.as_str(), *value))
    }

    fn sample(&mut self, at: u64, sample: &Sample) {
        self.values.clone_from(&sample.values);
        let number = |end: &str| self.value(end).map(|(_, value)| value);
        let (window, round_trip) = (number("cwnd"), number("srtt"));
        let delivered = number("delivered");
        if let Some(window) = window {
            self.window.push(at, window as f64);
        }
        if let Some(round_trip) = round_trip.filter(|rtt| *rtt > 0) {
            self.round_trip.push(at, round_trip as f64);
        }
        let Some(delivered) = delivered else { return };
        if let Some((then, before)) = self.delivered.filter(|(then, _)| *then < sample.time) {
            let bits = delivered.saturating_sub(before) as f64 * 8.0;
            self.rate.push(at, bits * 1e9 / (sample.time - then) as f64);
        }
        self.delivered = Some((sample.time, delivered));
    }
}

/// The sort order of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By name.
    Name,
    /// By delivery rate.
    Rate,
    /// By congestion window.
    Window,
    /// By round-trip time.
    RoundTrip,
}

impl Order {
    /// Returns the name of the column.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Order::Name => "flow",
            Order::Rate => "rate",
            Order::Window => "window",
            Order::RoundTrip => "round trip",
        }
    }

    fn next(self) -> Order {
        match self {
            Order::Name => Order::Rate,
            Order::Rate => Order::Window,
            Order::Window => Order::RoundTrip,
            Order::RoundTrip => Order::Name,
        }
    }
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Selects the flow above.
    Up,
    /// Selects the flow below.
    Down,
    /// Changes to the next order.
    Sort,
}

/// The flows of a process, their latest values, and what was selected.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The first line of the recording.
    pub header: Header,
    /// The time at which the latest line was received.
    pub now: u64,
    /// The flows by name.
    pub flows: BTreeMap<String, Watched>,
    /// The types of variables and of event fields, by name.
    kinds: BTreeMap<String, Named>,
    /// The names of the providers.
    pub providers: Vec<String>,
    /// The number of received events, by name.
    pub counts: BTreeMap<String, u64>,
    /// The latest events.
    pub latest: VecDeque<Signal>,
    /// The counts of all signals.
    pub statistics: Counts,
    /// The held values and their holders, by flow and variable.
    pub held: BTreeMap<(String, String), (u64, String)>,
    /// The order of the flows.
    pub order: Order,
    /// The name of the selected flow.
    pub selected: Option<String>,
}

impl Overview {
    /// Returns an overview without flows.
    #[must_use]
    pub fn new(header: Header) -> Overview {
        Overview {
            header,
            now: 0,
            flows: BTreeMap::new(),
            kinds: BTreeMap::new(),
            providers: Vec::new(),
            counts: BTreeMap::new(),
            latest: VecDeque::new(),
            statistics: Counts::default(),
            held: BTreeMap::new(),
            order: Order::Name,
            selected: None,
        }
    }

    /// Returns the type of a variable. A field's name is qualified by its event.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<&Named> {
        self.kinds.get(name)
    }

    /// Takes the next line of the recording.
    pub fn line(&mut self, line: &RecordLine) {
        self.now = self.now.max(line.at);
        match &line.what {
            LineContent::Header(_) => {}
            LineContent::Offers(offers) => {
                self.kinds.clear();
                self.providers = offers
                    .iter()
                    .map(|offer| offer.provider.clone())
                    .take(16)
                    .collect();
                self.providers.dedup();
                for offer in offers {
                    for variable in &offer.variables {
                        self.kinds.insert(variable.name.clone(), variable.clone());
                    }
                    for event in &offer.events {
                        let of = |field: &Named| (format!("{} {}", event.name, field.name), field.clone());
                        self.kinds.extend(event.fields.iter().map(of));
                    }
                }
            }
            LineContent::Flows(flows) => self.set_flows(line.at, flows),
            LineContent::Sample(sample) => {
                if let Some(watched) = self.flows.get_mut(&sample.flow) {
                    watched.sample(line.at, sample);
                }
            }
            LineContent::Signal(signal) => self.signal(signal),
            LineContent::Audit(entries) => entries.iter().for_each(|entry| self.modification(entry)),
            LineContent::Statistics(counts) => self.statistics = *counts,
        }
    }

    fn set_flows(&mut self, at: u64, flows: &[FlowRecord]) {
        for (name, watched) in &mut self.flows {
            let there = flows.iter().any(|flow| flow.flow == *name);
            watched.gone = if there { None } else { watched.gone.or(Some(at)) };
        }
        self.flows
            .retain(|_, watched| watched.gone.is_none_or(|since| at - since.min(at) < LINGER));
        for flow in flows {
            if let Some(watched) = self.flows.get_mut(&flow.flow) {
                watched.flow = flow.clone();
            } else if self.flows.len() < MAX_FLOWS {
                self.flows.insert(flow.flow.clone(), Watched::new(flow.clone()));
            }
        }
        let flows = &self.flows;
        self.held.retain(|(flow, _), _| flows.contains_key(flow));
        if self
            .selected
            .as_ref()
            .is_some_and(|name| !flows.contains_key(name))
        {
            self.selected = None;
        }
    }

    fn signal(&mut self, signal: &Signal) {
        if let Some(count) = self.counts.get_mut(&signal.event) {
            *count += 1;
        } else if self.counts.len() < MAX_EVENTS {
            self.counts.insert(signal.event.clone(), 1);
        }
        self.latest.push_back(signal.clone());
        if self.latest.len() > LATEST {
            self.latest.pop_front();
        }
    }

    fn modification(&mut self, entry: &Modification) {
        let key = (entry.flow.clone(), entry.variable.clone());
        match (entry.act.as_str(), entry.value) {
            ("set", Some(value)) if self.held.len() < MAX_HELD => {
                self.held.insert(key, (value, entry.who.clone()));
            }
            ("expired" | "released" | "holder_gone" | "lost", _)
                if self.held.get(&key).is_some_and(|(_, who)| *who == entry.who) =>
            {
                self.held.remove(&key);
            }
            _ => {}
        }
    }

    /// Returns the flows' names in the current order: by descending value, or by name.
    #[must_use]
    pub fn ordered(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.flows.keys().map(String::as_str).collect();
        let by = |name: &str| {
            let watched = &self.flows[name];
            let series = match self.order {
                Order::Name => return 0.0,
                Order::Rate => &watched.rate,
                Order::Window => &watched.window,
                Order::RoundTrip => &watched.round_trip,
            };
            series.last().unwrap_or(-1.0)
        };
        names.sort_by(|a, b| by(b).total_cmp(&by(a)));
        names
    }

    /// Changes the view by a key, such as the order of flows.
    pub fn key(&mut self, key: Key) {
        if key == Key::Sort {
            self.order = self.order.next();
            return;
        }
        let names = self.ordered();
        let at = self
            .selected
            .as_ref()
            .and_then(|name| names.iter().position(|other| other == name));
        let next = match (key, at) {
            (Key::Down, None) => 0,
            (Key::Down, Some(at)) => (at + 1).min(names.len().saturating_sub(1)),
            (_, None) => names.len().saturating_sub(1),
            (_, Some(at)) => at.saturating_sub(1),
        };
        self.selected = names.get(next).map(|name| (*name).to_owned());
    }
}
