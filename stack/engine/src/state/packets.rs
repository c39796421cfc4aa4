//! Packet instructions that wait to be carried out: queues, priorities, coalescing.
//!
//! A blueprint's payload is resolved when the instruction is issued, into counted references. So
//! whatever happens to the unit or the context afterwards, the packet leaves as it was meant.
//!
//! Invariants: within a queue, packets leave in order of issue; a queue with a lower priority
//! number goes first; a later packet replaces an earlier one only if both are adjacent among those
//! of their context and queue, neither has begun to leave, the earlier one's fields are what leaves,
//! and the program's rule allows it.

use std::collections::VecDeque;

use hawser_ir::Module;
use hawser_ir::abi::PacketRec;

use crate::wire::PayRef;

/// What an instruction holds of memory; used again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The blueprint's memory image; the segmentation rules change it from packet to packet.
    pub(crate) image: Vec<u8>,
    /// The payload, in pieces.
    pub(crate) payload: Vec<PayRef>,
}

/// An instruction that waits.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The instruction.
    pub(crate) record: PacketRec,
    /// The image and the payload.
    pub(crate) buffers: Buffers,
    /// Payload bytes.
    pub(crate) len: u32,
    /// Payload bytes per packet; 0: one packet.
    pub(crate) seg_size: u32,
    /// How many packets it makes.
    pub(crate) packets: u32,
    /// How far it has left.
    pub(crate) sent: Progress,
    /// Which instruction it is: see [`TxFrame::cause`](crate::wire::TxFrame::cause).
    pub(crate) cause: u32,
}

/// How much of an instruction has been carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Packets built.
    pub(crate) packets: u32,
    /// The piece that the next packet starts in, and the byte in it.
    pub(crate) piece: usize,
    /// See `piece`.
    pub(crate) byte: usize,
    /// The link's MTU in bytes, found with the first packet.
    pub(crate) mtu: u32,
    /// It leaves packet by packet, whatever the device could do.
    pub(crate) is_plain: bool,
}

impl Pending {
    /// An instruction with `len` bytes of payload, `seg_size` in each packet (0: all in one).
    pub(crate) fn new(record: PacketRec, buffers: Buffers, len: u32, seg_size: u32) -> Pending {
        let packets = if seg_size == 0 {
            1
        } else {
            len.div_ceil(seg_size).max(1)
        };
        Pending {
            record,
            buffers,
            len,
            seg_size,
            packets,
            sent: Progress::default(),
            cause: 0,
        }
    }

    /// Becomes another instruction of the same blueprint, one without payload.
    pub(crate) fn become_header(&mut self, record: &PacketRec, image: &[u8]) {
        self.record = *record;
        self.buffers.image.clear();
        self.buffers.image.extend_from_slice(image);
        self.buffers.payload.clear();
        (self.len, self.seg_size, self.packets, self.sent) = (0, 0, 1, Progress::default());
    }

    /// Moves on by `len` bytes of payload: appends their pieces to `out`.
    pub(crate) fn take_payload(&mut self, mut len: usize, out: &mut Vec<PayRef>) {
        while len > 0 {
            let Some(piece) = self.buffers.payload.get(self.sent.piece) else {
                return;
            };
            let take = len.min(piece.len() - self.sent.byte);
            if take > 0 {
                out.push(piece.slice(self.sent.byte, self.sent.byte + take));
            }
            len -= take;
            self.sent.byte += take;
            if self.sent.byte == piece.len() {
                self.sent.piece += 1;
                self.sent.byte = 0;
            }
        }
    }
}

#[derive(Debug)]
struct Queue {
    entries: VecDeque<Pending>,
    /// How many have left the front so far: the number of the entry in front.
    left: u64,
    prio: u64,
}

/// All that waits to be sent.
#[derive(Debug)]
pub(crate) struct Packets {
    queues: Vec<Queue>,
    /// The queues' indices in the order in which they are served.
    order: Vec<usize>,
    /// By context and queue: the number of its latest entry, plus one.
    latest: Vec<u64>,
    /// Emptied entries' buffers.
    spare: Vec<Buffers>,
    waiting: usize,
    /// Which instruction is carried out, while somebody observes.
    pub(crate) cause: u32,
}

/// The maximum number of emptied buffers kept.
const SPARE: usize = 1024;

impl Packets {
    /// Empty queues as the program declares them; always at least the default one.
    pub(crate) fn new(module: &Module) -> Packets {
        let prios = module.queues.iter().map(|queue| u64::from(queue.prio));
        let mut queues: Vec<Queue> = prios
            .map(|prio| Queue {
                entries: VecDeque::new(),
                left: 0,
                prio,
            })
            .collect();
        if queues.is_empty() {
            queues.push(Queue {
                entries: VecDeque::new(),
                left: 0,
                prio: 0,
            });
        }
        let mut packets = Packets {
            queues,
            order: Vec::new(),
            latest: Vec::new(),
            spare: Vec::new(),
            waiting: 0,
            cause: 0,
        };
        packets.sort();
        packets
    }

    /// How many instructions wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Buffers for a new entry.
    pub(crate) fn buffers(&mut self) -> Buffers {
        self.spare.pop().unwrap_or_default()
    }

    /// The queue that an instruction is for: one that does not exist stands for the default one.
    fn queue_of(&self, record: &PacketRec) -> usize {
        let asked = record.queue as usize;
        if asked < self.queues.len() { asked } else { 0 }
    }

    /// What an instruction of a context may replace: the one before it of the same context, queue
    /// and blueprint, while that has not begun to leave. Not one with segmentation rules: what they set,
    /// a FIN, is not in its image before it leaves.
    #[inline]
    pub(crate) fn latest(&mut self, context: u32, record: &PacketRec) -> Option<&mut Pending> {
        let queue_index = self.queue_of(record);
        let number = *self
            .latest
            .get(context as usize * self.queues.len() + queue_index)?;
        let queue = &mut self.queues[queue_index];
        // The numbers of those that wait are above `left`.
        let index = number.checked_sub(queue.left + 1)?;
        let earlier = queue.entries.get_mut(index as usize)?;
        let (waits, is_settled) = (earlier.sent.packets == 0, earlier.record.rules == 0);
        (waits && is_settled && earlier.record.blueprint == record.blueprint).then_some(earlier)
    }

    /// Queues an instruction of a context, or of a chain without one. `replaces` states whether it
    /// replaces the [`Packets::latest`]. Returns true when it did.
    pub(crate) fn push(
        &mut self,
        context: Option<u32>,
        mut pending: Pending,
        replaces: impl FnOnce(&Pending) -> bool,
    ) -> bool {
        pending.cause = self.cause;
        if let Some(earlier) = context.and_then(|context| self.latest(context, &pending.record))
            && replaces(earlier)
        {
            let replaced = std::mem::replace(earlier, pending);
            self.recycle(replaced);
            return true;
        }
        let queue_index = self.queue_of(&pending.record);
        let queue = &mut self.queues[queue_index];
        queue.entries.push_back(pending);
        self.waiting += 1;
        if let Some(context) = context {
            let number = queue.left + queue.entries.len() as u64;
            let latest = context as usize * self.queues.len() + queue_index;
            if latest >= self.latest.len() {
                self.latest.resize(latest + 1, 0);
            }
            self.latest[latest] = number;
        }
        false
    }

    /// The instruction that is served next.
    pub(crate) fn front(&mut self) -> Option<&mut Pending> {
        let queue = *self
            .order
            .iter()
            .find(|queue| !self.queues[**queue].entries.is_empty())?;
        self.queues[queue].entries.front_mut()
    }

    /// Takes out what [`Packets::front`] gave.
    pub(crate) fn pop(&mut self) {
        let served = self
            .order
            .iter()
            .find(|queue| !self.queues[**queue].entries.is_empty());
        if let Some(pending) = served.and_then(|queue| {
            self.queues[*queue].left += 1;
            self.queues[*queue].entries.pop_front()
        }) {
            self.waiting -= 1;
            self.recycle(pending);
        }
    }

    /// A context ended: the next one with its context has nothing queued. What it issued still leaves.
    pub(crate) fn forget(&mut self, context: u32) {
        let count = self.queues.len();
        let from = (context as usize * count).min(self.latest.len());
        let to = (from + count).min(self.latest.len());
        self.latest[from..to].fill(0);
    }

    /// Drops what waits in a queue; false when there is no such queue.
    pub(crate) fn reset(&mut self, queue: u32) -> bool {
        let Some(queue) = self.queues.get_mut(queue as usize) else {
            return false;
        };
        queue.left += queue.entries.len() as u64;
        self.waiting -= queue.entries.len();
        let dropped = std::mem::take(&mut queue.entries);
        dropped.into_iter().for_each(|pending| self.recycle(pending));
        true
    }

    /// Changes a queue's priority; false when there is no such queue.
    pub(crate) fn set_prio(&mut self, queue: u32, prio: u64) -> bool {
        let Some(queue) = self.queues.get_mut(queue as usize) else {
            return false;
        };
        queue.prio = prio;
        self.sort();
        true
    }

    fn sort(&mut self) {
        self.order = (0..self.queues.len()).collect();
        self.order.sort_by_key(|queue| self.queues[*queue].prio);
    }

    fn recycle(&mut self, mut pending: Pending) {
        if self.spare.len() < SPARE {
            pending.buffers.image.clear();
            pending.buffers.payload.clear();
            self.spare.push(pending.buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    /// A packet that is recognised by its length.
    fn pending(queue: u32, blueprint: u16, len: u32) -> Pending {
        let record = PacketRec {
            queue,
            blueprint,
            ..PacketRec::zeroed()
        };
        Pending::new(record, Buffers::default(), len, 0)
    }

    fn drain(packets: &mut Packets) -> Vec<u32> {
        std::iter::from_fn(|| {
            let len = packets.front()?.len;
            packets.pop();
            Some(len)
        })
        .collect()
    }

    fn two_queues() -> Packets {
        let queue = |prio| hawser_ir::Queue {
            name: String::new(),
            policy: hawser_ir::QueuePolicy::Fifo,
            prio,
        };
        Packets::new(&Module {
            queues: vec![queue(0), queue(0)],
            ..Module::default()
        })
    }

    #[test]
    fn only_neighbours_of_one_context_queue_and_blueprint_are_compared() {
        let mut packets = two_queues();
        let always = |_: &Pending| true;
        assert!(!packets.push(Some(1), pending(0, 0, 1), always));
        assert!(
            !packets.push(Some(2), pending(0, 0, 2), always),
            "another context"
        );
        assert!(!packets.push(Some(1), pending(1, 0, 3), always), "another queue");
        assert!(!packets.push(None, pending(0, 0, 4), always), "no context");
        assert!(
            packets.push(Some(1), pending(0, 0, 5), always),
            "others between do not matter"
        );
        assert!(
            !packets.push(Some(1), pending(0, 7, 6), always),
            "another blueprint"
        );
        assert!(
            !packets.push(Some(1), pending(0, 0, 7), always),
            "not adjacent any more"
        );
        assert!(
            !packets.push(Some(1), pending(0, 0, 8), |_| false),
            "the rule forbids it"
        );
        assert_eq!(packets.len(), 7);
        assert_eq!(
            drain(&mut packets),
            [5, 2, 4, 6, 7, 8, 3],
            "in the place of the first"
        );
        assert_eq!(packets.len(), 0);
        assert!(
            !packets.push(Some(1), pending(0, 0, 9), always),
            "the last one has left"
        );
    }

    #[test]
    fn a_partly_sent_instruction_is_not_replaced() {
        let mut packets = two_queues();
        packets.push(Some(1), pending(0, 0, 1), |_| true);
        packets.front().expect("one").sent.packets = 1;
        assert!(!packets.push(Some(1), pending(0, 0, 2), |_| true));
    }

    #[test]
    fn what_its_rules_have_yet_to_set_is_not_replaced() {
        let mut packets = two_queues();
        let mut earlier = pending(0, 0, 1);
        earlier.record.rules = 1;
        packets.push(Some(1), earlier, |_| true);
        assert!(!packets.push(Some(1), pending(0, 0, 2), |_| true));
    }

    #[test]
    fn a_context_that_is_used_again_has_nothing_queued() {
        let mut packets = two_queues();
        packets.push(Some(1), pending(1, 0, 1), |_| true);
        packets.forget(1);
        assert!(!packets.push(Some(1), pending(1, 0, 2), |_| true));
        assert_eq!(drain(&mut packets), [1, 2]);
    }

    #[test]
    fn a_reset_queue_is_empty_and_goes_on() {
        let mut packets = two_queues();
        (0..5).for_each(|len| assert!(!packets.push(Some(1), pending(1, 0, len), |_| false)));
        packets.push(Some(1), pending(0, 0, 9), |_| false);
        assert!(packets.reset(1));
        assert!(!packets.reset(2));
        assert_eq!(packets.len(), 1);
        assert!(
            !packets.push(Some(1), pending(1, 0, 7), |_| true),
            "its neighbour is gone"
        );
        assert!(packets.set_prio(1, 0) && packets.set_prio(0, 1));
        assert_eq!(drain(&mut packets), [7, 9]);
    }

    #[test]
    fn segments_share_the_payload_out() {
        let mut one = Pending::new(PacketRec::zeroed(), Buffers::default(), 2500, 1000);
        let pieces = [vec![1; 700], vec![2; 1000], vec![3; 800]];
        one.buffers.payload = pieces.into_iter().map(PayRef::from).collect();
        assert_eq!(one.packets, 3);
        let mut seen = Vec::new();
        for index in 0..3 {
            let mut out = Vec::new();
            one.take_payload(if index < 2 { 1000 } else { 500 }, &mut out);
            seen.push(
                out.iter()
                    .map(|piece| (piece.bytes()[0], piece.len()))
                    .collect::<Vec<_>>(),
            );
        }
        assert_eq!(
            seen,
            [vec![(1, 700), (2, 300)], vec![(2, 700), (3, 300)], vec![(3, 500)]]
        );
        assert_eq!(pending(0, 0, 0).packets, 1, "a packet without data");
    }
}
