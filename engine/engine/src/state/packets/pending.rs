//! A waiting packet instruction, and its progress.

use bytemuck::Zeroable;
use hawser_ir::abi::PacketRec;

use crate::state::Slot;
use crate::wire::PayRef;

/// The memory of an instruction, which is reused.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The blueprint's memory image; the segmentation rules change it from packet to packet.
    pub(crate) image: Vec<u8>,
    pub(crate) payload: Vec<PayRef>,
    /// The header of the packets that are cut from one super-segment: see [`InstructionProgress::shared`].
    pub(crate) header: Vec<u8>,
}

/// A waiting packet instruction.
#[derive(Debug)]
pub(crate) struct PendingInstruction {
    pub(crate) record: PacketRec,
    pub(crate) buffers: Buffers,
    /// The number of payload bytes.
    pub(crate) len: u32,
    /// The number of payload bytes when it was queued.
    pub(super) held: u32,
    /// The number of payload bytes per packet; 0 for a single packet.
    pub(crate) seg_size: u32,
    /// The number of packets.
    pub(crate) packets: u32,
    /// The progress of sending.
    pub(crate) sent: InstructionProgress,
    /// The number of the instruction: see [`TxFrame::cause`](crate::wire::TxFrame::cause).
    pub(crate) cause: u32,
    /// The context that issued it, if its chain had one.
    pub(super) context: Option<Slot>,
    /// Its number within its queue, in order of issue.
    pub(super) number: u64,
}

/// The progress of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstructionProgress {
    /// The number of packets built.
    pub(crate) packets: u32,
    /// The piece in which the next packet starts.
    pub(crate) piece: usize,
    /// The offset of the next packet in `piece`.
    pub(crate) byte: usize,
    /// The link's MTU in bytes, found with the first packet.
    pub(crate) mtu: u32,
    /// True if it leaves packet by packet, whatever the device supports.
    pub(crate) is_plain: bool,
    /// The packets for which one common header was built, which is changed for each.
    pub(crate) shared: SharedHeader,
}

/// Packets of an instruction that are cut from one super-segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedHeader {
    /// The index of the first packet.
    pub(crate) first: u32,
    /// The index behind the last packet; 0 if there are no such packets.
    pub(crate) end: u32,
    /// The number of payload bytes in all of them.
    pub(crate) len: u32,
}

impl PendingInstruction {
    /// Returns an empty entry, to be filled by [`PendingInstruction::renew`].
    pub(crate) fn blank() -> Box<PendingInstruction> {
        Box::new(PendingInstruction {
            record: PacketRec::zeroed(),
            buffers: Buffers::default(),
            len: 0,
            held: 0,
            seg_size: 0,
            packets: 1,
            sent: InstructionProgress::default(),
            cause: 0,
            context: None,
            number: 0,
        })
    }

    /// Replaces the entry by another instruction, without payload.
    pub(crate) fn renew(&mut self, record: &PacketRec, image: &[u8]) {
        self.record = *record;
        self.buffers.image.clear();
        self.buffers.image.extend_from_slice(image);
        self.buffers.payload.clear();
        self.set_payload(0, 0);
    }

    /// Sets an unsent payload of `len` bytes, with `seg_size` in each packet (0 for a single packet).
    pub(crate) fn set_payload(&mut self, len: u32, seg_size: u32) {
        let packets = match seg_size {
            0 => 1,
            size => len.div_ceil(size).max(1),
        };
        (self.len, self.seg_size, self.packets, self.sent) =
            (len, seg_size, packets, InstructionProgress::default());
    }

    /// Returns true if this context has issued it, or if `context` is `None`.
    pub(super) fn is_of(&self, context: Option<Slot>) -> bool {
        context.is_none() || self.context == context
    }

    /// Advances by `len` bytes of payload and appends their pieces to `out`.
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
