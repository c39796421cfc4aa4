//! Arbitrary bytes as a gateway's greeting and request, and as its rules and clients: nothing panics,
//! nothing is waited for that is there, what was decoded survives encoding, and no rule that is wider
//! than loopback admits it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| hawser_gateway::hostile::messages(data));
