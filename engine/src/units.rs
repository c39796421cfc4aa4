//! The ordered data of one context: units by uid, sending and receiving apart.
//!
//! Most contexts have one of each; a search through a few is faster than a table.

use hawser_ir::abi::Id;

use crate::rxunit::{PagePool, RxUnit};
use crate::txunit::TxUnit;

/// A context's units. They die with it.
#[derive(Debug, Default)]
pub(crate) struct Units {
    sending: Vec<(Id, TxUnit)>,
    receiving: Vec<(Id, RxUnit)>,
    /// The application found no room and waits for some.
    pub(crate) starved: bool,
}

impl Units {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sending.len() + self.receiving.len()
    }

    /// Bytes accepted for sending and not retired.
    pub(crate) fn sending_bytes(&self) -> u64 {
        self.sending.iter().map(|(_, unit)| unit.held()).sum()
    }

    /// Memory of the receiving units in bytes.
    pub(crate) fn receiving_memory(&self) -> u64 {
        self.receiving.iter().map(|(_, unit)| unit.memory()).sum()
    }

    /// Adds a sending unit; false when there is one with this uid.
    pub(crate) fn add_sending(&mut self, uid: Id) -> bool {
        let new = self.sending(&uid).is_none();
        if new {
            self.sending.push((uid, TxUnit::default()));
        }
        new
    }

    /// Adds a receiving unit; false when there is one with this uid.
    pub(crate) fn add_receiving(&mut self, uid: Id, unit: RxUnit) -> bool {
        let new = self.receiving(&uid).is_none();
        if new {
            self.receiving.push((uid, unit));
        }
        new
    }

    /// The sending unit with this uid.
    pub(crate) fn sending(&mut self, uid: &Id) -> Option<&mut TxUnit> {
        self.sending.iter_mut().find(|(known, _)| known == uid).map(|(_, unit)| unit)
    }

    /// The receiving unit with this uid.
    pub(crate) fn receiving(&mut self, uid: &Id) -> Option<&mut RxUnit> {
        self.receiving.iter_mut().find(|(known, _)| known == uid).map(|(_, unit)| unit)
    }

    /// True when a unit of either kind has this uid.
    pub(crate) fn has(&mut self, uid: &Id) -> bool {
        self.sending(uid).is_some() || self.receiving(uid).is_some()
    }

    /// Bytes that the application can read.
    pub(crate) fn readable(&self) -> u64 {
        self.receiving.iter().map(|(_, unit)| unit.readable()).sum()
    }

    /// Copies readable bytes out, unit after unit in order of their making; returns how many.
    pub(crate) fn read(&mut self, out: &mut [u8], pool: &mut PagePool) -> usize {
        let mut done = 0;
        for (_, unit) in &mut self.receiving {
            done += unit.read(&mut out[done..], pool);
        }
        done
    }

    /// Gives all readable bytes up; returns how many there were.
    pub(crate) fn skip(&mut self, pool: &mut PagePool) -> u64 {
        self.receiving.iter_mut().map(|(_, unit)| unit.skip(u64::MAX, pool)).sum()
    }

    /// Gives up all but the receiving units with readable bytes: what remains of a context.
    pub(crate) fn keep_readable(&mut self, pool: &mut PagePool) {
        self.sending.clear();
        self.receiving.retain_mut(|(_, unit)| {
            let keep = unit.readable() > 0;
            if !keep {
                unit.clear(pool);
            }
            keep
        });
    }

    /// Gives all memory back.
    pub(crate) fn clear(&mut self, pool: &mut PagePool) {
        self.receiving.iter_mut().for_each(|(_, unit)| unit.clear(pool));
        self.sending.clear();
        self.receiving.clear();
    }
}
