//! What is due when: a hierarchical timing wheel (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987,
//! scheme 7).
//!
//! An entry lies on the level that the highest digit of its time names in which that differs from the present, digits
//! being of six bits; its place there is that digit. When no entry is left on the levels below, the present becomes the
//! time of the first entry of the first place, and all of that place move down. So an entry moves once for each digit at
//! most, however many there are; those of one time keep the order in which they were added, because a place is emptied
//! downwards before anything can be added below it.

use std::collections::VecDeque;

use hawser_time::Instant;

/// Bits of a digit.
const DIGIT: u32 = 6;
const PLACES: usize = 1 << DIGIT;
/// Digits of a time.
const LEVELS: usize = 64_usize.div_ceil(DIGIT as usize);

/// Entries in the order of their times, and of one time in that in which they were added.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    now: u64,
    /// What is due now.
    due: VecDeque<T>,
    /// The lowest first.
    levels: [Level<T>; LEVELS],
}

#[derive(Debug)]
struct Level<T> {
    /// A bit for each place that has entries.
    occupied: u64,
    places: [Vec<(u64, T)>; PLACES],
}

impl<T> Wheel<T> {
    /// An empty one.
    pub(crate) fn new() -> Wheel<T> {
        Wheel {
            now: 0,
            due: VecDeque::new(),
            levels: std::array::from_fn(|_| Level {
                occupied: 0,
                places: std::array::from_fn(|_| Vec::new()),
            }),
        }
    }

    /// Adds an entry. What is late is due with what is due at the time of the entry that was taken last.
    pub(crate) fn add(&mut self, at: Instant, entry: T) {
        self.put(at.as_nanos().max(self.now), entry);
    }

    fn put(&mut self, at: u64, entry: T) {
        let differs = at ^ self.now;
        if differs == 0 {
            return self.due.push_back(entry);
        }
        let number = differs.ilog2() / DIGIT;
        let place = digit(at, number);
        let level = &mut self.levels[number as usize];
        level.occupied |= 1 << place;
        level.places[place].push((at, entry));
    }

    /// Takes the first entry, unless it is due after `until`; how late it may be is up to who adds.
    pub(crate) fn take(&mut self, until: Instant) -> Option<(Instant, T)> {
        let until = until.as_nanos();
        loop {
            if self.now > until {
                return None;
            }
            if let Some(entry) = self.due.pop_front() {
                return Some((Instant::from_nanos(self.now), entry));
            }
            // All of a level are due before any of the next one.
            let number = (0..LEVELS).find(|number| self.levels[*number].occupied != 0)?;
            let level = &mut self.levels[number];
            let place = level.occupied.trailing_zeros() as usize;
            let first = level.places[place].iter().map(|(at, _)| *at).min()?;
            if first > until {
                return None;
            }
            self.now = first;
            level.occupied &= !(1 << place);
            let mut entries = std::mem::take(&mut level.places[place]);
            entries.drain(..).for_each(|(at, entry)| self.put(at, entry));
            // Its memory is for those that come.
            self.levels[number].places[place] = entries;
        }
    }

    /// Whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.levels.iter().all(|level| level.occupied == 0)
    }
}

fn digit(at: u64, number: u32) -> usize {
    (at >> (number * DIGIT)) as usize & (PLACES - 1)
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::rng::Rng;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// The same as a heap ordered by time and by number in the order of adding.
    #[test]
    fn entries_come_in_the_order_of_time_and_of_adding() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "wheel");
            let (mut wheel, mut heap) = (Wheel::new(), BinaryHeap::new());
            let (mut now, mut number) = (0u64, 0u64);
            for _ in 0..5_000 {
                for _ in 0..rng.below(4) {
                    // Of every magnitude, often alike, and sometimes none or the last that there is.
                    let magnitude = rng.below(70);
                    let time = match magnitude {
                        64.. => now,
                        bits => now.saturating_add(rng.bits() >> (63 - bits) & !(rng.below(2) * 7)),
                    };
                    wheel.add(at(time), number);
                    heap.push(Reverse((time, number)));
                    number += 1;
                }
                let until = now.saturating_add(rng.bits() >> rng.below(64));
                let expected = heap.peek().copied().filter(|Reverse((time, _))| *time <= until);
                let expected = expected.map(|Reverse((time, number))| (at(time), number));
                assert_eq!(wheel.take(at(until)), expected, "seed {seed}, until {until}");
                match expected {
                    Some((time, _)) => {
                        heap.pop();
                        now = time.as_nanos();
                    }
                    // The clock shows `until` now, as that of a world whose time is up.
                    None => now = until,
                }
                assert_eq!(wheel.is_empty(), heap.is_empty());
            }
        }
    }

    #[test]
    fn what_is_late_comes_with_what_is_due() {
        let mut wheel = Wheel::new();
        wheel.add(at(100), 'a');
        wheel.add(at(100), 'b');
        assert_eq!(wheel.take(at(99)), None);
        assert_eq!(wheel.take(at(100)), Some((at(100), 'a')));
        wheel.add(at(5), 'c');
        assert_eq!(wheel.take(at(100)), Some((at(100), 'b')));
        assert_eq!(wheel.take(at(100)), Some((at(100), 'c')));
        assert!(wheel.is_empty());
    }
}
