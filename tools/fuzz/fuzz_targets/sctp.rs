//! Arbitrary bytes as a datagram that carries SCTP: what the check accepts, a reader that goes from length
//! to length survives.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| hawser_carrier_sctp::hostile::datagram(data));
