//! A queue ordered by time: a hierarchical timing wheel (Varghese and Lauck, "Hashed and hierarchical timing
//! wheels", SOSP 1987, scheme 7).
//!
//! Times are numbers with digits of six bits. An entry's level is the highest digit in which its time differs
//! from the present. Its place on that level is the value of that digit. When the levels below have no
//! entries left, the present advances to the earliest time in the first occupied place. All entries of that
//! place then move down. An entry therefore moves at most once for each digit, regardless of the number of
//! entries. A place is emptied downwards before entries can be added below it. Entries of the same time
//! therefore keep the order in which they were added.

use std::collections::VecDeque;

use hawser_time::Instant;

/// The number of bits in a digit.
const DIGIT: u32 = 6;
const PLACES: usize = 1 << DIGIT;
/// The number of digits in a time.
const LEVELS: usize = 64_usize.div_ceil(DIGIT as usize);

/// Entries in the order of their times; entries of the same time are in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    now: u64,
    due: VecDeque<T>,
    /// The levels, the lowest first.
    levels: [Level<T>; LEVELS],
}

#[derive(Debug)]
struct Level<T> {
    /// One bit for each place that has entries.
    occupied: u64,
    places: [Vec<(u64, T)>; PLACES],
}

impl<T> Wheel<T> {
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

    /// Adds an entry. An entry whose time has passed is due at the time of the entry that was taken last.
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

    /// Takes the first entry, unless it is due after `until`. Callers of `add` decide how late an
    /// entry may be.
    pub(crate) fn take(&mut self, until: Instant) -> Option<(Instant, T)> {
        let until = until.as_nanos();
        loop {
            if self.now > until {
                return None;
            }
            if let Some(entry) = self.due.pop_front() {
                return Some((Instant::from_nanos(self.now), entry));
            }
            // All entries of a level are due before those of the next level.
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
            // The buffer is kept for later entries.
            self.levels[number].places[place] = entries;
        }
    }

    /// Returns true if the wheel has no entries.
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

    /// Compares the wheel with a heap ordered by time and by the order of adding.
    #[test]
    fn entries_come_in_the_order_of_time_and_of_adding() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed, "wheel");
            let (mut wheel, mut heap) = (Wheel::new(), BinaryHeap::new());
            let (mut now, mut number) = (0u64, 0u64);
            for _ in 0..5_000 {
                for _ in 0..rng.below(4) {
                    // Times of every magnitude, often equal, and sometimes the present or the largest time.
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
                    // The clock now shows `until`, as in a world whose time is up.
                    None => now = until,
                }
                assert_eq!(wheel.is_empty(), heap.is_empty());
            }
        }
    }

    #[test]
    fn late_entries_fire_with_those_due() {
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
