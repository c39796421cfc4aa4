//! Arbitrary events break no promise of the race; the fuzz target `race` does the same for longer.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

#[test]
fn arbitrary_events_are_survived() {
    for seed in 0..20_000u64 {
        let bytes: Vec<u8> = (0..seed % 400)
            .map(|index| {
                let mut hasher = SipHasher13::new_with_keys(seed, index);
                hasher.write_u64(index);
                hasher.finish() as u8
            })
            .collect();
        let result = std::panic::catch_unwind(|| hawser_race::hostile::race(&bytes));
        assert!(result.is_ok(), "seed {seed}");
    }
}
