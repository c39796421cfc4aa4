//! The streams of a session, by number.
//!
//! Tests count the streams that are visited. An operation whose cost must not depend on the number of streams
//! visits exactly as many with one stream as with thousands.

#[cfg(test)]
use std::cell::Cell;
use std::collections::BTreeMap;

use crate::stream::Stream;

/// All streams that are not over.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: BTreeMap<u32, Stream>,
    #[cfg(test)]
    visited: Cell<u64>,
}

impl Streams {
    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.visit();
        self.streams.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.visit();
        self.streams.get_mut(&id)
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.get(id).is_some()
    }

    pub(crate) fn insert(&mut self, id: u32, stream: Stream) {
        self.visit();
        self.streams.insert(id, stream);
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.visit();
        self.streams.remove(&id);
    }

    pub(crate) fn clear(&mut self) {
        self.streams.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns the streams in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Stream)> {
        self.streams
            .iter()
            .inspect(|_| self.visit())
            .map(|(&id, stream)| (id, stream))
    }

    /// Returns the streams in the order of their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Stream)> {
        #[cfg(test)]
        self.visited.set(self.visited.get() + self.streams.len() as u64);
        self.streams.iter_mut().map(|(&id, stream)| (id, stream))
    }

    #[cfg(test)]
    fn visit(&self) {
        self.visited.set(self.visited.get() + 1);
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self)] // Tests count visits.
    fn visit(&self) {}

    /// Returns the number of streams visited so far.
    #[cfg(test)]
    pub(crate) fn visited(&self) -> u64 {
        self.visited.get()
    }
}
