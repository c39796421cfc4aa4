//! Arbitrary bytes as a name server's answer with service records, and as a host's name: the results are
//! bounded, ordered and consistent.

pub(crate) fn fuzz(data: &[u8]) {
    hawser_race::resolve::hostile::answer(data);
}
