//! What did not happen as written.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::span;

/// How many lines of what happened are shown with a failure.
const SHOWN: usize = 30;
/// How much of a line is shown, characters.
const WIDEST: usize = 160;

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A step that did not happen as written, or cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where it is written.
    pub place: Place,
    /// When it showed, from the start.
    pub at: Duration,
    /// What was expected; empty where what is written makes no sense.
    pub expected: String,
    /// What happened instead, or what is wrong.
    pub happened: String,
    /// What differs, and where in the program it comes from, a line each; or a hint.
    pub notes: Vec<String>,
}

/// What came of a file.
#[derive(Clone, Debug)]
pub struct Report {
    /// What failed first; nothing: the file passed.
    pub failure: Option<Failure>,
    /// The file's line that failed.
    pub source: String,
    /// What happened, as steps: a file itself.
    pub happened: Vec<String>,
}

impl Report {
    /// Whether the file passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// What failed, for people; `name` is the file's. Empty when it passed.
    #[must_use]
    pub fn explain(&self, name: &str) -> String {
        let Some(failure) = &self.failure else {
            return String::new();
        };
        let mut text = failure.explain(name, &self.source);
        if !self.happened.is_empty() {
            text.push_str("\n  until then:");
            let skipped = self.happened.len().saturating_sub(SHOWN);
            if skipped > 0 {
                text.push_str(&format!("\n    ({skipped} lines before)"));
            }
            for line in self.happened.iter().skip(skipped) {
                text.push_str(&format!("\n    {line}"));
            }
        }
        text
    }
}

impl Failure {
    /// The failure for people: the file, the place, the line with a mark, and what differs.
    #[must_use]
    pub fn explain(&self, name: &str, source: &str) -> String {
        let line: String = source
            .chars()
            .take(WIDEST)
            .map(|c| if c == '\t' { ' ' } else { c })
            .collect();
        let number = self.place.line.to_string();
        let gutter = " ".repeat(number.len());
        let before = " ".repeat((self.place.column as usize).saturating_sub(1).min(WIDEST));
        let mut text = format!("{name}:{}: ", self.place);
        if self.expected.is_empty() {
            text.push_str(&self.happened);
        } else {
            text.push_str(&format!("at {}", span::show(self.at)));
        }
        text.push_str(&format!(
            "\n  {number} | {}\n  {gutter} | {before}^",
            line.trim_end()
        ));
        let mut indent = "  ".to_owned();
        if !self.expected.is_empty() {
            text.push_str(&format!(
                "\n  expected: {}\n  happened: {}",
                self.expected, self.happened
            ));
            indent = " ".repeat(12);
        }
        for note in &self.notes {
            text.push_str(&format!("\n{indent}{note}"));
        }
        text
    }
}
