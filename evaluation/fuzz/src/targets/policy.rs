//! Arbitrary bytes as policies, nodes of the CIB and a request. Parsing and ranking end, without a panic and
//! within their limits. Recording reasons does not change a ranking, and a ranking can be parsed again.

use hawser_policy::hostile::documents;

pub(crate) fn fuzz(data: &[u8]) {
    documents(data);
}
