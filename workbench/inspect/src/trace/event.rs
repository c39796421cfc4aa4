//! The description of an event.

use std::net::SocketAddr;

use serde::Serialize;

use crate::trace::filter::Packet;
use crate::trace::packet::Decoded;
use crate::trace::shared_names::SharedName;
use crate::trace::source::ProgramLine;
use crate::trace::value::TraceValue;

/// A callback that receives each wanted event, in order.
pub type EventCallback = Box<dyn FnMut(&TracedEvent) + Send>;

/// An event with all its effects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedEvent {
    /// The time in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// The host of the event.
    pub host: SharedName,
    /// The event's number on that host, from 1; 0 if an input gave no event.
    pub number: u64,
    /// The number of the event's flow in the scenario, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<usize>,
    /// The event's name in the program. If an input gave no event, the name of the parser that rejected it;
    /// empty if no parser matched.
    pub event: SharedName,
    /// The cause of the event: `packet`, `request`, `timer`, `start` or `raise`.
    pub source: &'static str,
    /// The event's fields, by name, in the program's order.
    pub fields: Vec<(SharedName, TraceValue)>,
    /// The packet from which the event comes, if packets are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<Decoded>,
    /// The event's context, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// The context that the event created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Context>,
    /// The processors that ran, in order. The last of them may have ended the chain.
    pub processors: Vec<Processor>,
    /// The changed fields of contexts, in the order of their places.
    pub changes: Vec<FieldChange>,
    /// The instructions, in order.
    pub instructions: Vec<TracedInstruction>,
    /// The number of the first instruction, which is the cause of the packets that it sends. The others
    /// follow.
    #[serde(skip)]
    pub first_cause: u32,
    /// The outcome of the chain: `done` after the last processor, `stopped` by `done;`, `refused` or
    /// `assert`. It is `not run` if no chain ran, and `not parsed` if an input gave no event.
    pub outcome: &'static str,
    /// The error number of a refused request, or the text of the false assertion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The engine's counts of the event itself, such as `no_context`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CounterChange>,
}

/// A context, named by its type and its connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Context {
    /// The type's name.
    pub context: SharedName,
    /// The local end of its connection, if the program states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// The remote end of its connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
}

/// A processor that ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processor {
    /// The processor's name.
    pub processor: SharedName,
    /// The processor's place in the source.
    #[serde(flatten)]
    pub line: ProgramLine,
}

/// A field with a new value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// The type of the field's context.
    pub context: SharedName,
    /// The field's name: `cc.cwnd`.
    pub field: SharedName,
    /// The value before.
    pub old: TraceValue,
    /// The value after.
    pub new: TraceValue,
    /// The last statement that wrote it.
    #[serde(flatten)]
    pub line: ProgramLine,
}

/// An instruction of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedInstruction {
    /// The instruction's name in the language.
    pub instruction: &'static str,
    /// The instruction's arguments.
    pub arguments: Vec<(SharedName, TraceValue)>,
    /// The statement that emitted it.
    #[serde(flatten)]
    pub line: ProgramLine,
    /// The number of the requested packet, if this instruction sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<u64>,
    /// The engine's counts while it executed the instruction, such as `coalesced` or `dangling`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CounterChange>,
}

/// A count of the engine; see `hawser_engine::StackCounters` for the meaning of each counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterChange {
    /// The counter's name.
    pub counter: &'static str,
    /// The amount by which it grew.
    pub by: u64,
}

impl TracedEvent {
    /// Returns the counters that grew with the event.
    pub fn counters(&self) -> impl Iterator<Item = &'static str> {
        let of_instructions = self
            .instructions
            .iter()
            .flat_map(|instruction| &instruction.counted);
        let counted = self.counted.iter().chain(of_instructions);
        counted.map(|count| count.counter)
    }

    /// Marks the instruction that sent the requested packet.
    pub(crate) fn mark_packet(&mut self, packet: &Packet) {
        let index = packet.cause.wrapping_sub(self.first_cause) as usize;
        if let Some(sender) = self.instructions.get_mut(index) {
            sender.packet = Some(packet.number);
        }
    }
}
