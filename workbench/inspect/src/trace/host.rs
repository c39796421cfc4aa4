//! An observed host of a run: its tracer, and the packets that it sent.

use std::collections::VecDeque;

use crate::trace::event::TracedEvent;
use crate::trace::shared_names::SharedName;
use crate::trace::source::ProgramLine;
use crate::trace::tracer::Tracer;

/// The maximum number of remembered instructions that sent packets, for each host. Packets leave soon after
/// their instruction, unless they are paced.
const MAX_SENDERS: usize = 1 << 16;

/// A host, and the instructions of the shown events that sent packets.
pub(crate) struct TracedHost {
    pub(crate) tracer: Tracer,
    pub(crate) senders: VecDeque<Sender>,
}

/// An instruction that sent packets.
pub(crate) struct Sender {
    pub(crate) cause: u32,
    pub(crate) number: u64,
    pub(crate) flow: Option<usize>,
    pub(crate) event: SharedName,
    pub(crate) source: &'static str,
    pub(crate) line: ProgramLine,
}

impl TracedHost {
    /// Records the instructions of an event that sent packets.
    pub(crate) fn remember(&mut self, event: &TracedEvent, first_cause: u32) {
        let instructions = event.instructions.iter().enumerate();
        for (index, sends) in instructions.filter(|(_, sends)| sends.instruction == "pkt_gen") {
            if self.senders.len() >= MAX_SENDERS {
                self.senders.pop_front();
            }
            self.senders.push_back(Sender {
                cause: first_cause + index as u32,
                number: event.number,
                flow: event.flow,
                event: event.event.clone(),
                source: event.source,
                line: sends.line.clone(),
            });
        }
    }
}
