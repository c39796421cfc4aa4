//! Arbitrary bytes as policies, nodes of the CIB and a request: reading and ranking end, without a panic
//! and within their limits; reasons change no ranking, and what was ranked can be read again.

use hawser_policy::hostile::documents;

pub(crate) fn fuzz(data: &[u8]) {
    documents(data);
}
