//! A place in a table, and which of its successive holders is meant.

/// Names an entry of a table for good: a later entry at the same place has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    /// How many entries had this place before.
    pub(crate) generation: u32,
    /// The place.
    pub(crate) index: u32,
}

impl Slot {
    /// The slot with this number.
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Slot {
        Slot { generation: (bits >> 32) as u32, index: bits as u32 }
    }

    /// Its number: the generation, then the place.
    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}
