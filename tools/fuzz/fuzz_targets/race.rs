//! Arbitrary events to a race, with a cache beside it: one end and no more, every attempt won, failed
//! or cancelled, nothing less secure than asked for started, memory bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| hawser_race::hostile::race(data));
