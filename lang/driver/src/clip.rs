//! Diagnostics of long lines. The output for each is bounded, regardless of the length of its line.

use std::fmt::Write as _;

use hawser_syntax::{Diagnostic, OneLine, Printable, Severity, SourceMap, Span};

/// The maximum length in bytes of a line that is shown whole.
const MAX_LINE: usize = 240;
/// The maximum number of characters that are shown before a place, and from its beginning on.
const BEFORE: usize = 40;
const BEHIND: usize = 80;

/// True if a diagnostic points at a line that is too long to be shown whole.
pub(crate) fn has_long_line(diagnostic: &Diagnostic, sources: &SourceMap) -> bool {
    let related = diagnostic.related.iter().map(|(span, _)| *span);
    let mut spans = related.chain([diagnostic.span]);
    spans.any(|span| {
        let [before, behind] = around(span, sources);
        before.len() + behind.len() > MAX_LINE || line_behind(span.end, span, sources).len() > MAX_LINE
    })
}

/// Renders the diagnostic with an excerpt around each of its places.
pub(crate) fn excerpt(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let severity = match diagnostic.severity {
        Severity::Error => "Error",
        Severity::Warning => "Warning",
    };
    let mut out = format!(
        "[{}] {severity}: {}\n",
        diagnostic.code,
        OneLine(&diagnostic.message)
    );
    let mut show = |span: Span, label: &str| {
        let (line, column) = sources.line_column(span.file, span.start);
        let path = OneLine(&sources.file(span.file).path);
        let [before, behind] = around(span, sources);
        let skipped = before.chars().count().saturating_sub(BEFORE);
        let before: String = before.chars().skip(skipped).collect();
        let shown: String = behind.chars().take(BEHIND).collect();
        let first = if skipped > 0 { "…" } else { "" };
        let last = if shown.len() < behind.len() { "…" } else { "" };
        let text = OneLine(format!("{first}{before}{shown}{last}")).to_string();
        let indent = OneLine(format!("{first}{before}")).to_string().chars().count();
        let marks = sources
            .text(span)
            .chars()
            .take(BEHIND)
            .take_while(|c| *c != '\n')
            .count()
            .max(1);
        // Writing to memory never fails.
        _ = writeln!(out, "   ╭─[ {path}:{line}:{column} ]\n   │ {text}");
        _ = writeln!(
            out,
            "   │ {}{} {}",
            " ".repeat(indent),
            "─".repeat(marks),
            Printable(label)
        );
    };
    let label = match diagnostic.label.as_str() {
        "" => &diagnostic.message,
        label => label,
    };
    show(diagnostic.span, label);
    for (span, text) in &diagnostic.related {
        show(*span, text);
    }
    if let Some(hint) = &diagnostic.hint {
        _ = writeln!(out, "   │ Help: {}", Printable(&hint.text));
    }
    out + "───╯\n"
}

/// Splits the line in which a span begins: the text before the span, and the text from its beginning on.
fn around(span: Span, sources: &SourceMap) -> [&str; 2] {
    let text = sources.file(span.file).text.as_str();
    let (before, _) = text.split_at(boundary(text, span.start));
    let before = before
        .rfind(['\n', '\r'])
        .map_or(before, |end| &before[end + 1..]);
    [before, line_behind(span.start, span, sources)]
}

/// Returns the last character boundary at or before a byte.
fn boundary(text: &str, byte: u32) -> usize {
    let last = text.len().min(byte as usize);
    (0..=last)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or_default()
}

/// Returns the text from a byte to the end of its line.
fn line_behind(byte: u32, span: Span, sources: &SourceMap) -> &str {
    let text = sources.file(span.file).text.as_str();
    let (_, behind) = text.split_at(boundary(text, byte));
    behind.split(['\n', '\r']).next().unwrap_or(behind)
}
