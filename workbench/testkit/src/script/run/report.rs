//! The result of a script.

use std::fmt::Write as _;
use std::time::Duration;

use crate::script::syntax::ScriptPosition;

/// The outcome of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// All events happened as written.
    Passed,
    /// An event did not happen as written.
    Failed(ScriptFailure),
    /// The script uses a feature that the runner does not support.
    Unsupported(ScriptFailure),
    /// The script cannot be parsed, or is inconsistent.
    Unreadable(ScriptFailure),
}

/// An event that did not happen as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptFailure {
    /// The event's place in the script.
    pub place: ScriptPosition,
    /// The time when the failure was detected, from the start.
    pub at: Duration,
    /// The expected behaviour.
    pub expected: String,
    /// The actual behaviour.
    pub got: String,
}

/// The report of a script's run.
#[derive(Clone, Debug)]
pub struct ScriptReport {
    /// The outcome.
    pub verdict: ScriptOutcome,
    /// Settings that have no effect.
    pub notes: Vec<String>,
    /// The script's output.
    pub printed: Vec<String>,
    /// All packets, one line for each.
    pub trace: Vec<String>,
    /// The number of packets that the program's chains have handled in the kernel.
    pub in_kernel: u64,
    /// The script's failed line; empty if it passed.
    pub source: String,
}

impl ScriptReport {
    /// Creates the report of a script that has not run.
    pub(super) fn new(verdict: ScriptOutcome) -> ScriptReport {
        ScriptReport {
            verdict,
            notes: Vec::new(),
            printed: Vec::new(),
            trace: Vec::new(),
            in_kernel: 0,
            source: String::new(),
        }
    }

    /// Returns whether the script passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.verdict == ScriptOutcome::Passed
    }

    /// Returns the failure, if there is one.
    #[must_use]
    pub fn failure(&self) -> Option<&ScriptFailure> {
        match &self.verdict {
            ScriptOutcome::Passed => None,
            ScriptOutcome::Failed(failure)
            | ScriptOutcome::Unsupported(failure)
            | ScriptOutcome::Unreadable(failure) => Some(failure),
        }
    }

    /// Returns the verdict in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.verdict {
            ScriptOutcome::Passed => "ok",
            ScriptOutcome::Failed(_) => "failed",
            ScriptOutcome::Unsupported(_) => "unsupported",
            ScriptOutcome::Unreadable(_) => "unreadable",
        }
    }

    /// Returns a readable report of a script that did not pass. `name` is the script's.
    #[must_use]
    pub fn explain(&self, name: &str) -> String {
        let Some(failure) = self.failure() else {
            return String::new();
        };
        let mut text = format!("{name}:{}: ", failure.place);
        let _ = match self.verdict {
            ScriptOutcome::Unreadable(_) | ScriptOutcome::Unsupported(_) => {
                write!(text, "{}{}", failure.got, self.pointed(failure.place))
            }
            ScriptOutcome::Passed | ScriptOutcome::Failed(_) => {
                write!(
                    text,
                    "at {}{}\n  expected: {}\n  happened: {}",
                    seconds(failure.at),
                    self.pointed(failure.place),
                    failure.expected,
                    failure.got
                )
            }
        };
        if !self.trace.is_empty() && matches!(self.verdict, ScriptOutcome::Failed(_)) {
            text.push_str("\n  packets:");
            let skipped = self.trace.len().saturating_sub(SHOWN);
            if skipped > 0 {
                let _ = write!(text, "\n    ({skipped} before)");
            }
            for line in self.trace.iter().skip(skipped) {
                let _ = write!(text, "\n    {line}");
            }
        }
        text
    }
}

impl ScriptReport {
    /// Returns the script's line, with a caret below the place.
    fn pointed(&self, place: ScriptPosition) -> String {
        if self.source.trim().is_empty() {
            return String::new();
        }
        let line: String = self
            .source
            .chars()
            .take(WIDEST)
            .map(|c| if c == '\t' { ' ' } else { c })
            .collect();
        let number = place.line.to_string();
        let before = usize::try_from(place.column)
            .unwrap_or(1)
            .saturating_sub(1)
            .min(WIDEST);
        let gutter = " ".repeat(number.len());
        format!(
            "\n  {number} | {}\n  {gutter} | {}^",
            line.trim_end(),
            " ".repeat(before)
        )
    }
}

/// The maximum length of a shown line, in characters.
const WIDEST: usize = 160;
/// The maximum number of shown packets.
const SHOWN: usize = 40;

/// Formats a time from the start, as scripts write it.
pub(crate) fn seconds(span: Duration) -> String {
    format!("{}.{:06}", span.as_secs(), span.subsec_micros())
}
