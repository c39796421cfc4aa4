//! The vocabulary of an offer.

use crate::{Instr, Node, ParserInput, QueuePolicy};
use serde::de::{Deserialize, Deserializer, Error};

/// The offer to a program, or to chains in one place.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The sources from which events may come.
    pub sources: Vec<SourceKind>,
    /// The instructions that are executed. In the kernel, execution may wait until the stack's thread wakes
    /// up for another reason.
    pub instructions: Vec<Instruction>,
    /// The externs that may be called, by their names.
    pub externs: Vec<String>,
    /// The kinds of queues that packets may be put into.
    pub queues: Vec<QueueOrder>,
    /// True if packets may carry payload.
    pub payload: bool,
    /// True if the CRC-32 of packets is computed and verified.
    pub crc: bool,
    /// Limits in addition to those of the language.
    #[serde(default)]
    pub limits: OfferLimits,
}

/// The limits of an offer; `None` means the language's own limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OfferLimits {
    /// The maximum number of steps of a chain ([`crate::Bounds::steps`]).
    pub steps: Option<u64>,
    /// The maximum size of all records of a chain, in bytes.
    pub record_bytes: Option<u64>,
    /// The maximum size of a context, in bytes.
    pub context_bytes: Option<u64>,
    /// The maximum number of context types in a program.
    pub context_types: Option<u64>,
    /// The maximum size of a packet's header including options, in bytes.
    pub header_bytes: Option<u64>,
}

/// The sources of events for which a program registers parsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Packets of an IP protocol.
    Ip,
    /// Datagrams to a UDP port.
    Udp,
    /// Packets that a switch has trimmed.
    Trimmed,
    /// ICMP errors.
    IcmpError,
    /// Requests of an application.
    App,
    /// The stack's start.
    Start,
}

impl From<ParserInput> for SourceKind {
    fn from(source: ParserInput) -> SourceKind {
        match source {
            ParserInput::Ip(_) => SourceKind::Ip,
            ParserInput::Udp(_) => SourceKind::Udp,
            ParserInput::Trimmed(_) => SourceKind::Trimmed,
            ParserInput::IcmpError => SourceKind::IcmpError,
            ParserInput::App(_) => SourceKind::App,
            ParserInput::Start => SourceKind::Start,
        }
    }
}

/// The order in which a queue serves its packets: [`QueuePolicy`] with the names of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub enum QueueOrder {
    /// In order.
    #[serde(rename = "FIFO")]
    Fifo,
    /// By rank.
    #[serde(rename = "RANK")]
    Rank,
    /// Paced, with a separate rate for each flow.
    #[serde(rename = "RATE(PER_FLOW)")]
    RatePerFlow,
    /// Paced, with one rate for all packets.
    #[serde(rename = "RATE")]
    Rate,
}

impl From<QueuePolicy> for QueueOrder {
    fn from(policy: QueuePolicy) -> QueueOrder {
        match policy {
            QueuePolicy::Fifo => QueueOrder::Fifo,
            QueuePolicy::Rank => QueueOrder::Rank,
            QueuePolicy::RatePerFlow => QueueOrder::RatePerFlow,
            QueuePolicy::Rate => QueueOrder::Rate,
        }
    }
}

/// An instruction, by its name in the language. Externs have their own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction(&'static str);

impl Instruction {
    /// Returns its name in the language.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Returns the kind of an instruction, or `None` if it calls an extern.
    #[must_use]
    pub fn from_instr(instr: &Instr) -> Option<Instruction> {
        match instr {
            Instr::Extern { .. } => None,
            other => Some(Instruction(other.name())),
        }
    }
}

impl<'de> Deserialize<'de> for Instruction {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Instruction, D::Error> {
        let name = String::deserialize(text)?;
        let known = Instr::NAMES.iter().find(|known| **known == name);
        known
            .map(|name| Instruction(name))
            .ok_or_else(|| D::Error::unknown_variant(&name, Instr::NAMES))
    }
}
