//! Memory that applications have registered: programs read and write it by its key, for peers and for their own host.
//!
//! Invariants: a key opens what it was made for or nothing; keys are the numbers from 1 on in an order that the stack's
//! seed alone decides, so that no key betrays another one, and none comes again before 2^32 others; nobody reaches beyond a
//! region; what is registered stays until nobody holds it, so that an end under traffic is harmless; their number is
//! bounded.

use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher24;

use crate::hash::ByNumber;

/// Bytes that an application shares with a stack.
///
/// Both ends lock it for each access, which is short, so that an atomic operation of a peer is one for the
/// application, too.
#[derive(Debug)]
pub struct Region {
    len: usize,
    bytes: Mutex<Box<[u8]>>,
}

impl Region {
    /// So many bytes, all zero.
    #[must_use]
    pub fn new(len: usize) -> Arc<Region> {
        Arc::new(Region {
            len,
            bytes: Mutex::new(vec![0; len].into_boxed_slice()),
        })
    }

    /// Bytes in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, for as long as the guard lives. While it does, the stack waits when a peer uses them.
    pub fn bytes(&self) -> MutexGuard<'_, Box<[u8]>> {
        // Whoever panicked had bytes, which have no invariant.
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a program wants of registered memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The protection domain of whoever asks.
    pub(crate) domain: u32,
    pub(crate) key: u32,
    /// An address as peers know it.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// `ACCESS_…` flags that it takes.
    pub(crate) rights: u32,
}

#[derive(Debug)]
struct Entry {
    domain: u32,
    access: u32,
    /// The address of its first byte, as peers know it.
    base: u64,
    region: Arc<Region>,
}

/// All that is registered.
#[derive(Debug)]
pub(crate) struct Regions {
    by_key: ByNumber<Entry>,
    keys: Keys,
}

impl Regions {
    /// No regions; `secret` decides the order of their keys.
    pub(crate) fn new(secret: (u64, u64)) -> Regions {
        Regions {
            by_key: ByNumber::default(),
            keys: Keys::new(secret),
        }
    }

    /// Adds a region and returns its key; nothing where there are `limit` already.
    pub(crate) fn add(
        &mut self,
        (domain, access, base): (u32, u32, u64),
        region: Arc<Region>,
        limit: usize,
    ) -> Option<u32> {
        if self.by_key.len() >= limit {
            return None;
        }
        let key = self
            .keys
            .find(|key| !self.by_key.contains_key(&u64::from(*key)))?;
        let entry = Entry {
            domain,
            access,
            base,
            region,
        };
        self.by_key.insert(key.into(), entry);
        Some(key)
    }

    /// Ends a key; false when it opens nothing in this domain.
    pub(crate) fn remove(&mut self, domain: u32, key: u32) -> bool {
        let known = self.find(domain, key).is_some();
        if known {
            self.by_key.remove(&key.into());
        }
        known
    }

    fn find(&self, domain: u32, key: u32) -> Option<&Entry> {
        let entry = self.by_key.get(&key.into())?;
        (entry.domain == domain).then_some(entry)
    }

    /// The region of a span and where in it the span begins; nothing where it is not all inside, or not allowed.
    pub(crate) fn open(&self, span: &Span) -> Option<(&Region, usize)> {
        let entry = self.find(span.domain, span.key)?;
        let from = span.at.checked_sub(entry.base)?;
        let to = from.checked_add(span.len)?;
        let allowed = entry.access & span.rights == span.rights;
        (allowed && to <= entry.region.len() as u64).then_some((&*entry.region, from as usize))
    }
}

/// The numbers from 1 to 2^32 - 1, each once, in a secret order; then all of them again.
///
/// The order is a permutation of 32 bits by a Feistel network with SipHash-2-4. Four rounds make one that looks
/// random to a reader of a few of its values (Luby and Rackoff, 1988), and each further round takes more of them.
#[derive(Debug)]
struct Keys {
    secret: SipHasher24,
    count: u32,
}

const ROUNDS: u8 = 8;

impl Keys {
    fn new((key0, key1): (u64, u64)) -> Keys {
        Keys {
            secret: SipHasher24::new_with_keys(key0, key1),
            count: 0,
        }
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
    use super::*;
    use crate::rand::Rand;

    fn regions(seed: u64) -> Regions {
        Regions::new(Rand::of(seed).key())
    }

    fn span(key: u32, at: u64, len: u64) -> Span {
        Span {
            domain: 7,
            key,
            at,
            len,
            rights: 2,
        }
    }

    #[test]
    fn a_key_opens_its_region_alone_and_all_of_it_at_most() {
        let mut regions = regions(1);
        let key = regions.add((7, 6, 4096), Region::new(100), 2).expect("a place");
        let opens = |span: Span| regions.open(&span).map(|(_, at)| at);
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
        assert_eq!(
            opens(Span {
                domain: 8,
                ..span(key, 4096, 1)
            }),
            None
        );
        assert_eq!(
            opens(Span {
                rights: 8,
                ..span(key, 4096, 1)
            }),
            None
        );
    }

    /// Registers and ends one region after the other.
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
    fn no_key_comes_again_among_a_hundred_thousand() {
        let mut keys = keys_of(1, 100_000);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
        assert_ne!(keys[0], 0);
    }

    /// Drawn at random, two sets of 1,000 of 2^32 keys have 0.0002 in common, and two keys in turn are closer than 2^16
    /// once in 32,768 times.
    #[test]
    fn keys_look_random_in_a_stack_and_between_two() {
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
    fn an_ended_key_opens_nothing_also_when_its_place_is_taken_again() {
        let mut regions = regions(1);
        let key = regions.add((7, 2, 0), Region::new(1), 1).expect("a place");
        assert_eq!(regions.add((7, 2, 0), Region::new(1), 1), None, "the limit");
        assert!(!regions.remove(8, key), "another domain's");
        assert!(regions.remove(7, key));
        assert!(!regions.remove(7, key));
        let other = regions.add((7, 2, 0), Region::new(1), 1).expect("a place");
        assert_ne!(other, key);
        assert!(regions.open(&span(key, 0, 1)).is_none());
        assert!(regions.open(&span(other, 0, 1)).is_some());
    }
}
