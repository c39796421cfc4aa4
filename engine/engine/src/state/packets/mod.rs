//! Packet instructions that wait to be carried out: queues, priorities, coalescing.
//!
//! A blueprint's payload is resolved into counted references when the instruction is issued. Later changes of
//! the unit or the context therefore do not affect the packet.
//!
//! Invariants: a queue with a lower priority number goes first. Within a queue, the policy decides for each
//! packet; by default packets leave in order of issue. A later packet replaces an earlier one only if:
//!
//! * both are adjacent among those of their context and queue and have the same rank,
//! * neither has begun to leave,
//! * the earlier one's header is determined by its fields alone,
//! * and the program's rule allows it.

#![allow(clippy::vec_box)] // The boxes themselves are reused and moved.

mod fifo;
mod paced;
mod pending;
mod ranked;

use hawser_ir::abi::PacketRec;
use hawser_ir::{Module, QueuePolicy};
use hawser_time::Instant;

use fifo::Fifo;
use paced::Paced;
pub(crate) use pending::{PendingInstruction, SharedHeader};
use ranked::Ranked;

use super::Slot;

/// The instructions of a queue, in the order of its policy.
#[derive(Debug)]
enum Backlog {
    Fifo(Fifo),
    Ranked(Ranked),
    Paced(Paced),
}

impl Backlog {
    fn new(policy: QueuePolicy) -> Backlog {
        match policy {
            QueuePolicy::Fifo => Backlog::Fifo(Fifo::default()),
            QueuePolicy::Rank => Backlog::Ranked(Ranked::default()),
            QueuePolicy::Rate => Backlog::Paced(Paced::new(false)),
            QueuePolicy::RatePerFlow => Backlog::Paced(Paced::new(true)),
        }
    }
}

#[derive(Debug)]
struct Queue {
    waiting: Backlog,
    prio: u64,
}

/// An instruction that may leave now: its queue and, in a paced one, its flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyInstruction {
    queue: usize,
    flow: Option<u32>,
}

/// All packets that wait to be sent.
#[derive(Debug)]
pub(crate) struct Packets {
    queues: Vec<Queue>,
    /// The queues' indices in the order in which they are served.
    order: Vec<usize>,
    /// The number of the latest entry, by context and queue.
    latest: Vec<u64>,
    /// Entries that have left, kept for reuse.
    spare: Vec<Box<PendingInstruction>>,
    waiting: usize,
    /// The number of payload bytes of the waiting instructions.
    held: u64,
    /// The number of the instruction that is being carried out; maintained only for an observer.
    pub(crate) cause: u32,
}

/// The maximum number of entries kept for reuse.
const SPARE: usize = 1024;

impl Packets {
    /// Creates empty queues as the program declares them, and at least the default one.
    pub(crate) fn new(module: &Module) -> Packets {
        let default = (QueuePolicy::Fifo, 0);
        let declared = module.queues.iter().map(|queue| (queue.policy, queue.prio));
        let missing = module.queues.is_empty().then_some(default);
        let queues = declared
            .chain(missing)
            .map(|(policy, prio)| Queue { waiting: Backlog::new(policy), prio: u64::from(prio) });
        let mut packets = Packets {
            queues: queues.collect(),
            order: Vec::new(),
            latest: Vec::new(),
            spare: Vec::new(),
            waiting: 0,
            held: 0,
            cause: 0,
        };
        packets.sort();
        packets
    }

    /// Returns the number of waiting instructions.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Returns the number of payload bytes of the waiting instructions, whose units may have retired them.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Returns the number of instructions that wait for a rate of their own context: those of this context,
    /// or all.
    pub(crate) fn held_back(&self, context: Option<Slot>) -> usize {
        let counts = self.queues.iter().map(|queue| match &queue.waiting {
            Backlog::Paced(paced) => paced.held_back(context),
            Backlog::Fifo(_) | Backlog::Ranked(_) => 0,
        });
        counts.sum()
    }

    /// Returns a new entry for this instruction, without payload.
    pub(crate) fn entry(&mut self, record: &PacketRec, image: &[u8]) -> Box<PendingInstruction> {
        let mut entry = self.spare.pop().unwrap_or_else(PendingInstruction::blank);
        entry.renew(record, image);
        entry
    }

    /// Returns the queue of an instruction; the default one stands for one that does not exist.
    #[inline]
    fn queue_of(&self, record: &PacketRec) -> usize {
        let asked = record.queue as usize;
        if asked < self.queues.len() { asked } else { 0 }
    }

    /// Returns the instruction that a new one of a context may replace. It is the previous one of the same
    /// context, queue, rank and blueprint, unless it has begun to leave. An instruction with segmentation
    /// rules is never replaced. The fields that the rules set, such as a FIN, are not in its image before it
    /// leaves.
    #[inline]
    pub(crate) fn latest(&mut self, context: Slot, record: &PacketRec) -> Option<&mut PendingInstruction> {
        let queue_index = self.queue_of(record);
        let number = *self
            .latest
            .get(context.index as usize * self.queues.len() + queue_index)?;
        let earlier = match &mut self.queues[queue_index].waiting {
            Backlog::Fifo(fifo) => fifo.find(number),
            Backlog::Ranked(ranked) => ranked.find(record.rank, number),
            Backlog::Paced(paced) => paced.find(Some(context), number),
        }?;
        let (waits, is_settled) = (earlier.sent.packets == 0, earlier.record.rules == 0);
        (waits && is_settled && earlier.record.blueprint == record.blueprint).then_some(earlier)
    }

    /// Queues an instruction of a context, or of a chain without one. `replaces` states whether it replaces
    /// the [`Packets::latest`]. Returns true if it did.
    #[inline]
    pub(crate) fn push(
        &mut self,
        context: Option<Slot>,
        mut pending: Box<PendingInstruction>,
        replaces: impl FnOnce(&PendingInstruction) -> bool,
    ) -> bool {
        pending.cause = self.cause;
        pending.held = pending.len;
        self.held += u64::from(pending.held);
        pending.context = context;
        if let Some(earlier) = context.and_then(|context| self.latest(context, &pending.record))
            && replaces(earlier)
        {
            pending.number = earlier.number;
            std::mem::swap(earlier, &mut *pending);
            self.recycle(pending);
            return true;
        }
        let queue_index = self.queue_of(&pending.record);
        let number = match &mut self.queues[queue_index].waiting {
            Backlog::Fifo(fifo) => fifo.push(pending),
            Backlog::Ranked(ranked) => ranked.push(pending),
            Backlog::Paced(paced) => paced.push(pending),
        };
        self.waiting += 1;
        if let Some(context) = context {
            let latest = context.index as usize * self.queues.len() + queue_index;
            if latest >= self.latest.len() {
                self.latest.resize(latest + 1, 0);
            }
            self.latest[latest] = number;
        }
        false
    }

    /// Returns the instruction that is served next, if one may leave now.
    #[inline]
    pub(crate) fn turn(&self, now: Instant) -> Option<ReadyInstruction> {
        self.order.iter().find_map(|&queue| {
            let flow = match &self.queues[queue].waiting {
                Backlog::Fifo(fifo) => (!fifo.is_empty()).then_some(None),
                Backlog::Ranked(ranked) => (!ranked.is_empty()).then_some(None),
                Backlog::Paced(paced) => paced
                    .next()
                    .filter(|(at, _)| *at <= now)
                    .map(|(_, flow)| Some(flow)),
            };
            flow.map(|flow| ReadyInstruction { queue, flow })
        })
    }

    /// Returns the time at which the next packet of a paced queue may leave.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let paced = self.queues.iter().filter_map(|queue| match &queue.waiting {
            Backlog::Paced(paced) => paced.next().map(|(at, _)| at),
            Backlog::Fifo(_) | Backlog::Ranked(_) => None,
        });
        paced.min()
    }

    /// Returns the instruction whose turn it is.
    #[inline]
    pub(crate) fn front(&mut self, turn: ReadyInstruction) -> Option<&mut PendingInstruction> {
        match &mut self.queues[turn.queue].waiting {
            Backlog::Fifo(fifo) => fifo.front(),
            Backlog::Ranked(ranked) => ranked.front(),
            Backlog::Paced(paced) => paced.front(turn.flow?),
        }
    }

    /// Returns the number of payload bytes that may leave in this turn as one super-segment, for a paced
    /// queue, which sends one frame per turn.
    #[inline]
    pub(crate) fn burst(&self, turn: ReadyInstruction) -> Option<u64> {
        match &self.queues[turn.queue].waiting {
            Backlog::Paced(paced) => Some(paced.burst(turn.flow?)),
            Backlog::Fifo(_) | Backlog::Ranked(_) => None,
        }
    }

    /// Charges bytes that have left in this turn.
    #[inline]
    pub(crate) fn charge(&mut self, turn: ReadyInstruction, now: Instant, bytes: u64) {
        if let (Backlog::Paced(paced), Some(flow)) = (&mut self.queues[turn.queue].waiting, turn.flow) {
            paced.charge(flow, now, bytes);
        }
    }

    /// Removes the instruction that [`Packets::front`] returned.
    #[inline]
    pub(crate) fn pop(&mut self, turn: ReadyInstruction) {
        let pending = match &mut self.queues[turn.queue].waiting {
            Backlog::Fifo(fifo) => fifo.pop(),
            Backlog::Ranked(ranked) => ranked.pop(),
            Backlog::Paced(paced) => turn.flow.and_then(|flow| paced.pop(flow)),
        };
        if let Some(pending) = pending {
            self.waiting -= 1;
            self.recycle(pending);
        }
    }

    /// Forgets a context that ended, so that the next one with its slot index starts without queued packets.
    /// Packets already issued still leave.
    pub(crate) fn forget(&mut self, context: Slot) {
        let count = self.queues.len();
        let from = (context.index as usize * count).min(self.latest.len());
        let to = (from + count).min(self.latest.len());
        self.latest[from..to].fill(0);
        for queue in &mut self.queues {
            if let Backlog::Paced(paced) = &mut queue.waiting {
                paced.forget(context);
            }
        }
    }

    /// Drops the waiting packets of a context in a queue, or all packets in it; returns false if the queue
    /// does not exist.
    pub(crate) fn reset(&mut self, queue: u32, context: Option<Slot>) -> bool {
        let Some(queue) = self.queues.get_mut(queue as usize) else {
            return false;
        };
        let mut dropped = Vec::new();
        match &mut queue.waiting {
            Backlog::Fifo(fifo) => fifo.purge(context, &mut dropped),
            Backlog::Ranked(ranked) => ranked.purge(context, &mut dropped),
            Backlog::Paced(paced) => paced.purge(context, &mut dropped),
        }
        self.waiting -= dropped.len();
        dropped.into_iter().for_each(|pending| self.recycle(pending));
        true
    }

    /// Changes a queue's priority; returns false if the queue does not exist.
    pub(crate) fn set_prio(&mut self, queue: u32, prio: u64) -> bool {
        let Some(queue) = self.queues.get_mut(queue as usize) else {
            return false;
        };
        queue.prio = prio;
        self.sort();
        true
    }

    /// Changes the rate of a paced queue, in bits per second: that of a context if each has its own. Returns
    /// false if the queue does not exist.
    pub(crate) fn set_rate(&mut self, queue: u32, context: Option<Slot>, now: Instant, rate: u64) -> bool {
        match self
            .queues
            .get_mut(queue as usize)
            .map(|queue| &mut queue.waiting)
        {
            Some(Backlog::Paced(paced)) => {
                paced.set_rate(context, now, rate);
                true
            }
            _ => false,
        }
    }

    fn sort(&mut self) {
        self.order = (0..self.queues.len()).collect();
        self.order.sort_by_key(|queue| self.queues[*queue].prio);
    }

    fn recycle(&mut self, mut pending: Box<PendingInstruction>) {
        self.held -= u64::from(pending.held);
        if self.spare.len() < SPARE {
            // Drops the references, so that their memory can be reused.
            pending.buffers.payload.clear();
            self.spare.push(pending);
        }
    }
}

#[cfg(test)]
mod tests;
