//! One packet instruction that waits, and how far it has left.

use bytemuck::Zeroable;
use hawser_ir::abi::PacketRec;

use crate::state::Slot;
use crate::wire::PayRef;

/// What an instruction holds of memory; used again.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The blueprint's memory image; the segmentation rules change it from packet to packet.
    pub(crate) image: Vec<u8>,
    /// The payload, in pieces.
    pub(crate) payload: Vec<PayRef>,
    /// The header of the packets that are cut from one: see [`Progress::shared`].
    pub(crate) header: Vec<u8>,
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
    /// Those that it had when it was queued.
    pub(super) held: u32,
    /// Payload bytes per packet; 0: one packet.
    pub(crate) seg_size: u32,
    /// How many packets it makes.
    pub(crate) packets: u32,
    /// How far it has left.
    pub(crate) sent: Progress,
    /// Which instruction it is: see [`TxFrame::cause`](crate::wire::TxFrame::cause).
    pub(crate) cause: u32,
    /// The context that issued it, if its chain had one.
    pub(super) context: Option<Slot>,
    /// Its place among those of its queue, in order of issue.
    pub(super) number: u64,
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
    /// The packets for which one header was built, that is changed for each.
    pub(crate) shared: SharedHeader,
}

/// Packets of an instruction that are cut from one super-segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedHeader {
    /// The first one's index.
    pub(crate) first: u32,
    /// One more than the last one's; 0: there are none.
    pub(crate) end: u32,
    /// Payload bytes of them all.
    pub(crate) len: u32,
}

impl Pending {
    /// One that [`Pending::renew`] makes an instruction.
    pub(crate) fn blank() -> Box<Pending> {
        Box::new(Pending {
            record: PacketRec::zeroed(),
            buffers: Buffers::default(),
            len: 0,
            held: 0,
            seg_size: 0,
            packets: 1,
            sent: Progress::default(),
            cause: 0,
            context: None,
            number: 0,
        })
    }

    /// Becomes another instruction, without payload.
    pub(crate) fn renew(&mut self, record: &PacketRec, image: &[u8]) {
        self.record = *record;
        self.buffers.image.clear();
        self.buffers.image.extend_from_slice(image);
        self.buffers.payload.clear();
        self.set_payload(0, 0);
    }

    /// It has `len` bytes of payload, `seg_size` in each packet (0: all in one), of which nothing has left.
    pub(crate) fn set_payload(&mut self, len: u32, seg_size: u32) {
        let packets = match seg_size {
            0 => 1,
            size => len.div_ceil(size).max(1),
        };
        (self.len, self.seg_size, self.packets, self.sent) = (len, seg_size, packets, Progress::default());
    }

    /// Whether a context has issued it; without one: true.
    pub(super) fn is_of(&self, context: Option<Slot>) -> bool {
        context.is_none() || self.context == context
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
