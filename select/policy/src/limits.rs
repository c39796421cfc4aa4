//! What bounds memory and work, whatever documents say.
//!
//! Products of alternatives, paths through a graph and policies that multiply candidates grow
//! exponentially in the length of a document. Each has a limit here, and at it an error.

/// Bytes of a document.
pub const DOCUMENT_BYTES: usize = 1 << 20;
/// Levels of lists and tables in a document.
pub const DEPTH: usize = 16;
/// Bytes of a property's name.
pub const NAME_BYTES: usize = 128;
/// Names of properties at all.
pub const NAMES: usize = 16_384;
/// Bytes of a text.
pub const TEXT_BYTES: usize = 1_024;
/// Values of a set, and values that are banned.
pub const SET: usize = 256;
/// Properties of an object.
pub const OBJECT: usize = 256;
/// Alternatives that one policy, node or request expands to.
pub const ALTERNATIVES: usize = 256;
/// Properties of all alternatives of one policy, node or request.
pub const EXPANDED: usize = 8_192;
/// Entries of a node's `match`.
pub const MATCHES: usize = 64;
/// Policies and profiles, each.
pub const POLICIES: usize = 1_024;
/// Nodes of the CIB.
pub const NODES: usize = 1_024;
/// Properties of all policies, of all nodes, of all rows, of all candidates under way.
pub const PROPERTIES: usize = 262_144;
/// Rows of the CIB.
pub const ROWS: usize = 4_096;
/// Nodes of a path through the CIB.
pub const PATH: usize = 32;
/// Candidates under way.
pub const CANDIDATES: usize = 4_096;
/// Comparisons of one ranking, and of making the CIB's rows.
pub const COMPARISONS: usize = 16_000_000;
/// Diagnostic of one document.
pub const DIAGNOSTICS: usize = 64;
/// Rejections that an explanation lists.
pub const REJECTIONS: usize = 1_024;

/// A limit that was met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} {what}{}", if place.is_empty() { String::new() } else { format!(" ({place})") })]
pub struct Limit {
    /// Of what.
    pub what: &'static str,
    /// How many there may be.
    pub limit: usize,
    /// Where it was met: a policy, a node; empty when that is nothing certain.
    pub place: String,
}

impl Limit {
    pub(crate) fn new(what: &'static str, limit: usize, place: impl Into<String>) -> Self {
        Self { what, limit, place: place.into() }
    }
}

/// Comparisons that may still be made.
#[derive(Clone, Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(COMPARISONS)
    }

    /// Takes so many.
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
