//! Arbitrary bytes as an answer of INET_DIAG: what is read of them was there, and makes sense.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hawser_linux::hostile::answer(data);
});
