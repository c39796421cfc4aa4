//! Arbitrary bytes as an answer of INET_DIAG: what is read of them was there, and makes sense.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_linux::hostile::answer(data);
}
