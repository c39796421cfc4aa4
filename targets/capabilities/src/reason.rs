//! Why something is so, and the places in a program that make it so.

use hawser_ir::Span;

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A sentence about the construct.
    pub text: String,
    /// Where the construct stands, in order; nowhere for what has no place of its own.
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
