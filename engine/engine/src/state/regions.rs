//! Memory that applications have registered. Programs read and write it by key, for peers and for their own
//! host.
//!
//! Invariants:
//!
//! * A key opens only the region that it was made for.
//! * Keys are the numbers from 1 on, in an order that depends only on the stack's seed. A key reveals no
//!   other key, and is not repeated before 2^32 others.
//! * No access reaches beyond a region.
//! * A region's memory remains until its last user releases it, so that deregistering it under traffic is
//!   harmless.
//! * The number of regions is bounded.
//!
//! A list of pieces has a key like that of a region, which opens no memory to peers. Each access checks the
//! regions of its pieces, all of them before any byte moves.

use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hawser_ir::abi::ACCESS_LOCAL_WRITE;
use siphasher::sip::SipHasher24;

use crate::hash::ByNumber;

/// The bytes that an application shares with a stack.
///
/// Both ends lock the region for each short access, so that a peer's atomic operation is atomic for the
/// application, too.
#[derive(Debug)]
pub struct Region {
    len: usize,
    bytes: Mutex<Box<[u8]>>,
}

impl Region {
    /// Creates a region of `len` bytes, all zero.
    #[must_use]
    pub fn new(len: usize) -> Arc<Region> {
        Arc::new(Region { len, bytes: Mutex::new(vec![0; len].into_boxed_slice()) })
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the region has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes for as long as the guard lives. During that time the stack waits when a peer
    /// accesses the region.
    pub fn bytes(&self) -> MutexGuard<'_, Box<[u8]>> {
        // A panic while the bytes were locked does no harm, because they have no invariant.
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a registered region of this host: `ibv_sge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The region's key.
    pub key: u32,
    /// The address of the first byte.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The maximum number of pieces of memory in a list, `max_sge` of libibverbs.
pub const MAX_PIECES: usize = 16;

/// The memory that a program wants to access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemorySpan {
    /// The protection domain of the requester.
    pub(crate) domain: u32,
    pub(crate) key: u32,
    /// The address, as peers know it.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// The required `ACCESS_…` flags.
    pub(crate) rights: u32,
}

#[derive(Debug)]
struct RegionEntry {
    domain: u32,
    access: u32,
    /// The address of the first byte, as peers know it.
    base: u64,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Region(Arc<Region>),
    /// Consecutive pieces of regions.
    List {
        pieces: Box<[Slice]>,
        len: u64,
    },
}

/// A part of one region: its offset and its length in bytes.
pub(crate) struct RegionPart<'r> {
    pub(crate) region: &'r Region,
    pub(crate) from: usize,
    pub(crate) len: usize,
}

/// All registered regions.
#[derive(Debug)]
pub(crate) struct Regions {
    by_key: ByNumber<RegionEntry>,
    keys: Keys,
}

impl Regions {
    /// Creates an empty table; `secret` determines the order of keys.
    pub(crate) fn new(secret: (u64, u64)) -> Regions {
        Regions { by_key: ByNumber::default(), keys: Keys::new(secret) }
    }

    /// Adds a region and returns its key; `None` if there are already `limit`.
    pub(crate) fn add(
        &mut self,
        (domain, access, base): (u32, u32, u64),
        region: Arc<Region>,
        limit: usize,
    ) -> Option<u32> {
        let memory = Memory::Region(region);
        self.insert(RegionEntry { domain, access, base, memory }, limit)
    }

    /// Adds a list of pieces, for work of its own host, and returns its key.
    pub(crate) fn add_list(&mut self, domain: u32, pieces: &[Slice], limit: usize) -> Option<u32> {
        let len = pieces
            .iter()
            .fold(0u64, |len, piece| len.saturating_add(piece.len));
        let memory = Memory::List { pieces: pieces.into(), len };
        let access = ACCESS_LOCAL_WRITE;
        self.insert(RegionEntry { domain, access, base: 0, memory }, limit)
    }

    fn insert(&mut self, entry: RegionEntry, limit: usize) -> Option<u32> {
        if self.by_key.len() >= limit {
            return None;
        }
        let key = self
            .keys
            .find(|key| !self.by_key.contains_key(&u64::from(*key)))?;
        self.by_key.insert(key.into(), entry);
        Some(key)
    }

    /// Removes a key; returns false if the key is not valid in this domain.
    pub(crate) fn remove(&mut self, domain: u32, key: u32) -> bool {
        let known = self.find(domain, key).is_some();
        if known {
            self.by_key.remove(&key.into());
        }
        known
    }

    fn find(&self, domain: u32, key: u32) -> Option<&RegionEntry> {
        let entry = self.by_key.get(&key.into())?;
        (entry.domain == domain).then_some(entry)
    }

    /// Returns the parts of regions that a span covers, in order; `None` if the span is not entirely inside
    /// or not allowed.
    pub(crate) fn open(&self, span: MemorySpan) -> Option<impl Iterator<Item = RegionPart<'_>>> {
        let is_open = self.parts(span).all(|part| part.is_some());
        is_open.then(|| self.parts(span).flatten())
    }

    /// Returns the region of a span that lies in one, and the offset of the span in it.
    pub(crate) fn open_one(&self, span: MemorySpan) -> Option<RegionPart<'_>> {
        let (entry, from) = self.entry(span)?;
        match &entry.memory {
            Memory::Region(region) => {
                Some(RegionPart { region, from: from as usize, len: span.len as usize })
            }
            Memory::List { .. } => None,
        }
    }

    fn parts(&self, span: MemorySpan) -> impl Iterator<Item = Option<RegionPart<'_>>> {
        let (whole, pieces) = match self.entry(span).map(|(entry, _)| &entry.memory) {
            Some(Memory::List { pieces, .. }) => (None, &pieces[..]),
            Some(Memory::Region(_)) | None => (Some(self.open_one(span)), &[][..]),
        };
        let (mut skip, mut left) = (span.at, span.len);
        let part = move |piece: &Slice| {
            let before = skip.min(piece.len);
            let len = left.min(piece.len - before);
            skip -= before;
            left -= len;
            let at = piece.at.saturating_add(before);
            (len > 0).then(|| self.open_one(MemorySpan { key: piece.key, at, len, ..span }))
        };
        whole.into_iter().chain(pieces.iter().filter_map(part))
    }

    /// Returns the entry that a span belongs to, and the offset of the span in it, if the span is inside and
    /// allowed.
    fn entry(&self, span: MemorySpan) -> Option<(&RegionEntry, u64)> {
        let entry = self.find(span.domain, span.key)?;
        let from = span.at.checked_sub(entry.base)?;
        let to = from.checked_add(span.len)?;
        let len = match &entry.memory {
            Memory::Region(region) => region.len() as u64,
            Memory::List { len, .. } => *len,
        };
        (entry.access & span.rights == span.rights && to <= len).then_some((entry, from))
    }
}

/// The numbers from 1 to 2^32 - 1, each once, in a secret order; then all of them again.
///
/// The order is a permutation of 32 bits by a Feistel network with SipHash-2-4. Four rounds make a
/// permutation that looks random to a reader of a few of its values (Luby and Rackoff, 1988). Each further
/// round extends that to more values.
#[derive(Debug)]
struct Keys {
    secret: SipHasher24,
    count: u32,
}

const ROUNDS: u8 = 8;

impl Keys {
    fn new((key0, key1): (u64, u64)) -> Keys {
        Keys { secret: SipHasher24::new_with_keys(key0, key1), count: 0 }
    }

    fn permuted(&self, number: u32) -> u32 {
        let (mut left, mut right) = ((number >> 16) as u16, number as u16);
        for round in 0..ROUNDS {
            let mut hash = self.secret;
            hash.write_u8(round);
            hash.write_u16(right);
            (left, right) = (right, left ^ hash.finish() as u16);
        }
        u32::from(left) << 16 | u32::from(right)
    }
}

impl Iterator for Keys {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        // 0 is the key of work without memory.
        loop {
            self.count = self.count.wrapping_add(1);
            let key = self.permuted(self.count);
            if key != 0 {
                return Some(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hawser_ir::abi::ACCESS_REMOTE_READ;

    use super::*;
    use crate::rand::Rand;

    fn regions(seed: u64) -> Regions {
        Regions::new(Rand::from_seed(seed).key())
    }

    fn span(key: u32, at: u64, len: u64) -> MemorySpan {
        MemorySpan { domain: 7, key, at, len, rights: 2 }
    }

    #[test]
    fn a_key_opens_only_its_region_within_its_bounds() {
        let mut regions = regions(1);
        let key = regions.add((7, 6, 4096), Region::new(100), 2).expect("a place");
        let opens = |span: MemorySpan| regions.open_one(span).map(|part| part.from);
        assert_eq!(opens(span(key, 4096, 100)), Some(0));
        assert_eq!(opens(span(key, 4195, 1)), Some(99));
        assert_eq!(opens(span(key, 4196, 0)), Some(100), "nothing, at its end");
        assert_eq!(opens(span(key, 4196, 1)), None, "beyond the end");
        assert_eq!(opens(span(key, 4095, 1)), None, "before the start");
        assert_eq!(opens(span(key, 4096, 101)), None);
        assert_eq!(opens(span(key, 4097, u64::MAX)), None, "an overflow");
        assert_eq!(opens(span(key, u64::MAX, 2)), None, "an overflow");
        assert_eq!(opens(span(key ^ 1, 4096, 1)), None, "another key");
        assert_eq!(opens(span(u32::MAX, 4096, 1)), None, "another place");
        assert_eq!(opens(MemorySpan { domain: 8, ..span(key, 4096, 1) }), None);
        assert_eq!(opens(MemorySpan { rights: 8, ..span(key, 4096, 1) }), None);
    }

    /// The list consists of four bytes of one region, an empty piece, and three bytes of another region.
    /// Spans begin and end in any of them.
    #[test]
    fn a_list_opens_its_pieces_in_order_with_their_own_rights() {
        let mut regions = regions(1);
        let [a, b] = [(7, ACCESS_LOCAL_WRITE, 0), (7, 0, 100)]
            .map(|of| regions.add(of, Region::new(10), 9).expect("a place"));
        let pieces = [(a, 6, 4), (a, 0, 0), (b, 102, 3)].map(|(key, at, len)| Slice { key, at, len });
        let list = regions.add_list(7, &pieces, 9).expect("a place");
        let opens = |at, len, rights| {
            let parts = regions.open(MemorySpan { rights, ..span(list, at, len) })?;
            Some(parts.map(|part| (part.from, part.len)).collect::<Vec<_>>())
        };
        assert_eq!(opens(0, 7, 0), Some(vec![(6, 4), (2, 3)]));
        assert_eq!(opens(3, 2, 0), Some(vec![(9, 1), (2, 1)]));
        assert_eq!(opens(4, 3, 0), Some(vec![(2, 3)]));
        assert_eq!(opens(7, 0, 0), Some(vec![]), "nothing, at its end");
        assert_eq!(opens(0, 8, 0), None, "beyond the end");
        assert_eq!(opens(u64::MAX, 2, 0), None, "an overflow");
        assert_eq!(opens(0, 4, ACCESS_LOCAL_WRITE), Some(vec![(6, 4)]));
        assert_eq!(
            opens(0, 5, ACCESS_LOCAL_WRITE),
            None,
            "the second region is not written"
        );
        assert_eq!(opens(0, 1, ACCESS_REMOTE_READ), None, "a peer reads no list");
        assert!(
            regions.open_one(span(list, 0, 1)).is_none(),
            "an atomic operation"
        );
    }

    #[test]
    fn a_piece_outside_its_region_or_in_a_list_is_refused() {
        let mut regions = regions(1);
        let key = regions.add((7, 0, 0), Region::new(10), 9).expect("a place");
        let good = Slice { key, at: 0, len: 1 };
        let list = regions.add_list(7, &[good], 9).expect("a place");
        let absent = Slice { key: key ^ 1, ..good };
        let bad = [(key, 10, 1), (key, u64::MAX, 1), (list, 0, 1)];
        for bad in bad
            .map(|(key, at, len)| Slice { key, at, len })
            .into_iter()
            .chain([absent])
        {
            let list = regions.add_list(7, &[good, bad], 99).expect("a place");
            let opens = |at, len| {
                regions
                    .open(MemorySpan { rights: 0, ..span(list, at, len) })
                    .is_some()
            };
            assert!(opens(0, 1), "the good piece alone");
            assert!(!opens(0, 2) && !opens(1, 1), "{bad:?}");
        }
        assert!(regions.remove(7, key));
        assert!(
            regions
                .open(MemorySpan { rights: 0, ..span(list, 0, 1) })
                .is_none(),
            "its region has ended"
        );
    }

    /// Registers and removes one region after the other.
    fn keys_of(seed: u64, count: usize) -> Vec<u32> {
        let mut regions = regions(seed);
        let region = Region::new(1);
        let next = |_| {
            let key = regions.add((7, 2, 0), region.clone(), 1).expect("a place");
            assert!(regions.remove(7, key));
            key
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_hundred_thousand_keys_are_distinct() {
        let mut keys = keys_of(1, 100_000);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
        assert_ne!(keys[0], 0);
    }

    /// Two random sets of 1,000 of 2^32 keys have 0.0002 in common on average. Two consecutive random keys
    /// are closer than 2^16 once in 32,768 times.
    #[test]
    fn keys_look_random_within_and_across_stacks() {
        let (mine, other) = (keys_of(1, 1_000), keys_of(2, 1_000));
        assert!(mine.iter().all(|key| !other.contains(key)));
        let near = |pair: &&[u32]| pair[0].abs_diff(pair[1]) < 1 << 16;
        assert!(mine.windows(2).filter(near).count() < 3);
        let set = |bit: u32| mine.iter().filter(|key| **key >> bit & 1 == 1).count();
        assert!(
            (0..32).all(|bit| (400..600).contains(&set(bit))),
            "each bit is set in half of them"
        );
        assert_eq!(mine, keys_of(1, 1_000), "the same seed");
    }

    #[test]
    fn an_ended_key_is_refused_after_its_slot_is_reused() {
        let mut regions = regions(1);
        let key = regions.add((7, 2, 0), Region::new(1), 1).expect("a place");
        assert_eq!(regions.add((7, 2, 0), Region::new(1), 1), None, "the limit");
        assert!(!regions.remove(8, key), "another domain's");
        assert!(regions.remove(7, key));
        assert!(!regions.remove(7, key));
        let other = regions.add((7, 2, 0), Region::new(1), 1).expect("a place");
        assert_ne!(other, key);
        assert!(regions.open(span(key, 0, 1)).is_none());
        assert!(regions.open(span(other, 0, 1)).is_some());
    }
}
