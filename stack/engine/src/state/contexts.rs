//! Contexts: flat memory in stable places, found by id.
//!
//! A context is known by its [`Slot`]; its memory lies in a page of its type and never moves. All
//! ids, aliases included, are in one index under a keyed hash, so that nobody who does not know
//! the key can make them collide.
//!
//! Several contexts of a replicated type may share an id. Each then has an id of its own beside it,
//! under which it knows itself; a look-up by the shared one leads to one of them, chosen by a hash.
//!
//! Invariants: memory grows with use, up to the limit; a new context is exactly the bytes that its
//! chain left in the fresh slot; every id in the index leads to a living context.

use std::collections::HashMap;

use bytemuck::{cast_slice, cast_slice_mut};
use hashbrown::HashTable;
use hawser_ir::ContextId;
use hawser_ir::abi::Id;

use super::flow::Flow;
use super::handles::Handle;
use super::paged::Paged;
use super::slot::Slot;
use crate::data::{RecvBuffer, SendBuffer, Units};
use crate::ids::{Hasher, same};

/// Where the number of a member stands in its id, in bytes that tuples of listeners leave unused.
const MEMBER_AT: usize = Id::MAX - 2;

/// The maximum memory taken at a time, in 8-byte words, for contexts smaller than that.
const PAGE_WORDS: usize = 8 * 1024;

/// Bytes that a processor fetches at a time.
const CACHE_LINE: usize = 64;

/// What the engine knows of a context beside its bytes.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its type.
    pub(crate) kind: ContextId,
    /// Where its memory is, among those of its type.
    place: u32,
    /// See [`Slot::generation`].
    generation: u32,
    live: bool,
    /// A front has it as it is.
    lent: bool,
    /// Its first id; `NONE` when it has dropped all.
    id: Id,
    /// The hash of that.
    hash: u64,
    /// Those of `add_id`.
    #[allow(clippy::box_collection)] // Most have none: 8 bytes for that, not 24.
    aliases: Option<Box<Vec<Id>>>,
    /// The id that it shares with others of its type.
    shares: Option<Box<Id>>,
    /// Its ordered data.
    pub(crate) units: Units,
    /// The maximum number of bytes that it holds for sending; 0: [`crate::Limits::tx_bytes`].
    pub(crate) send_buffer: u64,
    /// The maximum number of bytes that it holds which no packet has had yet; 0: as many as there is room for.
    pub(crate) not_sent: u64,
    /// Whom it speaks to.
    pub(crate) handle: Option<Handle>,
    /// The addresses at both ends, as far as known.
    pub(crate) flow: Option<Flow>,
    /// Its local port came from the port table.
    pub(crate) owns_port: bool,
    /// The application went away without waiting for the end.
    pub(crate) orphan: bool,
    /// Requests that the program has not received yet.
    pub(crate) deferred: Deferred,
    /// The peer's end of stream came before it had a handle.
    pub(crate) early_eof: bool,
}

/// Requests that the program could not receive when they were made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deferred {
    /// The application drops everything.
    pub(crate) abort: bool,
    /// Bytes that the application took; of a listener: connections.
    pub(crate) taken: u64,
    /// The application will send no more.
    pub(crate) close: bool,
    /// It gives something up, for a reason: [`super::State::given_up`] has which.
    pub(crate) given_up: bool,
    /// Nobody holds the handle any more.
    pub(crate) release: bool,
    /// The context is in the list of those with deferred requests.
    pub(crate) listed: bool,
}

/// What an application gives up of a stream, and its reasons.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    /// What it sends.
    pub(crate) reset: Option<u64>,
    /// What it would read.
    pub(crate) stop: Option<u64>,
}

impl GivenUp {
    /// What it sends, for this reason.
    pub(crate) fn reset(reason: u64) -> GivenUp {
        GivenUp { reset: Some(reason), stop: None }
    }

    /// What it would read, for this reason.
    pub(crate) fn stop(reason: u64) -> GivenUp {
        GivenUp { reset: None, stop: Some(reason) }
    }
}

impl Entry {
    /// Its sending unit with this uid.
    #[inline]
    pub(crate) fn sending(&mut self, uid: &Id) -> Option<&mut SendBuffer> {
        self.units.sending(uid, &self.id)
    }

    /// Its receiving unit with this uid.
    #[inline]
    pub(crate) fn receiving(&mut self, uid: &Id) -> Option<&mut RecvBuffer> {
        self.units.receiving(uid, &self.id)
    }

    /// See [`Units::flushing`].
    #[inline]
    pub(crate) fn flushing(&mut self, uid: &Id) -> Option<&mut RecvBuffer> {
        self.units.flushing(uid, &self.id)
    }

    /// Adds a sending unit; false when there is one with this uid.
    pub(crate) fn add_sending(&mut self, uid: Id, unit: SendBuffer) -> bool {
        self.units.add_sending(uid, &self.id, unit)
    }

    /// Adds a receiving unit; false when there is one with this uid.
    pub(crate) fn add_receiving(&mut self, uid: Id, unit: RecvBuffer) -> bool {
        self.units.add_receiving(uid, &self.id, unit)
    }

    fn has_id(&self, id: &Id) -> bool {
        same(&self.id, id) || self.aliases.as_ref().is_some_and(|aliases| aliases.contains(id))
    }
}

/// Where an id led to when it was looked up ahead of its event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guess {
    /// The id's [`Contexts::hash`].
    pub(crate) hash: u64,
    /// The context with that id. A hint only: [`Contexts::is_known`] shows whether it still has it.
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

    /// The page of a place, and the first of its words there.
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

impl News {
    /// A context is new or may have changed, which counts once there is a front.
    #[cold]
    fn note(news: &mut Option<News>, index: u32) {
        if let Some(news) = news {
            news.changed.push(index);
        }
    }
}

/// All contexts that have an id.
#[derive(Debug)]
pub(crate) struct Contexts {
    arenas: Vec<Arena>,
    entries: Paged<Entry>,
    free: Vec<u32>,
    /// The hash of each id, and whose it is.
    index: HashTable<(u64, Slot)>,
    /// Ids that several contexts share, with those.
    shared: HashMap<Id, Vec<Slot>>,
    /// The number of the last context that joined one.
    joined: u16,
    hasher: Hasher,
    live: usize,
    /// What a front does not know yet, once there is one.
    news: Option<News>,
}

/// What has become of contexts since they were lent.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Places of contexts that ended.
    pub(crate) ended: Vec<u32>,
    /// Places of contexts that are new or may have changed.
    pub(crate) changed: Vec<u32>,
}

impl Contexts {
    /// No context, given the size of each type in bytes and the key of the index.
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

    /// What a front does not know; the first time that is everything.
    pub(crate) fn take_news(&mut self) -> News {
        if self.news.is_none() {
            let changed = self.living().map(|slot| slot.index).collect();
            self.news = Some(News { changed, ..News::default() });
        }
        self.news.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// A front has the context as it is now.
    pub(crate) fn lent(&mut self, slot: Slot) {
        self.entries[slot.index].lent = true;
    }

    /// A context is not as the front knows it any more.
    fn has_changed(&mut self, index: u32) {
        self.entries[index].lent = false;
        News::note(&mut self.news, index);
    }

    /// All ids of a context.
    pub(crate) fn ids(&self, slot: Slot) -> impl Iterator<Item = Id> + '_ {
        let entry = &self.entries[slot.index];
        let aliases = entry.aliases.iter().flat_map(|aliases| aliases.iter().copied());
        std::iter::once(entry.id)
            .filter(|id| !id.is_none())
            .chain(aliases)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The keyed hash of an id.
    #[inline]
    pub(crate) fn hash(&self, id: &Id) -> u64 {
        self.hasher.hash(id)
    }

    /// The key of that hash.
    pub(crate) fn key(&self) -> (u64, u64) {
        self.hasher.key
    }

    /// Whether an id leads to one of several contexts.
    pub(crate) fn shares_ids(&self) -> bool {
        !self.shared.is_empty()
    }

    /// The context with an id, given the id's [`Contexts::hash`].
    #[inline]
    pub(crate) fn find_hashed(&self, hash: u64, id: &Id) -> Option<Slot> {
        let is_it = |(known, slot): &(u64, Slot)| *known == hash && self.entries[slot.index].has_id(id);
        self.index.find(hash, is_it).map(|(_, slot)| *slot)
    }

    /// Most likely the context with an id of this hash, its entry untouched.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> Option<Slot> {
        self.index
            .find(hash, |(known, _)| *known == hash)
            .map(|(_, slot)| *slot)
    }

    /// Reads something of each part of a context's entry, so that it is at hand soon.
    #[inline]
    pub(crate) fn touch_entry(&self, slot: Slot) -> u64 {
        let entry = &self.entries[slot.index];
        let flags =
            u64::from(entry.deferred.listed) + u64::from(entry.units.blocked) + u64::from(entry.orphan);
        entry.hash ^ flags ^ entry.deferred.taken ^ entry.units.readable()
    }

    /// Reads something of each of a context's cache lines.
    #[inline]
    pub(crate) fn touch_bytes(&self, slot: Slot) -> u64 {
        self.bytes(slot)
            .iter()
            .step_by(CACHE_LINE)
            .fold(0, |sum, byte| sum ^ u64::from(*byte))
    }

    /// Whether a context has this id, which is not `NONE`.
    #[inline]
    pub(crate) fn is_known(&self, slot: Slot, id: &Id) -> bool {
        self.entries[slot.index].has_id(id)
    }

    /// The context with an id.
    pub(crate) fn find(&self, id: &Id) -> Option<Slot> {
        self.find_hashed(self.hash(id), id)
    }

    /// The context with an id, or one of those that share it: which, `choice` decides.
    pub(crate) fn find_or_choose(&self, hash: u64, id: &Id, choice: u32) -> Option<Slot> {
        match self.find_hashed(hash, id) {
            None if !self.shared.is_empty() => {
                let members = self.shared.get(id)?;
                members.get(choice as usize % members.len()).copied()
            }
            found => found,
        }
    }

    /// An id of its own for a context that will share `id`: equal but for the unused last bytes,
    /// which no tuple sets. Nothing when `id` leaves none.
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

    /// Lets a context that is known by a [`Contexts::member_id`] share the id that it is one for.
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

    /// Makes a context of these bytes under an id that no context has.
    pub(crate) fn insert(&mut self, kind: ContextId, id: Id, bytes: &[u8]) -> Slot {
        let arena = &mut self.arenas[kind.0 as usize];
        let place = arena.take();
        let memory: &mut [u8] = cast_slice_mut(arena.words_mut(place));
        memory[..bytes.len()].copy_from_slice(bytes);
        let free = self.free.pop();
        let index = free.unwrap_or_else(|| self.entries.push(Entry::empty) as u32);
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

    /// Gives a context one more id; false when the id is taken or the context has `max` already.
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

    /// Takes an id away from a context; false when it is not one of its ids.
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
        *entry = Entry { generation: entry.generation.wrapping_add(1), ..Entry::empty() };
        self.free.push(slot.index);
        self.live -= 1;
        if let Some(news) = &mut self.news {
            news.ended.push(slot.index);
        }
    }

    /// What the engine knows of a context.
    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot.index]
    }

    /// What the engine knows of a context.
    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot.index]
    }

    /// True while the context lives.
    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        self.entries
            .get(slot.index as usize)
            .is_some_and(|e| e.live && e.generation == slot.generation)
    }

    /// The context that has this place now, or had it last.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Slot {
        Slot { generation: self.entries[index].generation, index }
    }

    /// All that live, in the order of their slots.
    pub(crate) fn living(&self) -> impl Iterator<Item = Slot> + '_ {
        let places = 0..self.entries.len() as u32;
        places
            .filter(|index| self.entries[*index].live)
            .map(|index| self.at(index))
    }

    /// A context's first id; `NONE` when it has dropped all.
    pub(crate) fn first_id(&self, slot: Slot) -> Id {
        self.entries[slot.index].id
    }

    /// The [`Contexts::hash`] of a context's first id.
    pub(crate) fn first_hash(&self, slot: Slot) -> u64 {
        self.entries[slot.index].hash
    }

    /// A context's bytes.
    pub(crate) fn bytes(&self, slot: Slot) -> &[u8] {
        let entry = &self.entries[slot.index];
        cast_slice(self.arenas[entry.kind.0 as usize].words(entry.place))
    }

    /// A context's bytes.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: Slot) -> &mut [u8] {
        let entry = &mut self.entries[slot.index];
        if entry.lent {
            entry.lent = false;
            News::note(&mut self.news, slot.index);
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

impl Entry {
    fn empty() -> Entry {
        Entry {
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
    fn aliases_come_and_go_with_their_context() {
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
