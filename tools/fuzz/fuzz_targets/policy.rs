//! Arbitrary bytes as policies, nodes of the CIB and a request: reading and ranking end, without a panic
//! and within their limits; reasons change no ranking, and what was ranked can be read again.

#![no_main]

use hawser_policy::hostile::documents;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| documents(data));
