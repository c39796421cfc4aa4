//! The words of an offer.

use hawser_ir::{Instr, QueuePolicy, Source};
use serde::Deserialize;

/// What is offered to a program, or to chains in one place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Where events may come from.
    pub sources: Vec<SourceKind>,
    /// Instructions that are carried out. In the kernel: that may wait until the stack's thread wakes up for another reason.
    pub instructions: Vec<Instruction>,
    /// Externs that may be called, by their names.
    pub externs: Vec<String>,
    /// Queues that packets may be put into.
    pub queues: Vec<Queue>,
    /// Packets may carry payload.
    pub payload: bool,
    /// The CRC-32 of packets is computed and verified.
    pub crc: bool,
    /// What is limited beyond the limits of the language.
    #[serde(default)]
    pub limits: Limits,
}

/// The largest numbers; `None`: the language's own limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Steps of a chain ([`hawser_ir::Bounds::steps`]).
    pub steps: Option<u64>,
    /// Bytes of all records of a chain.
    pub record_bytes: Option<u64>,
    /// Bytes of a context.
    pub context_bytes: Option<u64>,
    /// Types of contexts of a program.
    pub context_types: Option<u64>,
    /// Bytes of a packet's header, options included.
    pub header_bytes: Option<u64>,
}

/// Who brings events about, of those that a program registers parsers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Packets of an IP protocol.
    Ip,
    /// Datagrams to a UDP port.
    Udp,
    /// Packets of which a switch has cut off data.
    Trimmed,
    /// ICMP errors.
    IcmpError,
    /// Requests of an application.
    App,
    /// The stack's start.
    Start,
}

impl From<Source> for SourceKind {
    fn from(source: Source) -> SourceKind {
        match source {
            Source::Ip(_) => SourceKind::Ip,
            Source::Udp(_) => SourceKind::Udp,
            Source::Trimmed(_) => SourceKind::Trimmed,
            Source::IcmpError => SourceKind::IcmpError,
            Source::App(_) => SourceKind::App,
            Source::Start => SourceKind::Start,
        }
    }
}

/// How a queue serves its packets; [`QueuePolicy`] with the names of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Queue {
    /// In order.
    #[serde(rename = "FIFO")]
    Fifo,
    /// By rank.
    #[serde(rename = "RANK")]
    Rank,
    /// Paced, each flow by a rate of its own.
    #[serde(rename = "RATE(PER_FLOW)")]
    RatePerFlow,
    /// Paced, together.
    #[serde(rename = "RATE")]
    Rate,
}

impl From<QueuePolicy> for Queue {
    fn from(policy: QueuePolicy) -> Queue {
        match policy {
            QueuePolicy::Fifo => Queue::Fifo,
            QueuePolicy::Rank => Queue::Rank,
            QueuePolicy::RatePerFlow => Queue::RatePerFlow,
            QueuePolicy::Rate => Queue::Rate,
        }
    }
}

macro_rules! instructions {
    ($($variant:ident $name:literal)*) => {
        /// An instruction, by its name in the language. Externs have names of their own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[allow(missing_docs)] // docs/language.md, Instructions.
        pub enum Instruction {
            $(#[serde(rename = $name)] $variant,)*
        }

        impl Instruction {
            /// Its name in the language.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Instruction::$variant => $name,)*
                }
            }

            /// Of which kind an instruction is; `None`: it calls an extern.
            #[must_use]
            pub fn of(instr: &Instr) -> Option<Instruction> {
                match instr {
                    $(Instr::$variant { .. } => Some(Instruction::$variant),)*
                    Instr::Extern { .. } => None,
                }
            }
        }
    };
}

instructions! {
    NewTxOrderedData "new_tx_ordered_data"
    AddTxData "add_tx_data"
    TxFlushAndNotify "tx_flush_and_notify"
    NewRxOrderedData "new_rx_ordered_data"
    AddRxDataSeg "add_rx_data_seg"
    RxFlushAndNotify "rx_flush_and_notify"
    DelTxOrderedData "del_tx_ordered_data"
    DelRxOrderedData "del_rx_ordered_data"
    PktGen "pkt_gen"
    TimerStart "timer_start"
    TimerStop "timer_stop"
    NewCtx "new_ctx"
    DelCtx "del_ctx"
    AddId "add_id"
    DropId "drop_id"
    Notify "notify"
    Raise "raise"
    Signal "signal"
    SetQueueRate "set_queue_rate"
    SetQueuePrio "set_queue_prio"
    QueueReset "queue_reset"
}
