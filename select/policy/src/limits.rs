//! Limits on memory and work, for arbitrary documents.
//!
//! Products of alternatives, paths through a graph and policies that multiply candidates grow exponentially
//! in the length of a document. Each has a limit here; beyond it, there is an error.

/// The largest document, in bytes.
pub const DOCUMENT_BYTES: usize = 1 << 20;
/// The largest number of levels of lists and tables in a document.
pub const DEPTH: usize = 16;
/// The largest name of a property, in bytes.
pub const NAME_BYTES: usize = 128;
/// The largest total number of names of properties.
pub const NAMES: usize = 16_384;
/// The largest text, in bytes.
pub const TEXT_BYTES: usize = 1_024;
/// The largest number of values of a set, and of banned values.
pub const SET: usize = 256;
/// The largest number of properties of an object.
pub const OBJECT: usize = 256;
/// The largest number of alternatives to which one policy, node or request expands.
pub const ALTERNATIVES: usize = 256;
/// The largest number of properties of all alternatives of one policy, node or request.
pub const EXPANDED: usize = 8_192;
/// The largest number of entries of a node's `match`.
pub const MATCHES: usize = 64;
/// The largest number of policies, and of profiles.
pub const POLICIES: usize = 1_024;
/// The largest number of nodes of the CIB.
pub const NODES: usize = 1_024;
/// The largest number of properties of all policies, of all nodes, of all rows, and of all candidates in
/// progress.
pub const PROPERTIES: usize = 262_144;
/// The largest number of rows of the CIB.
pub const ROWS: usize = 4_096;
/// The largest number of nodes of a path through the CIB.
pub const PATH: usize = 32;
/// The largest number of candidates in progress.
pub const CANDIDATES: usize = 4_096;
/// The largest number of comparisons of one ranking, and of computing the CIB's rows.
pub const COMPARISONS: usize = 16_000_000;
/// The largest number of diagnostics of one document.
pub const DIAGNOSTICS: usize = 64;
/// The largest number of rejections that an explanation lists.
pub const REJECTIONS: usize = 1_024;

/// A limit was exceeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are more than {limit} {what}{}", if place.is_empty() { String::new() } else { format!(" ({place})") })]
pub struct Limit {
    /// The items that are limited.
    pub what: &'static str,
    /// The largest permitted number.
    pub limit: usize,
    /// The policy or node at which the limit was exceeded; empty if there is no particular one.
    pub place: String,
}

impl Limit {
    pub(crate) fn new(what: &'static str, limit: usize, place: impl Into<String>) -> Self {
        Self { what, limit, place: place.into() }
    }
}

/// The number of comparisons that may still be made.
#[derive(Clone, Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(COMPARISONS)
    }

    /// Takes this many comparisons from the budget.
    pub(crate) fn spend(&mut self, comparisons: usize, place: &str) -> Result<(), Limit> {
        match self.0.checked_sub(comparisons) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(Limit::new("comparisons", COMPARISONS, place)),
        }
    }
}
