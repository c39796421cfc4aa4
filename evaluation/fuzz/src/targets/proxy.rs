//! Arbitrary bytes as a client's input to the proxy, by SOCKS5 and by HTTP. The results are bounded and
//! consistent, and headers for the proxy alone are not forwarded.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_proxy::hostile::socks(data);
    hawser_proxy::hostile::http(data);
}
