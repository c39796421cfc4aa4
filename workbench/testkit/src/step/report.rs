//! Reports of deviations from the steps.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::step::span;

/// The maximum number of log lines that are shown with a failure.
const SHOWN: usize = 30;
/// The maximum length of a shown line, in characters.
const WIDEST: usize = 160;

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepPosition {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for StepPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A step that did not happen as written, or cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFailure {
    /// The place of the step.
    pub place: StepPosition,
    /// The time of detection, from the start.
    pub at: Duration,
    /// The expected behaviour; empty if the step is invalid.
    pub expected: String,
    /// The actual behaviour, or the fault in the step.
    pub happened: String,
    /// The differences and their origins in the program, one on each line; or a hint.
    pub notes: Vec<String>,
}

/// The result of a file.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// The first failure; absent if the file passed.
    pub failure: Option<StepFailure>,
    /// The file's line that failed.
    pub source: String,
    /// The log as steps, which form a file themselves.
    pub happened: Vec<String>,
}

impl StepReport {
    /// Returns whether the file passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns a readable description of the failure; `name` is the file's. It is empty if the file passed.
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

impl StepFailure {
    /// Returns a readable description of the failure: the file, the place, the line with a mark, and the
    /// differences.
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
