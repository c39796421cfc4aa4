//! Diagnostics as text for people (by ariadne) and as JSON for programs.

use std::fmt;

use ariadne::{Cache, Color, Config, IndexType, Label, Report, ReportKind, Source};
use hawser_syntax::{Diagnostic, OneLine, Printable, Severity, SourceMap, Span, masked};
use serde_json::{Value, json};

use crate::clip;

/// Renders all diagnostics with the source around them, and a last line that counts them. The result is empty
/// if there are no diagnostics. Control characters of a source are never written to the terminal; the only
/// escape sequences are colours, if they are wanted.
#[must_use]
pub fn render(diagnostics: &[Diagnostic], sources: &SourceMap, colour: bool) -> String {
    let mut files = Files::new(sources);
    let mut out = Vec::new();
    for diagnostic in diagnostics {
        if clip::has_long_line(diagnostic, sources) {
            out.extend(clip::excerpt(diagnostic, sources).bytes());
            continue;
        }
        // Writing to memory fails only if a source is missing. In that case the bare line is shown.
        if report(diagnostic, sources, colour)
            .write(&mut files, &mut out)
            .is_err()
        {
            out.extend(format!("{}: {}\n", diagnostic.code, OneLine(&diagnostic.message)).bytes());
        }
    }
    let text = String::from_utf8_lossy(&out);
    let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.chain([summary(diagnostics)]).collect()
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .count();
    let count = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let parts: Vec<String> = [
        count(errors, "error"),
        count(diagnostics.len() - errors, "warning"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("{}\n", parts.join(", "))
    }
}

type ReportSpan = (u32, std::ops::Range<usize>);

fn report(diagnostic: &Diagnostic, sources: &SourceMap, colour: bool) -> Report<'static, ReportSpan> {
    let (kind, main) = match diagnostic.severity {
        Severity::Error => (ReportKind::Error, Color::Red),
        Severity::Warning => (ReportKind::Warning, Color::Yellow),
    };
    let config = Config::default()
        .with_color(colour)
        .with_index_type(IndexType::Byte);
    let label = if diagnostic.label.is_empty() {
        diagnostic.message.as_str()
    } else {
        diagnostic.label.as_str()
    };
    // Labels are in the order of the text, with the diagnostic's own file first, so that neighbours share a
    // frame.
    let mut labels = vec![(diagnostic.span, label, main)];
    labels.extend(
        diagnostic
            .related
            .iter()
            .map(|(span, text)| (*span, text.as_str(), Color::Blue)),
    );
    labels.sort_by_key(|(span, ..)| (span.file != diagnostic.span.file, span.file, span.start));
    let label = |(order, (span, text, colour)): (usize, (Span, &str, Color))| {
        Label::new(place(span, sources))
            .with_message(Printable(text))
            .with_color(colour)
            .with_order(order as i32)
    };
    let mut report = Report::build(kind, place(diagnostic.span, sources))
        .with_config(config)
        .with_code(diagnostic.code)
        .with_message(OneLine(&diagnostic.message))
        .with_labels(labels.into_iter().enumerate().map(label));
    if let Some(hint) = &diagnostic.hint {
        report = report.with_help(Printable(&hint.text));
    }
    report.finish()
}

/// Returns the byte range of a span, moved inside the text and onto character boundaries.
fn place(span: Span, sources: &SourceMap) -> ReportSpan {
    let text = sources
        .files()
        .get(span.file as usize)
        .map_or("", |file| file.text.as_str());
    let start = boundary(text, span.start as usize);
    let end = boundary(text, span.end as usize).max(start);
    (span.file, start..end)
}

/// Returns the last character boundary at or before a byte.
fn boundary(text: &str, byte: usize) -> usize {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// The sources in the form that ariadne needs. Each is cut into lines once, on first use.
struct Files<'a> {
    sources: &'a SourceMap,
    lines: Vec<Option<Source<String>>>,
}

impl<'a> Files<'a> {
    fn new(sources: &'a SourceMap) -> Files<'a> {
        Files { sources, lines: sources.files().iter().map(|_| None).collect() }
    }
}

impl Cache<u32> for Files<'_> {
    type Storage = String;

    fn fetch(&mut self, file: &u32) -> Result<&Source<String>, impl fmt::Debug> {
        let sources = self.sources;
        let slot = self.lines.get_mut(*file as usize).ok_or("no such file")?;
        Ok::<_, &str>(slot.get_or_insert_with(|| Source::from(masked(&sources.file(*file).text))))
    }

    fn display<'b>(&self, file: &'b u32) -> Option<impl fmt::Display + 'b> {
        self.sources
            .files()
            .get(*file as usize)
            .map(|source| OneLine(source.path.clone()))
    }
}

/// Renders all diagnostics as a JSON array. Each has `code`, `severity` (`error`, `warning`), `message`,
/// `label`, `hint` (or null), its place, and `related` places with their labels. A place consists of `file`,
/// `line`, `column`, `end_line` and `end_column`, all counted from 1, with columns in characters and an
/// exclusive end.
#[must_use]
pub fn render_json(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let diagnostics: Vec<Value> = diagnostics
        .iter()
        .map(|diagnostic| to_json(diagnostic, sources))
        .collect();
    Value::Array(diagnostics).to_string()
}

fn to_json(diagnostic: &Diagnostic, sources: &SourceMap) -> Value {
    let related: Vec<Value> = diagnostic
        .related
        .iter()
        .map(|(span, text)| place_json(*span, text, sources))
        .collect();
    let mut value = place_json(diagnostic.span, &diagnostic.label, sources);
    value["code"] = json!(diagnostic.code);
    value["severity"] = json!(match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    });
    value["message"] = json!(diagnostic.message);
    value["hint"] = json!(diagnostic.hint.as_ref().map(|hint| &hint.text));
    value["related"] = json!(related);
    value
}

fn place_json(span: Span, label: &str, sources: &SourceMap) -> Value {
    let (line, column) = sources.line_column(span.file, span.start);
    let (end_line, end_column) = sources.line_column(span.file, span.end);
    json!({
        "file": sources.file(span.file).path, "label": label,
        "line": line, "column": column, "end_line": end_line, "end_column": end_column,
    })
}
