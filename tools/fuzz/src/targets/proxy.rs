//! Arbitrary bytes as what a client says to the proxy, by SOCKS5 and by HTTP: what is made of them is
//! bounded and consistent, and nothing that is for the proxy alone is left to be forwarded.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_proxy::hostile::socks(data);
    hawser_proxy::hostile::http(data);
}
