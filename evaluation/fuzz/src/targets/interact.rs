//! Arbitrary bytes as lines of a subscriber at the socket of the interactive layer, executed on a bus with a
//! provider. No input causes a panic, and every answer has a known form. Settable values stay within their
//! bounds, and a subscriber that has left leaves no state.

use hawser_socket::hostile::lines;

pub(crate) fn fuzz(data: &[u8]) {
    lines(data);
}
