//! Arbitrary lines at the control socket: nothing panics, what is refused has a reason and a path, what is
//! known stays within its limits, and what is listed can be put again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| hawser_knowledge::hostile::lines(data));
