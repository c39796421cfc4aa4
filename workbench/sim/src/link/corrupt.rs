//! Flips one bit, anywhere in the IP packet.
//!
//! An Internet checksum always detects a single flipped bit, so a transport that has one must never deliver
//! such a frame. Checksums that the sender left to its device are completed first, and the receiver has to
//! verify the frame.

use hawser_time::Instant;

use super::{Profile, Rule, Verdict};
use crate::frame::Frame;
use crate::rng::Rng;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Corrupt {
    share: f64,
    changed: u64,
}

impl Rule for Corrupt {
    fn name(&self) -> &'static str {
        "corrupt"
    }

    fn apply(&mut self, _now: Instant, frame: &mut Frame, rng: &mut Rng) -> Verdict {
        if rng.chance(self.share) {
            self.changed += 1;
            frame.complete();
            frame.flatten();
            flip(frame, rng);
        }
        Verdict::Pass
    }

    fn is_inert(&self) -> bool {
        self.share <= 0.0
    }

    fn tune(&mut self, profile: &Profile) {
        self.share = profile.corrupt;
    }

    fn changed(&self) -> u64 {
        self.changed
    }
}

fn flip(frame: &mut Frame, rng: &mut Rng) {
    let Some(packet) = frame.head.get_mut(usize::from(frame.link_header)..) else {
        return;
    };
    let bit = rng.below(packet.len() as u64 * 8) as usize;
    if let Some(byte) = packet.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use hawser_engine::wire::Csum;

    use super::*;
    use crate::frame::samples::ipv4;

    #[test]
    fn corruption_flips_one_bit_of_the_completed_packet() {
        let mut rule = Corrupt::default();
        rule.tune(&Profile { corrupt: 1.0, ..Profile::default() });
        let mut rng = Rng::new(3, "corrupt");
        let mut positions = std::collections::BTreeSet::new();
        for _ in 0..6000 {
            let mut clean = ipv4(17, b"payload");
            let mut frame = clean.clone();
            assert_eq!(rule.apply(Instant::ORIGIN, &mut frame, &mut rng), Verdict::Pass);
            clean.complete();
            clean.flatten();
            let flipped: Vec<usize> = (0..clean.head.len() * 8)
                .filter(|bit| (clean.head[bit / 8] ^ frame.head[bit / 8]) >> (bit % 8) & 1 == 1)
                .collect();
            assert_eq!(flipped.len(), 1);
            assert_eq!(frame.standing(), Csum::Unverified);
            positions.insert(flipped[0]);
        }
        assert_eq!(positions.len(), 35 * 8, "every bit has its turn");
        assert_eq!(rule.changed(), 6000);
    }
}
