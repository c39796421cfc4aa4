//! Arbitrary events to a race, with a cache beside it: one end and no more, every attempt won, failed
//! or cancelled, nothing less secure than asked for started, memory bounded.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_race::hostile::race(data);
}
