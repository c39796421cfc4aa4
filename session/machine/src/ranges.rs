//! Sets of offsets, kept as disjoint half-open ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of offsets. Ranges that touch are one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// First offset → offset after the last.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the lowest range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first_key_value().map(|(&start, &end)| start..end)
    }

    pub(crate) fn insert(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let (mut start, mut end) = (new.start, new.end);
        while let Some((&low, &high)) = self.ranges.range(..=end).next_back() {
            if high < start {
                break;
            }
            self.ranges.remove(&low);
            start = start.min(low);
            end = end.max(high);
        }
        self.ranges.insert(start, end);
    }

    /// Returns the number of ranges.
    pub(crate) fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Removes the offsets in `gone`.
    pub(crate) fn remove(&mut self, gone: Range<u64>) {
        if gone.is_empty() {
            return;
        }
        while let Some((&low, &high)) = self.ranges.range(..gone.end).next_back() {
            if high <= gone.start {
                break;
            }
            self.ranges.remove(&low);
            if low < gone.start {
                self.ranges.insert(low, gone.start);
            }
            if high > gone.end {
                self.ranges.insert(gone.end, high);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the set as a bit mask, one bit for each offset.
    fn bits(ranges: &Ranges) -> u64 {
        ranges.iter().flatten().fold(0, |bits, offset| bits | 1 << offset)
    }

    #[test]
    fn ranges_agree_with_a_bit_set_on_random_histories() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut roll = |below: u64| rng.u64(..below);
        for _ in 0..2_000 {
            let (mut ranges, mut model) = (Ranges::default(), 0_u64);
            for _ in 0..12 {
                let start = roll(40);
                let end = start + roll(12);
                let mask = (start..end).fold(0, |bits, offset| bits | 1 << offset);
                if roll(3) == 0 {
                    ranges.remove(start..end);
                    model &= !mask;
                } else {
                    ranges.insert(start..end);
                    model |= mask;
                }
                assert_eq!(bits(&ranges), model);
                let ranges: Vec<_> = ranges.iter().collect();
                assert!(
                    ranges.windows(2).all(|pair| pair[0].end < pair[1].start),
                    "{ranges:?}"
                );
            }
        }
    }
}
