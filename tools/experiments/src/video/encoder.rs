//! An encoder: how many bytes the next frame has at a target rate.

use std::time::Duration;

/// Frames in a second.
pub(super) const FRAMES: u64 = 25;
/// Frames in a group of pictures: an I frame, then P frames.
const GROUP: u64 = 25;
/// How many P frames an I frame is as large as.
const INTRA: u64 = 4;
/// From frame to frame.
pub(super) const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / FRAMES);

/// Bytes of frame `number`, the first being 0, at `rate` bit/s. A whole group at one rate has a
/// second's worth of it.
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
    fn a_group_has_its_rate() {
        let bytes: u64 = (0..GROUP).map(|number| frame(number, 2_240_000)).sum();
        assert_eq!(bytes, 280_000);
        assert_eq!(
            (frame(0, 2_240_000), frame(1, 2_240_000), frame(25, 2_240_000)),
            (40_000, 10_000, 40_000)
        );
        assert_eq!(frame(3, 0), 1);
    }
}
