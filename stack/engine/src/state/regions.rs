//! Memory that applications have registered: programs read and write it by its key, for peers and for their own host.
//!
//! Invariants: a key opens what it was made for or nothing: its low byte is another one each time that its place in the
//! table is used; nobody reaches beyond a region; what is registered stays until nobody holds it, so that an end under
//! traffic is harmless; their number is bounded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    key: u32,
    domain: u32,
    access: u32,
    /// The address of its first byte, as peers know it.
    base: u64,
    region: Arc<Region>,
}

/// All that is registered.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// By place: the low byte of its next key.
    next: Vec<u8>,
}

/// Places in the table: a key has 24 bits for them.
const PLACES: usize = 1 << 24;

impl Regions {
    /// Adds a region and returns its key; nothing where there are `limit` already.
    pub(crate) fn add(
        &mut self,
        (domain, access, base): (u32, u32, u64),
        region: Arc<Region>,
        limit: usize,
    ) -> Option<u32> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.entries.len() < limit.min(PLACES) => {
                self.entries.push(None);
                self.next.push(1);
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        let next = &mut self.next[place as usize];
        let key = place << 8 | u32::from(*next);
        *next = next.wrapping_add(1);
        self.entries[place as usize] = Some(Entry {
            key,
            domain,
            access,
            base,
            region,
        });
        Some(key)
    }

    /// Ends a key; false when it opens nothing in this domain.
    pub(crate) fn remove(&mut self, domain: u32, key: u32) -> bool {
        let place = key >> 8;
        let known = self.find(domain, key).is_some();
        if known {
            self.entries[place as usize] = None;
            self.free.push(place);
        }
        known
    }

    fn find(&self, domain: u32, key: u32) -> Option<&Entry> {
        let entry = self.entries.get((key >> 8) as usize)?.as_ref()?;
        (entry.key == key && entry.domain == domain).then_some(entry)
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut regions = Regions::default();
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

    #[test]
    fn an_ended_key_opens_nothing_also_when_its_place_is_taken_again() {
        let mut regions = Regions::default();
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
