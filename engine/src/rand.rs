//! Random bits for programs (`ev.rand`), hash keys and port numbers, all from one seed.
//!
//! xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64 as its authors advise. The same
//! seed gives the same run. It is not a cipher: what must be unpredictable to a peer (sequence
//! numbers) a program derives with `keyed_hash` from bits that nobody sees.

/// A small seeded generator.
#[derive(Clone, Debug)]
pub(crate) struct Rand {
    state: [u64; 4],
}

impl Rand {
    /// A generator whose whole course is determined by `seed`.
    pub(crate) fn new(seed: u64) -> Rand {
        let mut mixer = seed;
        Rand { state: std::array::from_fn(|_| splitmix(&mut mixer)) }
    }

    /// 64 fresh bits.
    pub(crate) fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound` (0 for 0); the bias of less than `bound / 2^64` does not matter here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of splitmix64 for seed 0, as its authors' reference program prints them.
    #[test]
    fn splitmix_reference() {
        let mut state = 0;
        assert_eq!(splitmix(&mut state), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix(&mut state), 0x6e78_9e6a_a1b9_65f4);
    }

    /// The first outputs of xoshiro256** from the state 1, 2, 3, 4 (the reference vector that
    /// implementations share).
    #[test]
    fn xoshiro_reference() {
        let mut rand = Rand { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rand.bits()).collect();
        assert_eq!(first, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn below_stays_below() {
        let mut rand = Rand::new(7);
        assert!((0..1000).all(|_| rand.below(10) < 10));
        assert_eq!(rand.below(0), 0);
    }
}
