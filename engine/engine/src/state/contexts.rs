//! Contexts: flat memory in stable places, found by id.
//!
//! A context is identified by its [`Slot`]; its memory is in a page of its type and never moves. All ids,
//! aliases included, are in one index under a keyed hash, so that an attacker without the key cannot make
//! them collide.
//!
//! Several contexts of a replicated type may share an id. Each then also has a unique id of its own, under
//! which it knows itself. A look-up by the shared id returns one of them, chosen by a hash.
//!
//! Invariants: memory grows with use, up to the limit. A new context consists of exactly the bytes that its
//! chain left in the fresh slot. Every id in the index belongs to a living context.

use std::collections::HashMap;

use bytemuck::{cast_slice, cast_slice_mut};
use hashbrown::HashTable;
use hawser_ir::ContextId;
use hawser_ir::abi::Id;

use super::flow::FlowKey;
use super::handles::Handle;
use super::paged::Paged;
use super::slot::Slot;
use crate::data::{RecvBuffer, SendBuffer, Units};
use crate::ids::{Hasher, same};

/// The offset of a member's number in its id, in bytes that tuples of listeners leave unused.
const MEMBER_AT: usize = Id::MAX - 2;

/// The maximum memory allocated at a time, in 8-byte words, for contexts smaller than that.
const PAGE_WORDS: usize = 8 * 1024;

/// The number of bytes that a processor fetches at a time.
const CACHE_LINE: usize = 64;

/// The engine's data about a context, apart from the context's bytes.
#[derive(Debug)]
pub(crate) struct ContextEntry {
    /// The context's type.
    pub(crate) kind: ContextId,
    /// The index of its memory among contexts of its type.
    place: u32,
    /// See [`Slot::generation`].
    generation: u32,
    live: bool,
    /// True if a front has the current version.
    lent: bool,
    /// The first id; `NONE` if the context has dropped all.
    id: Id,
    /// The hash of the first id.
    hash: u64,
    /// The ids added by `add_id`.
    #[allow(clippy::box_collection)] // Most have none: 8 bytes for that, not 24.
    aliases: Option<Box<Vec<Id>>>,
    /// The id that the context shares with others of its type.
    shares: Option<Box<Id>>,
    /// The ordered data of the context.
    pub(crate) units: Units,
    /// The maximum number of bytes held for sending; 0 stands for [`crate::StackLimits::tx_bytes`].
    pub(crate) send_buffer: u64,
    /// The maximum number of held bytes that no packet has carried yet; 0 if only the available room limits
    /// them.
    pub(crate) not_sent: u64,
    /// The application's handle.
    pub(crate) handle: Option<Handle>,
    /// The addresses at both ends, as far as known.
    pub(crate) flow: Option<FlowKey>,
    /// True if the local port came from the port table.
    pub(crate) owns_port: bool,
    /// True if the application released the handle without waiting for the end.
    pub(crate) orphan: bool,
    /// Requests that the program has not received yet.
    pub(crate) deferred: Deferred,
    /// True if the peer's end of stream arrived before the context had a handle.
    pub(crate) early_eof: bool,
}

/// Requests that the program could not receive when they were made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deferred {
    /// The application aborts.
    pub(crate) abort: bool,
    /// The number of bytes that the application took; for a listener, of connections.
    pub(crate) taken: u64,
    /// The application will send no more.
    pub(crate) close: bool,
    /// The application resets or stops a stream; [`super::StackState::given_up`] has the reasons.
    pub(crate) given_up: bool,
    /// The handle has been released.
    pub(crate) release: bool,
    /// The context is in the list of those with deferred requests.
    pub(crate) listed: bool,
}

/// The directions of a stream that an application gives up, with its reasons.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    /// The reason for giving up sending.
    pub(crate) reset: Option<u64>,
    /// The reason for giving up reading.
    pub(crate) stop: Option<u64>,
}

impl GivenUp {
    /// Gives up sending, for this reason.
    pub(crate) fn reset(reason: u64) -> GivenUp {
        GivenUp { reset: Some(reason), stop: None }
    }

    /// Gives up reading, for this reason.
    pub(crate) fn stop(reason: u64) -> GivenUp {
        GivenUp { reset: None, stop: Some(reason) }
    }
}

impl ContextEntry {
    /// Returns the sending unit with this uid.
    #[inline]
    pub(crate) fn sending(&mut self, uid: &Id) -> Option<&mut SendBuffer> {
        self.units.sending(uid, &self.id)
    }

    /// Returns the receiving unit with this uid.
    #[inline]
    pub(crate) fn receiving(&mut self, uid: &Id) -> Option<&mut RecvBuffer> {
        self.units.receiving(uid, &self.id)
    }

    /// See [`Units::flushing`].
    #[inline]
    pub(crate) fn flushing(&mut self, uid: &Id) -> Option<&mut RecvBuffer> {
        self.units.flushing(uid, &self.id)
    }

    /// Adds a sending unit; returns false if one with this uid exists.
    pub(crate) fn add_sending(&mut self, uid: Id, unit: SendBuffer) -> bool {
        self.units.add_sending(uid, &self.id, unit)
    }

    /// Adds a receiving unit; returns false if one with this uid exists.
    pub(crate) fn add_receiving(&mut self, uid: Id, unit: RecvBuffer) -> bool {
        self.units.add_receiving(uid, &self.id, unit)
    }

    fn has_id(&self, id: &Id) -> bool {
        same(&self.id, id) || self.aliases.as_ref().is_some_and(|aliases| aliases.contains(id))
    }
}

/// The result of looking up an id ahead of its event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guess {
    /// The id's [`Contexts::hash`].
    pub(crate) hash: u64,
    /// The context with that id. It is only a hint: [`Contexts::is_known`] shows whether the context still
    /// has the id.
    pub(crate) slot: Option<Slot>,
}

/// Memory of one context type, in pages of 2^`shift` contexts.
#[derive(Debug)]
struct Arena {
    words: usize,
    shift: u32,
    pages: Vec<Box<[u64]>>,
    free: Vec<u32>,
    used: u32,
}

impl Arena {
    fn new(bytes: usize) -> Arena {
        let words = bytes.div_ceil(8).max(1);
        let shift = (PAGE_WORDS / words).max(1).ilog2();
        Arena { words, shift, pages: Vec::new(), free: Vec::new(), used: 0 }
    }

    fn take(&mut self) -> u32 {
        if let Some(place) = self.free.pop() {
            return place;
        }
        let place = self.used;
        self.used += 1;
        if place as usize >> self.shift >= self.pages.len() {
            self.pages
                .push(vec![0; self.words << self.shift].into_boxed_slice());
        }
        place
    }

    /// Returns the page of a place, and the index of its first word there.
    #[inline]
    fn locate(&self, place: u32) -> (usize, usize) {
        let place = place as usize;
        (
            place >> self.shift,
            (place & ((1 << self.shift) - 1)) * self.words,
        )
    }

    #[inline]
    fn words(&self, place: u32) -> &[u64] {
        let (page, at) = self.locate(place);
        &self.pages[page][at..at + self.words]
    }

    #[inline]
    fn words_mut(&mut self, place: u32) -> &mut [u64] {
        let (page, at) = self.locate(place);
        &mut self.pages[page][at..at + self.words]
    }
}

impl ContextChanges {
    /// Notes a context that is new or may have changed, once there is a front.
    #[cold]
    fn note(news: &mut Option<ContextChanges>, index: u32) {
        if let Some(news) = news {
            news.changed.push(index);
        }
    }
}

/// All contexts that have an id.
#[derive(Debug)]
pub(crate) struct Contexts {
    arenas: Vec<Arena>,
    entries: Paged<ContextEntry>,
    free: Vec<u32>,
    /// The hash of each id, and the context that has it.
    index: HashTable<(u64, Slot)>,
    /// The ids that several contexts share, with those contexts.
    shared: HashMap<Id, Vec<Slot>>,
    /// The number of the last context that joined a shared id.
    joined: u16,
    hasher: Hasher,
    live: usize,
    /// The changes that a front does not know yet, once there is one.
    news: Option<ContextChanges>,
}

/// The changes of contexts since they were lent.
#[derive(Debug, Default)]
pub(crate) struct ContextChanges {
    /// The slot indices of contexts that ended.
    pub(crate) ended: Vec<u32>,
    /// The slot indices of contexts that are new or may have changed.
    pub(crate) changed: Vec<u32>,
}

impl Contexts {
    /// Creates an empty table, given the size of each type in bytes and the key of the index.
    pub(crate) fn new(sizes: impl Iterator<Item = usize>, key: (u64, u64)) -> Contexts {
        Contexts {
            arenas: sizes.map(Arena::new).collect(),
            entries: Paged::default(),
            free: Vec::new(),
            index: HashTable::new(),
            shared: HashMap::new(),
            joined: 0,
            hasher: Hasher::new(key),
            live: 0,
            news: None,
        }
    }

    /// Takes the changes that a front does not know; the first time, they contain every context.
    pub(crate) fn take_news(&mut self) -> ContextChanges {
        if self.news.is_none() {
            let changed = self.living().map(|slot| slot.index).collect();
            self.news = Some(ContextChanges { changed, ..ContextChanges::default() });
        }
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records that a front has the current version of the context.
    pub(crate) fn lent(&mut self, slot: Slot) {
        self.entries[slot.index].lent = true;
    }

    /// Records that a front's version of a context is out of date.
    fn has_changed(&mut self, index: u32) {
        self.entries[index].lent = false;
        ContextChanges::note(&mut self.news, index);
    }

    /// Returns all ids of a context.
    pub(crate) fn ids(&self, slot: Slot) -> impl Iterator<Item = Id> + '_ {
        let entry = &self.entries[slot.index];
        let aliases = entry.aliases.iter().flat_map(|aliases| aliases.iter().copied());
        std::iter::once(entry.id)
            .filter(|id| !id.is_none())
            .chain(aliases)
    }

    /// Returns the number of contexts.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Returns the keyed hash of an id.
    #[inline]
    pub(crate) fn hash(&self, id: &Id) -> u64 {
        self.hasher.hash(id)
    }

    /// Returns the key of the hash.
    pub(crate) fn key(&self) -> (u64, u64) {
        self.hasher.key
    }

    /// Returns true if contexts share ids.
    pub(crate) fn shares_ids(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Returns the context with an id, given the id's [`Contexts::hash`].
    #[inline]
    pub(crate) fn find_hashed(&self, hash: u64, id: &Id) -> Option<Slot> {
        let is_it = |(known, slot): &(u64, Slot)| *known == hash && self.entries[slot.index].has_id(id);
        self.index.find(hash, is_it).map(|(_, slot)| *slot)
    }

    /// Returns the context that most likely has an id with this hash, without touching its entry.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> Option<Slot> {
        self.index
            .find(hash, |(known, _)| *known == hash)
            .map(|(_, slot)| *slot)
    }

    /// Reads a word from each part of a context's entry to bring it into the cache.
    #[inline]
    pub(crate) fn touch_entry(&self, slot: Slot) -> u64 {
        let entry = &self.entries[slot.index];
        let flags =
            u64::from(entry.deferred.listed) + u64::from(entry.units.blocked) + u64::from(entry.orphan);
        entry.hash ^ flags ^ entry.deferred.taken ^ entry.units.readable()
    }

    /// Reads a byte from each of a context's cache lines.
    #[inline]
    pub(crate) fn touch_bytes(&self, slot: Slot) -> u64 {
        self.bytes(slot)
            .iter()
            .step_by(CACHE_LINE)
            .fold(0, |sum, byte| sum ^ u64::from(*byte))
    }

    /// Returns true if a context has this id, which is not `NONE`.
    #[inline]
    pub(crate) fn is_known(&self, slot: Slot, id: &Id) -> bool {
        self.entries[slot.index].has_id(id)
    }

    /// Returns the context with an id.
    pub(crate) fn find(&self, id: &Id) -> Option<Slot> {
        self.find_hashed(self.hash(id), id)
    }

    /// Returns the context with an id, or one of those that share it; `choice` decides which.
    pub(crate) fn find_or_choose(&self, hash: u64, id: &Id, choice: u32) -> Option<Slot> {
        match self.find_hashed(hash, id) {
            None if !self.shared.is_empty() => {
                let members = self.shared.get(id)?;
                members.get(choice as usize % members.len()).copied()
            }
            found => found,
        }
    }

    /// Returns a unique id for a context that will share `id`. It is equal except for the last bytes, which
    /// no tuple uses. Returns `None` if `id` uses these bytes itself, or if no number is free.
    pub(crate) fn member_id(&mut self, id: &Id) -> Option<Id> {
        let mut member = *id;
        if id.is_none() || id.bytes().len() > MEMBER_AT {
            return None;
        }
        for _ in 0..=u16::MAX {
            self.joined = self.joined % u16::MAX + 1;
            member.0[MEMBER_AT..MEMBER_AT + 2].copy_from_slice(&self.joined.to_be_bytes());
            if self.find(&member).is_none() {
                return Some(member);
            }
        }
        None
    }

    /// Adds a context that has a [`Contexts::member_id`] to those that share the corresponding id.
    pub(crate) fn join(&mut self, slot: Slot) {
        let mut id = self.first_id(slot);
        id.0[MEMBER_AT..Id::MAX].fill(0);
        self.entries[slot.index].shares = Some(Box::new(id));
        self.shared.entry(id).or_default().push(slot);
    }

    fn leave(&mut self, slot: Slot, id: &Id) {
        if let Some(members) = self.shared.get_mut(id) {
            members.retain(|member| *member != slot);
            if members.is_empty() {
                self.shared.remove(id);
            }
        }
    }

    /// Creates a context from these bytes under an id that no context has.
    pub(crate) fn insert(&mut self, kind: ContextId, id: Id, bytes: &[u8]) -> Slot {
        let arena = &mut self.arenas[kind.0 as usize];
        let place = arena.take();
        let memory: &mut [u8] = cast_slice_mut(arena.words_mut(place));
        memory[..bytes.len()].copy_from_slice(bytes);
        let free = self.free.pop();
        let index = free.unwrap_or_else(|| self.entries.push(ContextEntry::empty) as u32);
        let hash = self.hash(&id);
        let entry = &mut self.entries[index];
        let generation = entry.generation;
        let slot = Slot { generation, index };
        (entry.kind, entry.place, entry.live) = (kind, place, true);
        (entry.id, entry.hash) = (id, hash);
        self.live += 1;
        self.index_id(hash, slot);
        self.has_changed(index);
        slot
    }

    /// Gives a context one more id; returns false if the id is taken or the context already has `max`.
    pub(crate) fn add_id(&mut self, slot: Slot, id: Id, max: usize) -> bool {
        let entry = &self.entries[slot.index];
        let count =
            usize::from(!entry.id.is_none()) + entry.aliases.as_ref().map_or(0, |aliases| aliases.len());
        if id.is_none() || count >= max || self.find(&id).is_some() {
            return false;
        }
        let hash = self.hash(&id);
        let entry = &mut self.entries[slot.index];
        if entry.id.is_none() {
            (entry.id, entry.hash) = (id, hash);
        } else {
            entry.aliases.get_or_insert_default().push(id);
        }
        self.index_id(hash, slot);
        self.has_changed(slot.index);
        true
    }

    /// Removes an id from a context; returns false if it is not one of its ids.
    pub(crate) fn drop_id(&mut self, slot: Slot, id: &Id) -> bool {
        if id.is_none() || !self.entries[slot.index].has_id(id) {
            return false;
        }
        self.unindex(id, slot);
        self.has_changed(slot.index);
        let hasher = self.hasher;
        let entry = &mut self.entries[slot.index];
        let aliases = entry.aliases.as_mut();
        if entry.id != *id {
            aliases
                .into_iter()
                .for_each(|aliases| aliases.retain(|known| known != id));
            return true;
        }
        entry.units.disown(*id);
        let next = aliases
            .filter(|aliases| !aliases.is_empty())
            .map(|aliases| aliases.remove(0));
        entry.id = next.unwrap_or(Id::NONE);
        entry.hash = hasher.hash(&entry.id);
        true
    }

    /// Ends a context. Its units must be empty and its timers stopped.
    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(shared) = self.entries[slot.index].shares.take() {
            self.leave(slot, &shared);
        }
        let entry = &mut self.entries[slot.index];
        let (id, aliases) = (entry.id, entry.aliases.take());
        let own = Some(id).filter(|id| !id.is_none());
        own.iter()
            .chain(aliases.iter().flat_map(|aliases| aliases.iter()))
            .for_each(|id| self.unindex(id, slot));
        let entry = &mut self.entries[slot.index];
        self.arenas[entry.kind.0 as usize].free.push(entry.place);
        *entry = ContextEntry { generation: entry.generation.wrapping_add(1), ..ContextEntry::empty() };
        self.free.push(slot.index);
        self.live -= 1;
        if let Some(news) = &mut self.news {
            news.ended.push(slot.index);
        }
    }

    /// Returns the engine's data about a context.
    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> &ContextEntry {
        &self.entries[slot.index]
    }

    /// Returns the engine's data about a context.
    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut ContextEntry {
        &mut self.entries[slot.index]
    }

    /// Returns true while the context lives.
    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        self.entries
            .get(slot.index as usize)
            .is_some_and(|e| e.live && e.generation == slot.generation)
    }

    /// Returns the context with this slot index, or the last one that had it.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Slot {
        Slot { generation: self.entries[index].generation, index }
    }

    /// Returns all living contexts, in the order of their slots.
    pub(crate) fn living(&self) -> impl Iterator<Item = Slot> + '_ {
        let places = 0..self.entries.len() as u32;
        places
            .filter(|index| self.entries[*index].live)
            .map(|index| self.at(index))
    }

    /// Returns a context's first id; `NONE` if it has dropped all.
    pub(crate) fn first_id(&self, slot: Slot) -> Id {
        self.entries[slot.index].id
    }

    /// Returns the [`Contexts::hash`] of a context's first id.
    pub(crate) fn first_hash(&self, slot: Slot) -> u64 {
        self.entries[slot.index].hash
    }

    /// Returns a context's bytes.
    pub(crate) fn bytes(&self, slot: Slot) -> &[u8] {
        let entry = &self.entries[slot.index];
        cast_slice(self.arenas[entry.kind.0 as usize].words(entry.place))
    }

    /// Returns a context's bytes.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: Slot) -> &mut [u8] {
        let entry = &mut self.entries[slot.index];
        if entry.lent {
            entry.lent = false;
            ContextChanges::note(&mut self.news, slot.index);
        }
        cast_slice_mut(self.arenas[entry.kind.0 as usize].words_mut(entry.place))
    }

    fn index_id(&mut self, hash: u64, slot: Slot) {
        self.index.insert_unique(hash, (hash, slot), |(hash, _)| *hash);
    }

    fn unindex(&mut self, id: &Id, slot: Slot) {
        let hash = self.hash(id);
        if let Ok(found) = self.index.find_entry(hash, |known| *known == (hash, slot)) {
            found.remove();
        }
    }
}

impl ContextEntry {
    fn empty() -> ContextEntry {
        ContextEntry {
            kind: ContextId(0),
            place: 0,
            generation: 0,
            live: false,
            lent: false,
            id: Id::NONE,
            hash: 0,
            aliases: None,
            shares: None,
            units: Units::default(),
            send_buffer: 0,
            not_sent: 0,
            handle: None,
            flow: None,
            owns_port: false,
            orphan: false,
            deferred: Deferred::default(),
            early_eof: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> Id {
        let mut id = Id::NONE;
        id.push(n, 8);
        id
    }

    #[test]
    fn aliases_are_removed_with_their_context() {
        let mut contexts = Contexts::new([48, 4096].into_iter(), (1, 2));
        let a = contexts.insert(ContextId(0), id(1), &[1; 48]);
        let b = contexts.insert(ContextId(1), id(2), &[2; 4096]);
        assert!(contexts.add_id(a, id(3), 3));
        assert!(!contexts.add_id(b, id(3), 3), "taken");
        assert!(contexts.add_id(a, id(4), 3));
        assert!(!contexts.add_id(a, id(5), 3), "full");
        assert!(contexts.drop_id(a, &id(4)));
        assert!(!contexts.drop_id(b, &id(3)), "another's");
        assert_eq!(contexts.find(&id(3)), Some(a));
        assert_eq!(contexts.find(&id(4)), None);
        contexts.remove(a);
        assert!(!contexts.is_live(a));
        assert_eq!((contexts.find(&id(1)), contexts.find(&id(3))), (None, None));
        assert_eq!(contexts.find(&id(2)), Some(b));
        assert_eq!(contexts.len(), 1);
    }

    #[test]
    fn memory_stays_in_its_place() {
        let mut contexts = Contexts::new([64].into_iter(), (1, 2));
        let slots: Vec<Slot> = (0..5000)
            .map(|n| contexts.insert(ContextId(0), id(n), &[n as u8; 64]))
            .collect();
        slots.iter().step_by(2).for_each(|slot| contexts.remove(*slot));
        for n in (0..5000).step_by(2) {
            contexts.insert(ContextId(0), id(n + 10_000), &[!(n as u8); 64]);
        }
        assert!(
            (1..5000)
                .step_by(2)
                .all(|n| contexts.bytes(slots[n]) == [n as u8; 64])
        );
        assert_eq!(contexts.arenas[0].used, 5000, "places are used again");
    }
}
