//! A position in a table, with the generation of its holder.

/// The permanent name of a table entry: a later entry at the same index has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    /// The number of entries that had this index before.
    pub(crate) generation: u32,
    pub(crate) index: u32,
}

impl Slot {
    /// Returns the slot with this number.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Slot {
        Slot { generation: (bits >> 32) as u32, index: bits as u32 }
    }

    /// Returns the number of the slot: the generation, then the index.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}
