//! Arbitrary events to a race, with a cache beside it. A race ends once, and every attempt is won, failed or
//! cancelled. No candidate starts that is less secure than requested, and memory is bounded.

#[path = "../../../../select/race/tests/hostile/model.rs"]
mod model;

pub(crate) fn fuzz(data: &[u8]) {
    model::race(data);
}
