//! From places to locations, and the scalars there.

use hawser_ir::number::{ScalarShape, reduce};
use hawser_ir::{Index, LIST_HEADER, OPTION_TAG, Place, Step, Ty};

use crate::containers::list_len;
use crate::machine::{Halt, Machine};
use crate::memory::Loc;

impl Machine<'_> {
    /// Returns the location of a place. A list element that does not exist is at `Loc::NOWHERE`.
    #[inline]
    pub(crate) fn locate(&mut self, place: &Place) -> Result<Loc, Halt> {
        self.locate_from(self.base(place.base), place)
    }

    /// Returns the location of a place whose region starts at `base`.
    #[inline]
    pub(crate) fn locate_from(&mut self, base: Loc, place: &Place) -> Result<Loc, Halt> {
        let mut loc = base.plus(place.offset as usize);
        for step in &place.steps {
            loc = self.step(loc, step)?;
        }
        Ok(loc)
    }

    /// Moves from a list to a location inside one of its elements.
    fn step(&mut self, list: Loc, step: &Step) -> Result<Loc, Halt> {
        let found = match &step.index {
            Index::At(index) | Index::Item(index) => Some(self.eval(index)?),
            Index::Tag(tag) => self.find_tag(list, step.cap, step.stride as usize, *tag),
            Index::Key(key, field) => {
                let key = self.eval(key)?;
                let size = ScalarShape::from_type(&field.ty).size();
                let len = list_len(&self.memory, list, step.cap);
                let first = list.plus((step.header + field.offset) as usize);
                (0..len).find(|i| {
                    let at = first.plus(*i as usize * step.stride as usize);
                    reduce(self.memory.read(at, size), &field.ty) == key
                })
            }
        };
        let len = match step.index {
            Index::Item(_) => u64::from(step.cap),
            Index::At(_) | Index::Tag(_) | Index::Key(..) => list_len(&self.memory, list, step.cap),
        };
        Ok(match found {
            Some(index) if index < len => {
                let element = index as usize * step.stride as usize;
                list.plus(step.header as usize + element + step.offset as usize)
            }
            Some(_) | None => Loc::NOWHERE,
        })
    }

    /// Finds the first entry of an option list with a tag, given the list's layout.
    pub(crate) fn find_tag(&self, list: Loc, cap: u32, stride: usize, tag: u32) -> Option<u64> {
        let first = list.plus(LIST_HEADER as usize);
        (0..list_len(&self.memory, list, cap)).find(|i| {
            self.memory
                .read(first.plus(*i as usize * stride), OPTION_TAG as usize)
                == u64::from(tag)
        })
    }

    /// Loads the scalar at a place.
    #[inline]
    pub(crate) fn load(&mut self, place: &Place) -> Result<u64, Halt> {
        let loc = self.locate(place)?;
        Ok(self.load_at(loc, &place.ty))
    }

    /// Loads a scalar of a type at a location.
    #[inline]
    pub(crate) fn load_at(&self, loc: Loc, ty: &Ty) -> u64 {
        reduce(self.memory.read(loc, ScalarShape::from_type(ty).size()), ty)
    }

    /// Stores a scalar, reduced to the place's width.
    #[inline]
    pub(crate) fn store(&mut self, place: &Place, value: u64) -> Result<(), Halt> {
        let loc = self.locate(place)?;
        self.store_at(loc, &place.ty, value);
        Ok(())
    }

    /// Stores a scalar of a type at a location, reduced to its width.
    #[inline]
    pub(crate) fn store_at(&mut self, loc: Loc, ty: &Ty, value: u64) {
        self.memory
            .write(loc, ScalarShape::from_type(ty).size(), reduce(value, ty));
    }

    /// Returns the size in memory of a value of a type, in bytes.
    pub(crate) fn size(&self, ty: &Ty) -> usize {
        self.layout().size(ty) as usize
    }
}
