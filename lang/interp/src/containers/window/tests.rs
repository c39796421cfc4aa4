//! Compares the window with a plain set of positions, over random operations.

use std::collections::BTreeSet;

use super::*;
use crate::memory::Region;

const RUNS: u32 = 4;

/// The model: positions by their distance from the start of the test.
#[derive(Default, Clone)]
struct Model {
    head: u64,
    set: BTreeSet<u64>,
}

impl Model {
    fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for x in &self.set {
            match runs.last_mut() {
                Some((_, to)) if to == x => *to += 1,
                _ => runs.push((*x, x + 1)),
            }
        }
        runs
    }

    /// Applies a change to a copy, and keeps the copy if it has no more runs than the window can hold.
    fn attempt(&mut self, change: impl FnOnce(&mut Model)) -> bool {
        let mut changed = self.clone();
        change(&mut changed);
        let fits = changed.runs().len() <= RUNS as usize;
        if fits {
            *self = changed;
        }
        fits
    }
}

fn check(elem: Ty, origin: u64, span: u64) {
    let shape = ScalarShape::from_type(&elem);
    let at = |distance: u64| shape.fit(origin.wrapping_add(distance));
    let mut bytes = vec![0u8; (WINDOW_HEADER + 16 * RUNS) as usize];
    let ty = Ty::Window { runs: RUNS, elem: Box::new(elem) };
    let mut memory = RunMemory { scratch: &mut bytes, ..RunMemory::default() };
    let window = Window::new(Loc::start(Region::Scratch), &ty).unwrap();
    let mut model = Model::default();
    let mut rng = fastrand::Rng::with_seed(origin);
    window.slide(&mut memory, at(0));

    for round in 0..3000 {
        let a = model.head + rng.u64(..span);
        let b = a + rng.u64(..6);
        match rng.u64(..8) {
            0..=4 => {
                let expected = model.attempt(|m| m.set.extend(a..b));
                assert_eq!(
                    window.set(&mut memory, at(a), at(b)),
                    expected,
                    "round {round}: set {a}..{b}"
                );
            }
            5 | 6 => {
                let expected = model.attempt(|m| m.set.retain(|x| *x < a || *x >= b));
                assert_eq!(
                    window.unset(&mut memory, at(a), at(b)),
                    expected,
                    "round {round}: unset {a}..{b}"
                );
            }
            _ => {
                let to = model.head + rng.u64(..8);
                model.head = to;
                model.set.retain(|x| *x >= to);
                window.slide(&mut memory, at(to));
                // A move backwards has no effect.
                if to > 0 && !(at(to) == 0 && model.set.is_empty()) {
                    window.slide(&mut memory, at(to - 1));
                }
            }
        }
        let x = model.head + rng.u64(..span);
        let runs: Vec<_> = (0..RUNS.into()).map_while(|i| window.run(&memory, i)).collect();
        let expected: Vec<_> = model
            .runs()
            .iter()
            .map(|(from, to)| (at(*from), at(*to)))
            .collect();
        assert_eq!(runs, expected, "round {round}");
        assert_eq!(window.head(&memory), at(model.head), "round {round}");
        assert_eq!(
            window.is_set(&memory, at(x)),
            model.set.contains(&x),
            "round {round}: {x}"
        );
        let end = model.set.last().map_or(model.head, |last| last + 1);
        let first_set = model.set.range(x..).next().copied().unwrap_or(end);
        assert_eq!(
            window.first_set(&memory, at(x)),
            at(first_set),
            "round {round}: from {x}"
        );
        let first_unset = (x..).find(|x| !model.set.contains(x)).unwrap();
        assert_eq!(
            window.first_unset(&memory, at(x)),
            at(first_unset),
            "round {round}: from {x}"
        );
    }
}

#[test]
fn windows_agree_with_a_model_at_plain_positions() {
    check(Ty::uint(64), 0, 40);
    check(Ty::uint(64), 1 << 40, 40);
}

/// Circular positions wrap many times: 3000 rounds of 8 bits.
#[test]
fn windows_agree_with_a_model_at_circular_positions() {
    check(Ty::Seq { bits: 8 }, 250, 40);
    check(Ty::Seq { bits: 32 }, 0xffff_ffe0, 40);
    check(Ty::Seq { bits: 24 }, 0x90_0000, 40);
}

#[test]
fn setting_a_run_beyond_the_capacity_is_rejected() {
    let mut bytes = vec![0u8; (WINDOW_HEADER + 32) as usize];
    let ty = Ty::Window { runs: 2, elem: Box::new(Ty::uint(64)) };
    let mut memory = RunMemory { scratch: &mut bytes, ..RunMemory::default() };
    let window = Window::new(Loc::start(Region::Scratch), &ty).unwrap();
    assert!(window.set(&mut memory, 10, 20) && window.set(&mut memory, 30, 40));
    let before = memory.scratch.to_vec();
    assert!(!window.set(&mut memory, 50, 60));
    assert!(!window.unset(&mut memory, 12, 13));
    assert_eq!(memory.scratch, before);
    // A range that adjoins both runs needs no third one.
    assert!(window.set(&mut memory, 20, 30));
    assert_eq!((window.len(&memory), window.run(&memory, 0)), (1, Some((10, 40))));
    assert!(window.unset(&mut memory, 12, 13));
    assert_eq!(window.len(&memory), 2);
    // An empty range, or one below the head, is no change.
    window.slide(&mut memory, 20);
    assert!(window.set(&mut memory, 5, 5) && window.set(&mut memory, 0, 19));
    assert_eq!((window.len(&memory), window.run(&memory, 0)), (1, Some((20, 40))));
}
