//! The ordered data of one context: units by uid, sending and receiving apart.
//!
//! Most contexts have one of each, under their own id: those two lie in the context's entry, and
//! neither holds memory of its own while it holds no byte.

use hawser_ir::abi::Id;

use crate::ids::same;
use crate::rxunit::{PagePool, RxUnit};
use crate::txunit::{ChunkPool, TxUnit};

/// A context's units. They die with it.
#[derive(Debug, Default)]
pub(crate) struct Units {
    sending: Group<TxUnit>,
    receiving: Group<RxUnit>,
    /// The application found no room and waits for some.
    pub(crate) starved: bool,
}

/// Which unit of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// The one under the context's own id.
    Own,
    /// One of the others.
    Other(usize),
}

/// Units of one kind: one under the context's own id, and others.
#[derive(Debug)]
struct Group<U> {
    own: Option<U>,
    #[allow(clippy::box_collection)] // Most have none: 8 bytes for that, not 24.
    others: Option<Box<Vec<(Id, U)>>>,
}

impl<U> Default for Group<U> {
    fn default() -> Group<U> {
        Group { own: None, others: None }
    }
}

impl<U> Group<U> {
    fn len(&self) -> usize {
        usize::from(self.own.is_some()) + self.others.as_ref().map_or(0, |others| others.len())
    }

    /// A sum over all of them; most often there is one.
    #[inline]
    fn sum(&self, of: impl Fn(&U) -> u64) -> u64 {
        let own = self.own.as_ref().map_or(0, &of);
        self.others.as_ref().map_or(own, |others| own + others.iter().map(|(_, unit)| of(unit)).sum::<u64>())
    }

    /// In the order of their making, but for the own one, which comes first.
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut U> {
        let others = self.others.iter_mut().flat_map(|others| others.iter_mut().map(|(_, unit)| unit));
        self.own.iter_mut().chain(others)
    }

    #[inline]
    fn find(&self, uid: &Id, own: &Id) -> Option<Place> {
        if self.own.is_some() && same(uid, own) {
            return Some(Place::Own);
        }
        let others = self.others.as_ref()?;
        others.iter().position(|(known, _)| known == uid).map(Place::Other)
    }

    #[inline]
    fn at(&mut self, place: Place) -> Option<&mut U> {
        match place {
            Place::Own => self.own.as_mut(),
            Place::Other(index) => self.others.as_mut()?.get_mut(index).map(|(_, unit)| unit),
        }
    }

    /// False when there is one with this uid.
    fn add(&mut self, uid: Id, own: &Id, unit: U) -> bool {
        let is_new = self.find(&uid, own).is_none();
        if is_new && uid == *own {
            self.own = Some(unit);
        } else if is_new {
            self.others.get_or_insert_default().push((uid, unit));
        }
        is_new
    }

    /// The context is not known by its own id any more; its unit still is.
    fn disown(&mut self, id: Id) {
        if let Some(unit) = self.own.take() {
            self.others.get_or_insert_default().insert(0, (id, unit));
        }
    }
}

impl Units {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sending.len() + self.receiving.len()
    }

    /// Bytes accepted for sending and not retired.
    pub(crate) fn sending_bytes(&self) -> u64 {
        self.sending.sum(TxUnit::held)
    }

    /// Bytes that left the sending units: retired, since the context was made.
    pub(crate) fn retired_bytes(&self) -> u64 {
        self.sending.sum(TxUnit::retired)
    }

    /// Bytes that left the receiving units: taken by the application, since the context was made.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.receiving.sum(RxUnit::taken)
    }

    /// Memory of the receiving units in bytes.
    pub(crate) fn receiving_memory(&self) -> u64 {
        self.receiving.sum(RxUnit::memory)
    }

    /// Adds a sending unit to the context with the id `own`; false when there is one with this uid.
    pub(crate) fn add_sending(&mut self, uid: Id, own: &Id) -> bool {
        self.sending.add(uid, own, TxUnit::default())
    }

    /// Adds a receiving unit; false when there is one with this uid.
    pub(crate) fn add_receiving(&mut self, uid: Id, own: &Id, unit: RxUnit) -> bool {
        self.receiving.add(uid, own, unit)
    }

    /// Where the sending unit with this uid is.
    #[inline]
    pub(crate) fn find_sending(&self, uid: &Id, own: &Id) -> Option<Place> {
        self.sending.find(uid, own)
    }

    /// Where the receiving unit with this uid is.
    #[inline]
    pub(crate) fn find_receiving(&self, uid: &Id, own: &Id) -> Option<Place> {
        self.receiving.find(uid, own)
    }

    /// The sending unit at this place.
    #[inline]
    pub(crate) fn sending(&mut self, place: Place) -> Option<&mut TxUnit> {
        self.sending.at(place)
    }

    /// The receiving unit at this place.
    #[inline]
    pub(crate) fn receiving(&mut self, place: Place) -> Option<&mut RxUnit> {
        self.receiving.at(place)
    }

    /// The context gives up the id under which it was known first.
    pub(crate) fn disown(&mut self, id: Id) {
        self.sending.disown(id);
        self.receiving.disown(id);
    }

    /// Bytes that the application can read.
    pub(crate) fn readable(&self) -> u64 {
        self.receiving.sum(RxUnit::readable)
    }

    /// Copies readable bytes out, unit after unit; returns how many.
    pub(crate) fn read(&mut self, out: &mut [u8], pool: &mut PagePool) -> usize {
        let mut done = 0;
        for unit in self.receiving.iter_mut() {
            done += unit.read(&mut out[done..], pool);
        }
        done
    }

    /// Gives all readable bytes up; returns how many there were.
    pub(crate) fn skip(&mut self, pool: &mut PagePool) -> u64 {
        self.receiving.iter_mut().map(|unit| unit.skip(u64::MAX, pool)).sum()
    }

    /// Gives up all but the receiving units with readable bytes: what remains of a context.
    pub(crate) fn keep_readable(&mut self, chunks: &mut ChunkPool, pages: &mut PagePool) {
        self.sending.iter_mut().for_each(|unit| unit.clear(chunks));
        self.sending = Group::default();
        self.receiving.iter_mut().filter(|unit| unit.readable() == 0).for_each(|unit| unit.clear(pages));
    }

    /// Gives all memory back.
    pub(crate) fn clear(&mut self, chunks: &mut ChunkPool, pages: &mut PagePool) {
        self.sending.iter_mut().for_each(|unit| unit.clear(chunks));
        self.receiving.iter_mut().for_each(|unit| unit.clear(pages));
        *self = Units::default();
    }
}
