//! Arbitrary bytes as lines of a subscriber at the socket of the interactive layer, done on a bus with a
//! provider: nothing panics, every answer has a form that there is, what may be set stays within its
//! bounds, and nothing is left of who has gone.

use hawser_socket::hostile::lines;

pub(crate) fn fuzz(data: &[u8]) {
    lines(data);
}
