//! Two stacks in one thread and a wire of memory between them: no device, no system call.
//!
//! * [`hawser_testing::lane`]: the wire: one copy per packet on each side, as over a shared-memory ring
//! * [`pair`]: two of our stacks
//! * [`peer`]: two of smoltcp's
//!
//! Time is virtual, a step per turn: the same run takes the same instructions each time.

pub(crate) mod pair;
pub(crate) mod peer;

/// Bytes of an IP packet.
pub(crate) const MTU: usize = 1500;
/// Bytes of one write and one read.
pub(crate) const CHUNK: usize = 64 << 10;
/// What time advances by from turn to turn, in nanoseconds.
pub(crate) const STEP: u64 = 10_000;

/// What stacks have to do for each packet, beside the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Manner {
    /// Each packet that is received is an event of its own, as where packets come one by one
    #[arg(long)]
    pub(crate) no_merge: bool,
    /// Checksums are made and verified in software, as on wires without checksum offload
    #[arg(long)]
    pub(crate) checksums: bool,
    /// Applications hand memory over to Hawser, in place of bytes to be copied
    #[arg(long)]
    pub(crate) by_reference: bool,
}

impl Manner {
    /// The options that stand for it.
    pub(crate) fn options<'a>(self) -> impl Iterator<Item = &'a str> {
        let merge = self.no_merge.then_some("--no-merge");
        let sums = self.checksums.then_some("--checksums");
        let reference = self.by_reference.then_some("--by-reference");
        merge.into_iter().chain(sums).chain(reference)
    }

    /// Who computes checksums, for a report.
    pub(crate) fn checksums(self) -> &'static str {
        match self.checksums {
            true => "made and verified in software, by both stacks",
            false => "none, on either stack",
        }
    }
}

/// What went over the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Packets from the sender to the receiver: data.
    pub(crate) data: u64,
    /// Packets the other way: acknowledgements.
    pub(crate) answers: u64,
    /// Bytes that the receiver's application has read.
    pub(crate) bytes: u64,
}

impl std::ops::Sub for Traffic {
    type Output = Traffic;

    fn sub(self, earlier: Traffic) -> Traffic {
        Traffic {
            data: self.data - earlier.data,
            answers: self.answers - earlier.answers,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
