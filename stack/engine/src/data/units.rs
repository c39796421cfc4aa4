//! The ordered data of one context: units by uid, sending and receiving apart.
//!
//! Most contexts have one of each, under their own id: those two lie in the context's entry, and
//! neither holds memory of its own while it holds no byte.
//!
//! A unit ends when the program ends it, or when the last byte of a stated size has left it. From then
//! on no id leads to it and it counts against no limit; a receiving unit stays until what it handed over
//! is read, and is bounded by the memory that this takes.

use hawser_ir::abi::Id;

use super::recv_buffer::{PagePool, RecvBuffer};
use super::send_buffer::{ChunkPool, SendBuffer};
use crate::ids::same;

/// A context's units. They die with it, if not before.
#[derive(Debug, Default)]
pub(crate) struct Units {
    sending: Group<SendBuffer>,
    receiving: Group<RecvBuffer>,
    /// The application found no room and waits for some.
    pub(crate) blocked: bool,
}

/// Which unit of its kind.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The one under the context's own id.
    Own,
    /// One of the others.
    Other(usize),
}

/// What units of both kinds have in common.
trait Unit {
    /// Bytes that have left it since it was made.
    fn passed(&self) -> u64;
    /// No byte will come any more: no id leads to it.
    fn is_over(&self) -> bool;
    /// Nothing is left of it but its count.
    fn is_gone(&self) -> bool;
}

impl Unit for SendBuffer {
    fn passed(&self) -> u64 {
        self.retired()
    }

    fn is_over(&self) -> bool {
        SendBuffer::is_over(self)
    }

    fn is_gone(&self) -> bool {
        SendBuffer::is_over(self)
    }
}

impl Unit for RecvBuffer {
    fn passed(&self) -> u64 {
        self.taken()
    }

    fn is_over(&self) -> bool {
        RecvBuffer::is_over(self)
    }

    fn is_gone(&self) -> bool {
        RecvBuffer::is_over(self) && self.readable() == 0
    }
}

/// Units of one kind: one under the context's own id, and others.
#[derive(Debug)]
struct Group<U> {
    own: Option<U>,
    /// Most have none: 8 bytes for that.
    others: Option<Box<Others<U>>>,
}

#[derive(Debug)]
struct Others<U> {
    units: Vec<(Id, U)>,
    /// Bytes that left units that are gone, the own one included.
    passed: u64,
}

impl<U> Default for Group<U> {
    fn default() -> Group<U> {
        Group { own: None, others: None }
    }
}

impl<U> Default for Others<U> {
    fn default() -> Others<U> {
        Others { units: Vec::new(), passed: 0 }
    }
}

impl<U: Unit> Group<U> {
    /// How many are not over.
    fn len(&self) -> usize {
        self.sum(|unit| u64::from(!unit.is_over())) as usize
    }

    /// Bytes that have left all units that there ever were.
    fn passed(&self) -> u64 {
        self.sum(U::passed) + self.others.as_ref().map_or(0, |others| others.passed)
    }

    /// A sum over all of them; most often there is one.
    #[inline]
    fn sum(&self, of: impl Fn(&U) -> u64) -> u64 {
        let own = self.own.as_ref().map_or(0, &of);
        let Some(others) = &self.others else { return own };
        own + others.units.iter().map(|(_, unit)| of(unit)).sum::<u64>()
    }

    /// Forgets the units of which nothing is left.
    #[inline]
    fn prune(&mut self) {
        if let Some(gone) = self.own.take_if(|own| own.is_gone()) {
            self.others.get_or_insert_default().passed += gone.passed();
        }
        let Some(others) = &mut self.others else { return };
        let Others { units, passed } = &mut **others;
        units.retain(|(_, unit)| {
            *passed += if unit.is_gone() { unit.passed() } else { 0 };
            !unit.is_gone()
        });
    }

    /// Puts a unit behind all others; gives its place. The own one is then under its id among the others.
    fn put_last(&mut self, place: Place, id: &Id) -> Place {
        let Some(others) = &mut self.others else {
            return place;
        };
        match place {
            Place::Own => others.units.extend(self.own.take().map(|unit| (*id, unit))),
            Place::Other(index) => {
                if let Some(behind) = others.units.get_mut(index..) {
                    behind.rotate_left(1);
                }
            }
        }
        Place::Other(others.units.len().saturating_sub(1))
    }

    /// The own one first, then the others in their order.
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut U> {
        let others = self.others.iter_mut().flat_map(|others| others.units.iter_mut());
        let others = others.map(|(_, unit)| unit);
        self.own.iter_mut().chain(others)
    }

    #[inline]
    fn find(&self, uid: &Id, own: &Id) -> Option<Place> {
        if self.own.as_ref().is_some_and(|unit| !unit.is_over()) && same(uid, own) {
            return Some(Place::Own);
        }
        let mut others = self.others.as_ref()?.units.iter();
        others
            .position(|(known, unit)| known == uid && !unit.is_over())
            .map(Place::Other)
    }

    /// The one with this uid.
    #[inline]
    fn get(&mut self, uid: &Id, own: &Id) -> Option<&mut U> {
        if same(uid, own) && self.own.as_ref().is_some_and(|unit| !unit.is_over()) {
            return self.own.as_mut();
        }
        let mut others = self.others.as_mut()?.units.iter_mut();
        let found = others.find(|(known, unit)| known == uid && !unit.is_over());
        found.map(|(_, unit)| unit)
    }

    #[inline]
    fn at(&mut self, place: Place) -> Option<&mut U> {
        match place {
            Place::Own => self.own.as_mut(),
            Place::Other(index) => self.others.as_mut()?.units.get_mut(index).map(|(_, unit)| unit),
        }
    }

    /// False when there is one with this uid.
    fn add(&mut self, uid: Id, own: &Id, unit: U) -> bool {
        let is_new = self.find(&uid, own).is_none();
        if is_new && uid == *own {
            self.disown(uid);
            self.own = Some(unit);
        } else if is_new {
            self.others.get_or_insert_default().units.push((uid, unit));
        }
        is_new
    }

    /// The context is not known by its own id any more; its unit still is.
    fn disown(&mut self, id: Id) {
        if let Some(unit) = self.own.take() {
            self.others.get_or_insert_default().units.insert(0, (id, unit));
        }
    }
}

impl Units {
    /// How many there are that are not over.
    pub(crate) fn len(&self) -> usize {
        self.sending.len() + self.receiving.len()
    }

    /// Bytes accepted for sending and not retired.
    pub(crate) fn sending_bytes(&self) -> u64 {
        self.sending.sum(SendBuffer::held)
    }

    /// Bytes accepted for sending that no packet has had yet.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.sending.sum(SendBuffer::unsent)
    }

    /// Bytes that left the receiving units: taken by the application, since the context was made.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.receiving.passed()
    }

    /// Memory of the receiving units in bytes.
    pub(crate) fn receiving_memory(&self) -> u64 {
        self.receiving.sum(RecvBuffer::memory)
    }

    /// Adds a sending unit to the context with the id `own`; false when there is one with this uid.
    pub(crate) fn add_sending(&mut self, uid: Id, own: &Id, unit: SendBuffer) -> bool {
        self.sending.add(uid, own, unit)
    }

    /// Adds a receiving unit; false when there is one with this uid.
    pub(crate) fn add_receiving(&mut self, uid: Id, own: &Id, unit: RecvBuffer) -> bool {
        self.receiving.add(uid, own, unit)
    }

    /// Whether there is a sending unit.
    pub(crate) fn has_sending(&self) -> bool {
        self.sending.len() > 0
    }

    /// The sending unit with this uid.
    #[inline]
    pub(crate) fn sending(&mut self, uid: &Id, own: &Id) -> Option<&mut SendBuffer> {
        self.sending.get(uid, own)
    }

    /// The receiving unit with this uid.
    #[inline]
    pub(crate) fn receiving(&mut self, uid: &Id, own: &Id) -> Option<&mut RecvBuffer> {
        self.receiving.get(uid, own)
    }

    /// The same where it is about to be flushed: if nothing of it waits to be read, its turn to be read comes behind
    /// those of which something does.
    #[inline]
    pub(crate) fn flushing(&mut self, uid: &Id, own: &Id) -> Option<&mut RecvBuffer> {
        let group = &mut self.receiving;
        if group.others.is_none() {
            return group.get(uid, own);
        }
        let place = group.find(uid, own)?;
        match group.at(place)?.readable() {
            0 => {
                let last = group.put_last(place, own);
                group.at(last)
            }
            _ => group.at(place),
        }
    }

    /// The context gives up the id under which it was known first.
    pub(crate) fn disown(&mut self, id: Id) {
        self.sending.disown(id);
        self.receiving.disown(id);
    }

    /// Bytes that the application can read.
    pub(crate) fn readable(&self) -> u64 {
        self.receiving.sum(RecvBuffer::readable)
    }

    /// Copies readable bytes out, unit after unit, in the order in which they had something to read; returns
    /// how many.
    pub(crate) fn read(&mut self, out: &mut [u8], pool: &mut PagePool) -> usize {
        let mut done = 0;
        for unit in self.receiving.iter_mut() {
            done += unit.read(&mut out[done..], pool);
        }
        self.receiving.prune();
        done
    }

    /// Moves the first whole message out: the bytes of a unit of a stated size that were all handed over. What
    /// was left of units that ended early is given up. Leaves `out` empty when there is none.
    pub(crate) fn read_message(&mut self, out: &mut Vec<u8>, pool: &mut PagePool) {
        let mut len = 0;
        for unit in self.receiving.iter_mut() {
            if unit.is_whole() {
                // What `out` held is written over, not zeroed first.
                len = unit.readable() as usize;
                out.resize(len, 0);
                unit.read(out, pool);
                break;
            }
            if unit.is_over() {
                unit.skip(u64::MAX, pool);
            }
        }
        out.truncate(len);
        self.receiving.prune();
    }

    /// Gives all readable bytes up; returns how many there were.
    pub(crate) fn skip(&mut self, pool: &mut PagePool) -> u64 {
        let skipped = self
            .receiving
            .iter_mut()
            .map(|unit| unit.skip(u64::MAX, pool))
            .sum();
        self.receiving.prune();
        skipped
    }

    /// Forgets the units that are over and hold nothing.
    pub(crate) fn prune(&mut self) {
        self.sending.prune();
        self.receiving.prune();
    }

    /// Gives up all but the receiving units with readable bytes: what remains of a context.
    pub(crate) fn keep_readable(&mut self, chunks: &mut ChunkPool, pages: &mut PagePool) {
        self.sending.iter_mut().for_each(|unit| unit.clear(chunks));
        self.sending = Group::default();
        self.receiving
            .iter_mut()
            .filter(|unit| unit.readable() == 0)
            .for_each(|unit| unit.clear(pages));
    }

    /// Gives all memory back.
    pub(crate) fn clear(&mut self, chunks: &mut ChunkPool, pages: &mut PagePool) {
        self.sending.iter_mut().for_each(|unit| unit.clear(chunks));
        self.receiving.iter_mut().for_each(|unit| unit.clear(pages));
        *self = Units::default();
    }
}
