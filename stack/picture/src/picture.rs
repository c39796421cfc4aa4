//! A run as it is drawn.

use serde::Serialize;

use crate::series::Series;

/// A run, to be drawn. Times are nanoseconds since its start.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Picture {
    /// The scenario's name.
    pub name: String,
    /// Its program.
    pub program: String,
    /// The seed.
    pub seed: u64,
    /// When the run ended.
    pub end_ns: u64,
    /// What broke the run's promise.
    pub failures: Vec<String>,
    /// The hosts; others refer to them by their places here.
    pub hosts: Vec<String>,
    /// The flows.
    pub flows: Vec<Flow>,
    /// Lines of the program: `tcp.mtp:43`.
    pub lines: Vec<String>,
    /// Names of the packets' numeric fields.
    pub names: Vec<String>,
    /// The one that is drawn where nobody chose another, by its place.
    pub number: Option<usize>,
    /// The packets, in the order in which they were sent.
    pub packets: Vec<Packet>,
    /// Timers that ran.
    pub timers: Vec<Timer>,
    /// Fields of contexts.
    pub fields: Vec<Field>,
    /// Right edges of windows among the packets' numbers.
    pub windows: Vec<Window>,
    /// What the program signalled.
    #[serde(skip)]
    pub signals: Vec<Signal>,
    /// By host: the signals that its program has.
    #[serde(skip)]
    pub signal_types: Vec<Vec<SignalType>>,
    /// Queues of links that have a rate.
    pub queues: Vec<Queue>,
    /// What was not kept.
    pub left_out: LeftOut,
}

/// A flow of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    /// What it is: `bulk a to b, port 7001`.
    pub name: String,
    /// The hosts at its ends, the client first.
    pub hosts: [usize; 2],
}

/// A packet.
#[derive(Clone, Debug, Serialize)]
pub struct Packet {
    /// Its number in a capture of the run; the first is 1.
    pub number: u64,
    /// When it was sent.
    pub at_ns: u64,
    /// By which host.
    pub from: usize,
    /// To which.
    pub to: usize,
    /// The flow that it is of, if it is of one.
    pub flow: Option<usize>,
    /// What became of it: `delivered`, the rule that lost it, or `under way` at the end.
    pub fate: &'static str,
    /// When.
    pub end_ns: u64,
    /// The line that sent it, by its place in [`Picture::lines`].
    pub line: Option<usize>,
    /// Its blueprint.
    pub blueprint: String,
    /// As it is written in files of steps.
    pub text: String,
    /// Its numeric fields: the place of the name in [`Picture::names`], and the value.
    pub numbers: Vec<(usize, u64)>,
    /// Bytes of payload.
    pub payload: usize,
}

impl Packet {
    /// One of its numbers, by its name's place in [`Picture::names`].
    #[must_use]
    pub fn number(&self, name: usize) -> Option<u64> {
        let found = self.numbers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

/// A timer, from its start to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Timer {
    /// The host.
    pub host: usize,
    /// The flow, if it is of one.
    pub flow: Option<usize>,
    /// Its name.
    pub name: String,
    /// When it was started.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// How: `fired`, `stopped`, `restarted`, or `running` at the end.
    pub end: &'static str,
}

/// A field of a context over time: it keeps each value until the next.
#[derive(Clone, Debug, Serialize)]
pub struct Field {
    /// The host.
    pub host: usize,
    /// The flow, if it is of one.
    pub flow: Option<usize>,
    /// The context, with its ends.
    pub context: String,
    /// The field: `cc.cwnd`.
    pub name: String,
    /// `number`, or `span` in nanoseconds.
    pub unit: &'static str,
    /// Time and value.
    pub points: Series,
}

/// The right edge of a window over time: it keeps each value until the next.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    /// The host that may send so far.
    pub host: usize,
    /// The flow.
    pub flow: usize,
    /// The fields that it comes from: `cc.cwnd above snd_una`.
    pub name: String,
    /// Time and number, counted as [`Picture::numbers`] counts.
    pub points: Series,
}

/// Something that a program signalled.
#[derive(Clone, Debug)]
pub struct Signal {
    /// When.
    pub at_ns: u64,
    /// The host.
    pub host: usize,
    /// The flow, if it is of one.
    pub flow: Option<usize>,
    /// The context, with its ends.
    pub context: String,
    /// The signal: `acked`.
    pub name: String,
    /// What came with it; times and spans in nanoseconds, of an enum its number.
    pub fields: Vec<(String, u64)>,
    /// The line that emitted it.
    pub line: String,
}

/// A signal that a program has.
#[derive(Clone, Debug)]
pub struct SignalType {
    /// Its name.
    pub name: String,
    /// What comes with it.
    pub fields: Vec<SignalField>,
}

/// What comes with a signal.
#[derive(Clone, Debug)]
pub struct SignalField {
    /// Its name.
    pub name: String,
    /// `number`, `bool`, `duration`, `time` or `enum`.
    pub kind: &'static str,
    /// What an enum's numbers are called.
    pub labels: Vec<(u64, String)>,
}

/// The queue of one direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct Queue {
    /// The link, and from which host to which.
    pub name: String,
    /// The most bytes that waited from each time on until the next.
    pub points: Series,
    /// The mean of the bytes that did.
    pub mean: Series,
}

/// How much was not kept.
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
    /// The number of points of fields and queues that were thinned.
    pub points: u64,
}
