//! The picture of a run.

use serde::Serialize;

use crate::drawing::series::Series;

/// A run, ready to be drawn. Times are nanoseconds since its start.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Picture {
    /// The scenario's name.
    pub name: String,
    /// The scenario's program.
    pub program: String,
    /// The seed of the run.
    pub seed: u64,
    /// The time when the run ended.
    pub end_ns: u64,
    /// The expectations that the run did not meet.
    pub failures: Vec<String>,
    /// The hosts. Other parts refer to them by index.
    pub hosts: Vec<String>,
    /// The flows, one for each pair of hosts.
    pub flows: Vec<DrawnFlow>,
    /// Lines of the program: `tcp.mtp:43`.
    pub lines: Vec<String>,
    /// The names of the packets' numeric fields.
    pub names: Vec<String>,
    /// The index of the field that is drawn by default.
    pub number: Option<usize>,
    /// The packets, in the order in which they were sent.
    pub packets: Vec<Packet>,
    /// The timers that ran.
    pub timers: Vec<Timer>,
    /// The fields of contexts.
    pub fields: Vec<Field>,
    /// Right edges of windows among the packets' numbers.
    pub windows: Vec<Window>,
    /// The signals of the programs.
    #[serde(skip)]
    pub signals: Vec<Signal>,
    /// For each host, the signal types of its program.
    #[serde(skip)]
    pub signal_types: Vec<Vec<SignalType>>,
    /// The queues of links that have a rate.
    pub queues: Vec<DrawnQueue>,
    /// The amount of omitted data.
    pub left_out: LeftOut,
}

/// A flow of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct DrawnFlow {
    /// The flow's description: `bulk a to b, port 7001`.
    pub name: String,
    /// The hosts at its ends, the client first.
    pub hosts: [usize; 2],
}

/// A packet and its fate.
#[derive(Clone, Debug, Serialize)]
pub struct Packet {
    /// The packet's number in a capture of the run, from 1.
    pub number: u64,
    /// The time of sending.
    pub at_ns: u64,
    /// The index of the sending host.
    pub from: usize,
    /// The index of the receiving host.
    pub to: usize,
    /// The packet's flow, if it belongs to one.
    pub flow: Option<usize>,
    /// The packet's fate: `delivered`, the rule that lost it, or `under way` at the end.
    pub fate: &'static str,
    /// The time of the fate.
    pub end_ns: u64,
    /// The line that sent it, as an index into [`Picture::lines`].
    pub line: Option<usize>,
    /// The packet's blueprint.
    pub blueprint: String,
    /// The packet as it is written in files of steps.
    pub text: String,
    /// The packet's numeric fields: the index of the name in [`Picture::names`], and the value.
    pub numbers: Vec<(usize, u64)>,
    /// The number of bytes of payload.
    pub payload: usize,
}

impl Packet {
    /// Returns one of the packet's numbers, by its name's index in [`Picture::names`].
    #[must_use]
    pub fn number(&self, name: usize) -> Option<u64> {
        let found = self.numbers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

/// A timer, from its start to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Timer {
    /// The index of the host.
    pub host: usize,
    /// The flow, if the timer belongs to one.
    pub flow: Option<usize>,
    /// The timer's name.
    pub name: String,
    /// The time of its start.
    pub from_ns: u64,
    /// The time of its end.
    pub to_ns: u64,
    /// The kind of end: `fired`, `stopped`, `restarted`, or `running` at the end of the run.
    pub end: &'static str,
}

/// A field of a context over time. It keeps each value until the next point.
#[derive(Clone, Debug, Serialize)]
pub struct Field {
    /// The index of the host.
    pub host: usize,
    /// The flow, if the context belongs to one.
    pub flow: Option<usize>,
    /// The context, with its ends.
    pub context: String,
    /// The field's name: `cc.cwnd`.
    pub name: String,
    /// The unit: `number`, or `span` in nanoseconds.
    pub unit: &'static str,
    /// The times and values.
    pub points: Series,
}

impl Field {
    /// Returns whether the field is a window or the amount in flight, by its name.
    #[must_use]
    pub fn is_window(&self) -> bool {
        matches!(self.name.rsplit('.').next(), Some("cwnd" | "window" | "flight"))
    }
}

/// The right edge of a window over time. It keeps each value until the next point.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    /// The index of the host whose sending the window limits.
    pub host: usize,
    /// The index of the flow.
    pub flow: usize,
    /// The fields from which it is computed: `cc.cwnd above snd_una`.
    pub name: String,
    /// The times and numbers, counted like [`Picture::numbers`].
    pub points: Series,
}

/// A signal that a program emitted.
#[derive(Clone, Debug)]
pub struct Signal {
    /// The time of the signal.
    pub at_ns: u64,
    /// The index of the host.
    pub host: usize,
    /// The flow, if the context belongs to one.
    pub flow: Option<usize>,
    /// The context, with its ends.
    pub context: String,
    /// The signal's name: `acked`.
    pub name: String,
    /// The signal's fields. Times and spans are in nanoseconds, and enums are numbers.
    pub fields: Vec<(String, u64)>,
    /// The line that emitted it.
    pub line: String,
}

/// A type of signal that a program declares.
#[derive(Clone, Debug)]
pub struct SignalType {
    /// The signal's name.
    pub name: String,
    /// The signal's fields.
    pub fields: Vec<SignalField>,
}

/// A field of a signal.
#[derive(Clone, Debug)]
pub struct SignalField {
    /// The field's name.
    pub name: String,
    /// The field's kind: `number`, `bool`, `duration`, `time` or `enum`.
    pub kind: &'static str,
    /// The names of an enum's numbers.
    pub labels: Vec<(u64, String)>,
}

/// The queue of one direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct DrawnQueue {
    /// The link, with the hosts at the start and the end of the direction.
    pub name: String,
    /// The maximum number of waiting bytes from each time until the next.
    pub points: Series,
    /// The mean number of waiting bytes.
    pub mean: Series,
}

/// The amount of omitted data.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LeftOut {
    /// Packets beyond the limit.
    pub packets: u64,
    /// Timers beyond the limit.
    pub timers: u64,
    /// Signals beyond the limit.
    pub signals: u64,
    /// Changes of fields beyond the limit.
    pub changes: u64,
    /// The number of thinned points of fields and queues.
    pub points: u64,
}

impl Picture {
    /// Returns the deepest queues, at most this many, in the order of the links.
    #[must_use]
    pub fn deepest_queues(&self, count: usize) -> Vec<&DrawnQueue> {
        let depth = |queue: &DrawnQueue| queue.points.points().iter().map(|(_, bytes)| *bytes).max();
        let mut order: Vec<usize> = (0..self.queues.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(depth(&self.queues[*number])));
        order.truncate(count);
        order.sort_unstable();
        order.into_iter().map(|number| &self.queues[number]).collect()
    }
}
