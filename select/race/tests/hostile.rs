//! Arbitrary events do not break the invariants of the race. The fuzz target `race` runs the same check for
//! longer.

mod model;

#[test]
fn arbitrary_events_are_survived() {
    for seed in 0..20_000u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let bytes: Vec<u8> = (0..seed % 400).map(|_| rng.u8(..)).collect();
        let result = std::panic::catch_unwind(|| model::race(&bytes));
        assert!(result.is_ok(), "seed {seed}");
    }
}
