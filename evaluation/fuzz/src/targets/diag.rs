//! Arbitrary bytes as an answer of INET_DIAG: the parsed values come from within the input, and are
//! consistent.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_linux::hostile::answer(data);
}
