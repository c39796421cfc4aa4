//! Reasons, with the places in a program that cause them.

use crate::Span;

/// A reason, and the places that cause it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A sentence about the construct.
    pub text: String,
    /// The places of the construct, in order; empty if it has no place.
    pub spans: Vec<Span>,
}

/// Reasons in the order in which they were found, each once with all its places.
#[derive(Debug, Default)]
pub(crate) struct Reasons(Vec<Reason>);

impl Reasons {
    pub(crate) fn add(&mut self, text: String, span: impl IntoIterator<Item = Span>) {
        let known = self.0.iter().position(|reason| reason.text == text);
        let at = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Reason { text, spans: Vec::new() });
        }
        let spans = &mut self.0[at].spans;
        spans.extend(span);
        spans.sort_unstable_by_key(|span| (span.file, span.start, span.end));
        spans.dedup();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<Reason> {
        self.0
    }
}
