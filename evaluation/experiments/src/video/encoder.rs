//! A model of an encoder: the size of the next frame at a target rate.

use std::time::Duration;

/// The number of frames per second.
pub(super) const FRAMES: u64 = 25;
/// The number of frames in a group of pictures: an I frame, then P frames.
const GROUP: u64 = 25;
/// The size of an I frame, in P frames.
const INTRA: u64 = 4;
/// The time between two frames.
pub(super) const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / FRAMES);

/// Returns the bytes of frame `number`, counted from 0, at `rate` bit/s. A whole group at one rate has the
/// bytes of one second.
pub(super) fn frame(number: u64, rate: u64) -> u64 {
    let parts = INTRA + GROUP - 1;
    let group = rate / 8 * GROUP / FRAMES;
    let weight = if number.is_multiple_of(GROUP) { INTRA } else { 1 };
    (group * weight / parts).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_frames_has_the_target_rate() {
        let bytes: u64 = (0..GROUP).map(|number| frame(number, 2_240_000)).sum();
        assert_eq!(bytes, 280_000);
        assert_eq!(
            (frame(0, 2_240_000), frame(1, 2_240_000), frame(25, 2_240_000)),
            (40_000, 10_000, 40_000)
        );
        assert_eq!(frame(3, 0), 1);
    }
}
