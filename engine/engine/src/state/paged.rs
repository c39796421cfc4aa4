//! A table that grows page by page: its entries do not move, and each table wastes at most a page.

use std::ops::{Index, IndexMut};

/// The number of entries per page.
const PAGE: usize = 64;

/// A table of entries by number.
#[derive(Debug)]
pub(crate) struct Paged<T> {
    pages: Vec<Box<[T; PAGE]>>,
    used: usize,
}

impl<T> Default for Paged<T> {
    fn default() -> Paged<T> {
        Paged { pages: Vec::new(), used: 0 }
    }
}

impl<T> Paged<T> {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Appends an entry that `empty` creates, and returns its number.
    pub(crate) fn push(&mut self, empty: impl Fn() -> T) -> usize {
        if self.used == self.pages.len() * PAGE {
            self.pages.push(Box::new(std::array::from_fn(|_| empty())));
        }
        self.used += 1;
        self.used - 1
    }

    /// Returns the entry with this number, if it exists.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.pages.get(index / PAGE).map(|page| &page[index % PAGE])
    }

    /// Returns the entry with this number, if it exists.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.pages
            .get_mut(index / PAGE)
            .map(|page| &mut page[index % PAGE])
    }
}

impl<T> Index<u32> for Paged<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.pages[index as usize / PAGE][index as usize % PAGE]
    }
}

impl<T> IndexMut<u32> for Paged<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.pages[index as usize / PAGE][index as usize % PAGE]
    }
}
