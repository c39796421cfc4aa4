//! Diagnostics: a code, a place, a description of the problem and the expectation, and a hint.

use crate::Span;

/// The maximum length of a message, a label or a hint, in characters. They contain names from the source,
/// which may have a million characters.
const MAX_CHARACTERS: usize = 400;

/// Returns a text of bounded length; an ellipsis replaces the rest.
fn brief(text: impl Into<String>) -> String {
    let mut text = text.into();
    if let Some((at, _)) = text.char_indices().nth(MAX_CHARACTERS) {
        text.truncate(at);
        text.push('…');
    }
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program runs, but probably not as intended.
    Warning,
    /// The program cannot run.
    Error,
}

/// One diagnostic, as plain data. The crate in `lang/driver` renders it.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// A code such as `E0123`: an entry of the table behind `hawser explain`.
    pub code: &'static str,
    pub severity: Severity,
    /// The range of the source that it points at.
    pub span: Span,
    /// A description of the problem, in one sentence without a full stop.
    pub message: String,
    /// The label under the span: the text found there, or the text expected.
    pub label: String,
    /// Other relevant places, each with a label.
    pub related: Vec<(Span, String)>,
    /// A suggestion for the user.
    pub hint: Option<Hint>,
}

/// A suggestion for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// The suggestion in words.
    pub text: String,
    /// The replacement for the diagnostic's span, if it alone solves the problem.
    pub replacement: Option<String>,
}

impl Hint {
    /// Returns a hint with a replacement for the diagnostic's span.
    #[must_use]
    pub fn replacing(text: impl Into<String>, replacement: impl Into<String>) -> Hint {
        Hint { text: brief(text), replacement: Some(replacement.into()) }
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Hint {
        Hint { text: brief(text), replacement: None }
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Hint {
        text.to_owned().into()
    }
}

impl Diagnostic {
    /// Creates an error.
    #[must_use]
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            span,
            message: brief(message),
            label: String::new(),
            related: Vec::new(),
            hint: None,
        }
    }

    /// Creates a warning.
    #[must_use]
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Sets the label under the span, which states the expectation.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = brief(text);
        self
    }

    /// Adds a related place.
    #[must_use]
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.related.push((span, brief(text)));
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}
