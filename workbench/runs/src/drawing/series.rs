//! Points over time, bounded.

use serde::{Serialize, Serializer};

/// The maximum number of points of a series, which exceeds the width of a screen.
const MAX: usize = 4_000;

/// Times and values, in order of time. If there are too many, only the lowest and the highest of every four
/// neighbours remain, so that extremes are never lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    points: Vec<(u64, u64)>,
    /// The number of omitted points.
    thinned: u64,
}

impl Series {
    /// Adds a point. Of several points at one time, the last remains.
    pub(crate) fn push(&mut self, at: u64, value: u64) {
        match self.points.last_mut() {
            Some(last) if last.0 == at => last.1 = value,
            _ => self.points.push((at, value)),
        }
        if self.points.len() >= MAX {
            self.thin();
        }
    }

    /// Returns the points as times and values.
    #[must_use]
    pub fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    pub(crate) fn thinned(&self) -> u64 {
        self.thinned
    }

    fn thin(&mut self) {
        let before = self.points.len();
        let kept = self.points.chunks(4).flat_map(|four| {
            let lowest = four.iter().enumerate().min_by_key(|(_, point)| point.1);
            let highest = four.iter().enumerate().max_by_key(|(_, point)| point.1);
            let (low, high) = (lowest.map_or(0, |(i, _)| i), highest.map_or(0, |(i, _)| i));
            let mut pair = vec![four[low.min(high)]];
            if low != high {
                pair.push(four[low.max(high)]);
            }
            pair
        });
        self.points = kept.collect();
        self.thinned += (before - self.points.len()) as u64;
    }
}

impl Serialize for Series {
    /// Serialises the points as a flat list: time, value, time, value.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.points.iter().flat_map(|(at, value)| [at, value]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_bounded_and_keeps_its_extremes() {
        let mut series = Series::default();
        for at in 0..1_000_000_u64 {
            let value = match at {
                123_456 => 5_000,
                777_777 => 1,
                _ => 100 + at % 7,
            };
            series.push(at, value);
        }
        assert!(series.points().len() < MAX);
        assert!(series.points().contains(&(123_456, 5_000)));
        assert!(series.points().contains(&(777_777, 1)));
        assert!(series.points().is_sorted());
        assert_eq!(series.points().len() as u64 + series.thinned(), 1_000_000);
    }
}
