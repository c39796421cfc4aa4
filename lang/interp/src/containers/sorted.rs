//! `sorted_list<T, N, by (a, b), key k>`: a list kept in order of its sort fields.

use std::cmp::Ordering;

use hawser_ir::number::{ScalarShape, reduce};
use hawser_ir::{FieldRef, Layout, Ty};

use super::List;
use crate::memory::{Loc, RunMemory};

/// A sorted list in memory; laid out like a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sorted<'a> {
    pub(crate) list: List,
    pub(crate) by: &'a [FieldRef],
    key: &'a FieldRef,
}

impl<'a> Sorted<'a> {
    /// Returns the sorted list of a type at a location; `None` if the type is not a sorted list.
    pub(crate) fn new(layout: &Layout<'_>, at: Loc, ty: &'a Ty) -> Option<Sorted<'a>> {
        let Ty::Sorted { by, key, .. } = ty else {
            return None;
        };
        List::new(layout, at, ty).map(|list| Sorted { list, by, key })
    }

    pub(crate) fn len(&self, memory: &RunMemory<'_>) -> u64 {
        self.list.len(memory)
    }

    /// Returns the position of the element with a key.
    pub(crate) fn position(&self, memory: &RunMemory<'_>, key: u64) -> Option<u64> {
        (0..self.len(memory)).find(|i| field_at(memory, self.list.slot(*i), self.key) == key)
    }

    /// Returns the key of an element that is not in the list yet.
    pub(crate) fn key_of(&self, memory: &RunMemory<'_>, element: Loc) -> u64 {
        field_at(memory, element, self.key)
    }

    /// Compares a sort field of the element at a position with a value, in the order of the field's type.
    pub(crate) fn compare_field(
        &self,
        memory: &RunMemory<'_>,
        position: u64,
        field: &FieldRef,
        value: u64,
    ) -> Ordering {
        let found = field_at(memory, self.list.slot(position), field);
        let shape = ScalarShape::from_type(&field.ty);
        if found == value {
            Ordering::Equal
        } else if shape.less(found, value) {
            Ordering::Less
        } else {
            Ordering::Greater
        }
    }

    /// Returns the position for a new element. It goes behind all elements that are not greater, so that
    /// equal elements keep their order of insertion.
    pub(crate) fn place_for(&self, memory: &RunMemory<'_>, element: Loc) -> u64 {
        let above = |position: &u64| {
            let fields = self.by.iter();
            let order = fields.fold(Ordering::Equal, |order, field| {
                let value = field_at(memory, element, field);
                order.then_with(|| self.compare_field(memory, *position, field, value))
            });
            order.is_gt()
        };
        let len = self.len(memory);
        (0..len).find(above).unwrap_or(len)
    }
}

fn field_at(memory: &RunMemory<'_>, element: Loc, field: &FieldRef) -> u64 {
    let at = element.plus(field.offset as usize);
    reduce(
        memory.read(at, ScalarShape::from_type(&field.ty).size()),
        &field.ty,
    )
}
