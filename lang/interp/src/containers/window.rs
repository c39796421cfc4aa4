//! `sliding_wnd<N, T>`: up to N runs of set positions at and above a head.
//!
//! `{ u64 head; u32 len; u32 _; struct { u64 from, to; } runs[N]; }`; runs are half-open, in order, and never
//! adjacent. Positions below the head do not exist. All arithmetic is on distances from the head, so that one
//! rule serves plain and circular numbers.

use hawser_ir::number::ScalarShape;
use hawser_ir::{Ty, WINDOW_HEADER};

use crate::memory::{Loc, RunMemory};

/// The size of a run in bytes.
const RUN: usize = 16;

/// A sliding window in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    at: Loc,
    cap: usize,
    shape: ScalarShape,
}

impl Window {
    /// Returns the window of a type at a location; `None` if the type is not a window.
    pub(crate) fn new(at: Loc, ty: &Ty) -> Option<Window> {
        let Ty::Window { runs, elem } = ty else {
            return None;
        };
        Some(Window { at, cap: *runs as usize, shape: ScalarShape::from_type(elem) })
    }

    /// Returns the lowest position that exists.
    pub(crate) fn head(&self, memory: &RunMemory<'_>) -> u64 {
        self.shape.fit(memory.read(self.at, 8))
    }

    pub(crate) fn len(&self, memory: &RunMemory<'_>) -> usize {
        (memory.read(self.at.plus(8), 4) as usize).min(self.cap)
    }

    /// Returns the start and the exclusive end of the i-th run.
    pub(crate) fn run(&self, memory: &RunMemory<'_>, index: u64) -> Option<(u64, u64)> {
        let i = usize::try_from(index).ok().filter(|i| *i < self.len(memory))?;
        let at = self.slot(i);
        Some((
            self.shape.fit(memory.read(at, 8)),
            self.shape.fit(memory.read(at.plus(8), 8)),
        ))
    }

    /// True if a position is set.
    pub(crate) fn is_set(&self, memory: &RunMemory<'_>, x: u64) -> bool {
        let head = self.head(memory);
        let x_distance = self.distance(head, x);
        let below = self.shape.less(x, head);
        !below
            && self
                .runs(memory)
                .any(|(from, to)| from <= x_distance && x_distance < to)
    }

    /// Returns the first set position at or above `x`. If no position is set there, returns the end of the
    /// last run, or the head if there is no run.
    pub(crate) fn first_set(&self, memory: &RunMemory<'_>, x: u64) -> u64 {
        let head = self.head(memory);
        let x = self.distance(head, x);
        let found = self
            .runs(memory)
            .find(|(_, to)| x < *to)
            .map(|(from, _)| from.max(x));
        let end = self.runs(memory).last().map_or(0, |(_, to)| to);
        self.position(head, found.unwrap_or(end))
    }

    /// Returns the first unset position at or above both `x` and the head.
    pub(crate) fn first_unset(&self, memory: &RunMemory<'_>, x: u64) -> u64 {
        let head = self.head(memory);
        let x = self.distance(head, x);
        let inside = self.runs(memory).find(|(from, to)| *from <= x && x < *to);
        self.position(head, inside.map_or(x, |(_, to)| to))
    }

    /// Sets [a, b), merging it with the runs that it overlaps or adjoins. Returns false, without any change,
    /// if that would need more runs than the window has.
    pub(crate) fn set(&self, memory: &mut RunMemory<'_>, a: u64, b: u64) -> bool {
        let Some((a, b)) = self.span(memory, a, b) else {
            return true;
        };
        let len = self.len(memory);
        let first = self.runs(memory).take_while(|(_, to)| *to < a).count();
        let met = self
            .runs(memory)
            .skip(first)
            .take_while(|(from, _)| *from <= b)
            .count();
        if met == 0 && len == self.cap {
            return false;
        }
        let low = if met == 0 {
            a
        } else {
            self.distances(memory, first).0.min(a)
        };
        let high = if met == 0 {
            b
        } else {
            self.distances(memory, first + met - 1).1.max(b)
        };
        self.splice(memory, first, met, &[(low, high)]);
        true
    }

    /// Unsets [a, b). Returns false, without any change, if that would split a run and no other is free.
    pub(crate) fn unset(&self, memory: &mut RunMemory<'_>, a: u64, b: u64) -> bool {
        let Some((a, b)) = self.span(memory, a, b) else {
            return true;
        };
        let len = self.len(memory);
        let first = self.runs(memory).take_while(|(_, to)| *to <= a).count();
        let met = self
            .runs(memory)
            .skip(first)
            .take_while(|(from, _)| *from < b)
            .count();
        if met == 0 {
            return true;
        }
        let left = (self.distances(memory, first).0, a);
        let right = (b, self.distances(memory, first + met - 1).1);
        let mut kept = [(0, 0); 2];
        let mut count = 0;
        for run in [left, right] {
            if run.0 < run.1 {
                kept[count] = run;
                count += 1;
            }
        }
        if len - met + count > self.cap {
            return false;
        }
        self.splice(memory, first, met, &kept[..count]);
        true
    }

    /// Moves the head up to `to` and forgets all positions below. A fresh window (head 0, no runs) can be
    /// moved to any position. Otherwise a `to` at or below the head has no effect.
    pub(crate) fn slide(&self, memory: &mut RunMemory<'_>, to: u64) {
        let head = self.head(memory);
        let to = self.shape.fit(to);
        let fresh = head == 0 && self.len(memory) == 0;
        if !fresh && !self.shape.less(head, to) {
            return;
        }
        let moved = self.distance(head, to);
        let gone = self.runs(memory).take_while(|(_, end)| *end <= moved).count();
        self.splice(memory, 0, gone, &[]);
        if let Some((from, _)) = self.run(memory, 0)
            && self.distance(head, from) < moved
        {
            memory.write(self.slot(0), 8, to);
        }
        memory.write(self.at, 8, to);
    }

    fn slot(&self, index: usize) -> Loc {
        self.at.plus(WINDOW_HEADER as usize + index * RUN)
    }

    /// Returns the distance of a position from the head; 0 for a position below the head.
    fn distance(&self, head: u64, x: u64) -> u64 {
        let x = self.shape.fit(x);
        if self.shape.less(x, head) {
            0
        } else {
            self.raw(x.wrapping_sub(head))
        }
    }

    /// Returns the position at a distance from the head.
    fn position(&self, head: u64, distance: u64) -> u64 {
        self.shape.fit(head.wrapping_add(distance))
    }

    fn raw(&self, value: u64) -> u64 {
        ScalarShape { signed: false, ..self.shape }.fit(value)
    }

    /// Returns a non-empty range as distances; `None` if no part of it is at or above the head.
    fn span(&self, memory: &RunMemory<'_>, a: u64, b: u64) -> Option<(u64, u64)> {
        let (a, b) = (self.shape.fit(a), self.shape.fit(b));
        let head = self.head(memory);
        let (from, to) = (self.distance(head, a), self.distance(head, b));
        (self.shape.less(a, b) && from < to).then_some((from, to))
    }

    /// Returns the i-th run as distances from the head.
    fn distances(&self, memory: &RunMemory<'_>, index: usize) -> (u64, u64) {
        let head = self.head(memory);
        let (from, to) = self.run(memory, index as u64).unwrap_or((head, head));
        (self.distance(head, from), self.distance(head, to))
    }

    /// Returns all runs as distances from the head.
    fn runs<'m>(&self, memory: &'m RunMemory<'_>) -> impl Iterator<Item = (u64, u64)> + 'm {
        let window = *self;
        (0..window.len(memory)).map(move |i| window.distances(memory, i))
    }

    /// Replaces `old` runs from `first` on by others. Freed slots are zeroed, so that equal windows have
    /// equal bytes.
    fn splice(&self, memory: &mut RunMemory<'_>, first: usize, old: usize, new: &[(u64, u64)]) {
        let len = self.len(memory);
        let head = self.head(memory);
        let behind = len - first - old;
        memory.copy(self.slot(first + new.len()), self.slot(first + old), behind * RUN);
        for (i, (from, to)) in new.iter().enumerate() {
            let slot = self.slot(first + i);
            memory.write(slot, 8, self.position(head, *from));
            memory.write(slot.plus(8), 8, self.position(head, *to));
        }
        let count = len - old + new.len();
        memory.zero(self.slot(count), len.saturating_sub(count) * RUN);
        memory.write(self.at.plus(8), 4, count as u64);
    }
}

#[cfg(test)]
mod tests;
