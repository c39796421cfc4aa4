//! Diagnostics: a code, a place, what was found and expected, and what to do about it.

use crate::Span;

/// The maximum length in characters of a message, a label or a hint. Names in them come from the source, which may
/// have a name of a million characters.
const MAX_CHARACTERS: usize = 400;

/// A text of bounded length; an ellipsis stands for the rest.
fn brief(text: impl Into<String>) -> String {
    let mut text = text.into();
    if let Some((at, _)) = text.char_indices().nth(MAX_CHARACTERS) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program runs, but is probably not what was meant.
    Warning,
    /// The program cannot run.
    Error,
}

/// One diagnostic. Rendered by `lang/driver`; this is the plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// `E0123`: an entry of the table behind `hawser explain`.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The bytes of the source that it points at.
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What stands at the span, or was expected there: the label under it.
    pub label: String,
    /// Other places that matter, each with a label.
    pub related: Vec<(Span, String)>,
    /// What to do about it.
    pub hint: Option<Hint>,
}

/// What to do about a diagnostic.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// In words.
    pub text: String,
    /// What to write in place of the diagnostic's span, where that alone does it.
    pub replacement: Option<String>,
}

impl Hint {
    /// A hint that is followed by writing this in place of the diagnostic's span.
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
    /// An error.
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

    /// A warning.
    #[must_use]
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// With the label under the span: what was expected.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = brief(text);
        self
    }

    /// With another place.
    #[must_use]
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.related.push((span, brief(text)));
        self
    }

    /// With what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}
