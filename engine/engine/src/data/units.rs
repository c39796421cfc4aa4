//! The ordered data of one context: units by uid, with sending and receiving units kept apart.
//!
//! Most contexts have one unit of each kind, under their own id. Those two are part of the context's entry
//! and hold no memory of their own while they hold no bytes.
//!
//! A unit ends when the program ends it, or when the last byte of a stated size has left it. From then on no
//! id resolves to it, and it counts against no limit. A receiving unit remains until its delivered bytes are
//! read, and is bounded by the memory that they take.

use hawser_ir::abi::Id;

use super::recv_buffer::{PagePool, RecvBuffer};
use super::send_buffer::{ChunkPool, SendBuffer};
use crate::ids::same;

/// A context's units. They end with it at the latest.
#[derive(Debug, Default)]
pub(crate) struct Units {
    sending: Group<SendBuffer>,
    receiving: Group<RecvBuffer>,
    /// True if the application found no room and waits for some.
    pub(crate) blocked: bool,
}

/// The position of a unit among those of its kind.
#[derive(Clone, Copy, Debug)]
enum UnitPosition {
    /// The unit under the context's own id.
    Own,
    /// One of the other units.
    Other(usize),
}

/// The properties that units of both kinds have in common.
trait Unit {
    /// Returns the number of bytes that have left it since it was created.
    fn passed(&self) -> u64;
    /// Returns true if no byte can arrive any more; no id resolves to it.
    fn is_over(&self) -> bool;
    /// Returns true if no data of it is left, so that only its byte count is kept.
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
    /// The other units. Most contexts have only the own unit, so a pointer of 8 bytes takes their place.
    others: Option<Box<Others<U>>>,
}

#[derive(Debug)]
struct Others<U> {
    units: Vec<(Id, U)>,
    /// The number of bytes that left units that are gone, the own one included.
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
    /// Returns the number of units that are not over.
    fn len(&self) -> usize {
        self.sum(|unit| u64::from(!unit.is_over())) as usize
    }

    /// Returns the number of bytes that have left all units that ever existed.
    fn passed(&self) -> u64 {
        self.sum(U::passed) + self.others.as_ref().map_or(0, |others| others.passed)
    }

    /// Returns a sum over all units; most often there is only one.
    #[inline]
    fn sum(&self, of: impl Fn(&U) -> u64) -> u64 {
        let own = self.own.as_ref().map_or(0, &of);
        let Some(others) = &self.others else { return own };
        own + others.units.iter().map(|(_, unit)| of(unit)).sum::<u64>()
    }

    /// Removes the units that are gone.
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

    /// Moves a unit behind all others and returns its position. The own unit is then kept by its id among the
    /// others.
    fn put_last(&mut self, place: UnitPosition, id: &Id) -> UnitPosition {
        let Some(others) = &mut self.others else {
            return place;
        };
        match place {
            UnitPosition::Own => others.units.extend(self.own.take().map(|unit| (*id, unit))),
            UnitPosition::Other(index) => {
                if let Some(behind) = others.units.get_mut(index..) {
                    behind.rotate_left(1);
                }
            }
        }
        UnitPosition::Other(others.units.len().saturating_sub(1))
    }

    /// Returns the own unit first, then the others in order.
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut U> {
        let others = self.others.iter_mut().flat_map(|others| others.units.iter_mut());
        let others = others.map(|(_, unit)| unit);
        self.own.iter_mut().chain(others)
    }

    #[inline]
    fn find(&self, uid: &Id, own: &Id) -> Option<UnitPosition> {
        if self.own.as_ref().is_some_and(|unit| !unit.is_over()) && same(uid, own) {
            return Some(UnitPosition::Own);
        }
        let mut others = self.others.as_ref()?.units.iter();
        others
            .position(|(known, unit)| known == uid && !unit.is_over())
            .map(UnitPosition::Other)
    }

    /// Returns the unit with this uid.
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
    fn at(&mut self, place: UnitPosition) -> Option<&mut U> {
        match place {
            UnitPosition::Own => self.own.as_mut(),
            UnitPosition::Other(index) => self.others.as_mut()?.units.get_mut(index).map(|(_, unit)| unit),
        }
    }

    /// Adds a unit; returns false if one with this uid exists.
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

    /// Moves the own unit to the others, because the context gives up its own id.
    fn disown(&mut self, id: Id) {
        if let Some(unit) = self.own.take() {
            self.others.get_or_insert_default().units.insert(0, (id, unit));
        }
    }
}

impl Units {
    /// Returns the number of units that are not over.
    pub(crate) fn len(&self) -> usize {
        self.sending.len() + self.receiving.len()
    }

    /// Returns the number of bytes accepted for sending and not retired.
    pub(crate) fn sending_bytes(&self) -> u64 {
        self.sending.sum(SendBuffer::held)
    }

    /// Returns the number of bytes accepted for sending that no packet has carried yet.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.sending.sum(SendBuffer::unsent)
    }

    /// Returns the number of bytes that left the receiving units, which the application has taken since the
    /// context was created.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.receiving.passed()
    }

    /// Returns the memory of the receiving units, in bytes.
    pub(crate) fn receiving_memory(&self) -> u64 {
        self.receiving.sum(RecvBuffer::memory)
    }

    /// Adds a sending unit to the context with the id `own`; returns false if one with this uid exists.
    pub(crate) fn add_sending(&mut self, uid: Id, own: &Id, unit: SendBuffer) -> bool {
        self.sending.add(uid, own, unit)
    }

    /// Adds a receiving unit; returns false if one with this uid exists.
    pub(crate) fn add_receiving(&mut self, uid: Id, own: &Id, unit: RecvBuffer) -> bool {
        self.receiving.add(uid, own, unit)
    }

    /// Returns true if there is a sending unit.
    pub(crate) fn has_sending(&self) -> bool {
        self.sending.len() > 0
    }

    /// Returns the sending unit with this uid.
    #[inline]
    pub(crate) fn sending(&mut self, uid: &Id, own: &Id) -> Option<&mut SendBuffer> {
        self.sending.get(uid, own)
    }

    /// Returns the receiving unit with this uid.
    #[inline]
    pub(crate) fn receiving(&mut self, uid: &Id, own: &Id) -> Option<&mut RecvBuffer> {
        self.receiving.get(uid, own)
    }

    /// Returns the receiving unit with this uid, which is about to be flushed. If it has no readable bytes
    /// yet, it moves behind the units that have some.
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

    /// Gives up the id under which the context was known first.
    pub(crate) fn disown(&mut self, id: Id) {
        self.sending.disown(id);
        self.receiving.disown(id);
    }

    /// Returns the number of bytes that the application can read.
    pub(crate) fn readable(&self) -> u64 {
        self.receiving.sum(RecvBuffer::readable)
    }

    /// Copies readable bytes out, unit after unit, in the order in which they became readable; returns their
    /// number.
    pub(crate) fn read(&mut self, out: &mut [u8], pool: &mut PagePool) -> usize {
        let mut done = 0;
        for unit in self.receiving.iter_mut() {
            done += unit.read(&mut out[done..], pool);
        }
        self.receiving.prune();
        done
    }

    /// Moves the first whole message out: the bytes of a unit of a stated size that have all been delivered.
    /// Discards the rest of units that ended early. Leaves `out` empty if there is no whole message.
    pub(crate) fn read_message(&mut self, out: &mut Vec<u8>, pool: &mut PagePool) {
        let mut len = 0;
        for unit in self.receiving.iter_mut() {
            if unit.is_whole() {
                // The previous content of `out` is overwritten, not zeroed first.
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

    /// Discards all readable bytes; returns their number.
    pub(crate) fn skip(&mut self, pool: &mut PagePool) -> u64 {
        let skipped = self
            .receiving
            .iter_mut()
            .map(|unit| unit.skip(u64::MAX, pool))
            .sum();
        self.receiving.prune();
        skipped
    }

    /// Removes the units that are over and hold no bytes.
    pub(crate) fn prune(&mut self) {
        self.sending.prune();
        self.receiving.prune();
    }

    /// Discards all units except the receiving ones with readable bytes, which remain after the context's
    /// end.
    pub(crate) fn keep_readable(&mut self, chunks: &mut ChunkPool, pages: &mut PagePool) {
        self.sending.iter_mut().for_each(|unit| unit.clear(chunks));
        self.sending = Group::default();
        self.receiving
            .iter_mut()
            .filter(|unit| unit.readable() == 0)
            .for_each(|unit| unit.clear(pages));
    }

    /// Returns all memory to the pools.
    pub(crate) fn clear(&mut self, chunks: &mut ChunkPool, pages: &mut PagePool) {
        self.sending.iter_mut().for_each(|unit| unit.clear(chunks));
        self.receiving.iter_mut().for_each(|unit| unit.clear(pages));
        *self = Units::default();
    }
}
