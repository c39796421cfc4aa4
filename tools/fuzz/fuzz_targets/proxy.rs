//! Arbitrary bytes as what a client says to the proxy, by SOCKS5 and by HTTP: what is made of them is
//! bounded and consistent, and nothing that is for the proxy alone is left to be forwarded.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    hawser_proxy::hostile::socks(data);
    hawser_proxy::hostile::http(data);
});
