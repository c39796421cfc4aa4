//! Two stacks in one thread and a wire in memory between them: no device, no system call.
//!
//! * [`hawser_testing::memory_wire`]: the wire: one copy per packet on each side, as over a shared-memory
//!   ring
//! * [`pair`]: two of our stacks
//! * [`peer`]: two of smoltcp's
//!
//! Time is virtual and advances by a step per turn, so that each run executes the same instructions.

pub(crate) mod pair;
pub(crate) mod peer;

/// The largest size of an IP packet, in bytes.
pub(crate) const MTU: usize = 1500;
/// The bytes of one write and one read.
pub(crate) const CHUNK: usize = 64 << 10;
/// The step of time from turn to turn, in nanoseconds.
pub(crate) const STEP: u64 = 10_000;

/// The work of stacks for each packet, in addition to the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct RingOptions {
    /// Make each received packet an event of its own, as when packets come one by one
    #[arg(long)]
    pub(crate) no_merge: bool,
    /// Compute and verify checksums in software, as on wires without checksum offload
    #[arg(long)]
    pub(crate) checksums: bool,
    /// Let applications pass memory to Hawser, in place of bytes to be copied
    #[arg(long)]
    pub(crate) by_reference: bool,
}

impl RingOptions {
    /// Returns the command-line options of this manner.
    pub(crate) fn options<'a>(self) -> impl Iterator<Item = &'a str> {
        let merge = self.no_merge.then_some("--no-merge");
        let sums = self.checksums.then_some("--checksums");
        let reference = self.by_reference.then_some("--by-reference");
        merge.into_iter().chain(sums).chain(reference)
    }

    /// Describes the computation of checksums, for a report.
    pub(crate) fn checksums(self) -> &'static str {
        match self.checksums {
            true => "made and verified in software, by both stacks",
            false => "none, on either stack",
        }
    }
}

/// The traffic on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// The number of packets from the sender to the receiver: data.
    pub(crate) data: u64,
    /// The number of packets in the other direction: acknowledgements.
    pub(crate) answers: u64,
    /// The number of bytes that the receiver's application has read.
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
