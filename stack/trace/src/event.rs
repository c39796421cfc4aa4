//! What is said of an event.

use std::net::SocketAddr;

use serde::Serialize;

use crate::filter::Packet;
use crate::name::Name;
use crate::packet::Decoded;
use crate::source::Line;
use crate::value::Value;

/// Is shown each event that is wanted, in order.
pub type Show = Box<dyn FnMut(&Event) + Send>;

/// An event, and all that came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// When, in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// The host that it happened on.
    pub host: Name,
    /// Its number on that host: the first is 1. 0: an input gave no event.
    pub number: u64,
    /// The flow of the scenario that it is for, by its number; the first is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<usize>,
    /// Its name in the program. Where an input gave no event, the parser that refused it; empty where there is none
    /// for it.
    pub event: Name,
    /// What caused it: `packet`, `request`, `timer`, `start` or `raise`.
    pub source: &'static str,
    /// Its fields, by name, in the program's order.
    pub fields: Vec<(Name, Value)>,
    /// The packet that it comes from, where packets are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<Decoded>,
    /// The context that it was for; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// The context that it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Context>,
    /// The processors that ran, in order. The last of them may have ended the chain.
    pub processors: Vec<Processor>,
    /// Fields of contexts that have another value than before, in the order of their places.
    pub changes: Vec<Change>,
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
    /// The number of the first of them: what it sends has this as its cause. The others count on.
    #[serde(skip)]
    pub first_cause: u32,
    /// How its chain ended: `done` after the last processor, `stopped` by `done;`, `refused`, `assert`; `not run`
    /// when no chain ran, `not parsed` when an input gave no event.
    pub outcome: &'static str,
    /// The error number that a request was refused with, or the text of the assert that was false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the engine counted of the event itself, such as `no_context`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<Count>,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Context {
    /// Its type.
    pub context: Name,
    /// Its connection's local end, where the program states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// The remote end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
}

/// A processor that ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processor {
    /// Its name.
    pub processor: Name,
    /// Where it stands.
    #[serde(flatten)]
    pub line: Line,
}

/// A field that has another value than before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The type of the context that has it.
    pub context: Name,
    /// Its name: `cc.cwnd`.
    pub field: Name,
    /// Its value before.
    pub old: Value,
    /// Its value after.
    pub new: Value,
    /// The statement that wrote it last.
    #[serde(flatten)]
    pub line: Line,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instruction {
    /// Its name in the language.
    pub instruction: &'static str,
    /// Its arguments.
    pub arguments: Vec<(Name, Value)>,
    /// The statement that gave it.
    #[serde(flatten)]
    pub line: Line,
    /// The packet that was asked for, by its number: this instruction sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<u64>,
    /// What the engine counted while it carried the instruction out, such as `coalesced` or `dangling`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<Count>,
}

/// Something that the engine counted; `hawser_engine::Counters` says what each counter means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The counter.
    pub counter: &'static str,
    /// By how much it grew.
    pub by: u64,
}

impl Event {
    /// The counters that grew with it.
    pub fn counters(&self) -> impl Iterator<Item = &'static str> {
        let of_instructions = self
            .instructions
            .iter()
            .flat_map(|instruction| &instruction.counted);
        let counted = self.counted.iter().chain(of_instructions);
        counted.map(|count| count.counter)
    }

    /// This packet was asked for: the instruction that sent it says so.
    pub(crate) fn mark_packet(&mut self, packet: &Packet) {
        let index = packet.cause.wrapping_sub(self.first_cause) as usize;
        if let Some(sender) = self.instructions.get_mut(index) {
            sender.packet = Some(packet.number);
        }
    }
}
