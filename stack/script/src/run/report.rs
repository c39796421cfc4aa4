//! The result of a script.

use std::fmt::Write as _;
use std::time::Duration;

use crate::syntax::Place;

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All happened as written.
    Passed,
    /// Something did not.
    Failed(Failure),
    /// It uses something that the runner does not do.
    Unsupported(Failure),
    /// It cannot be read, or makes no sense.
    Unreadable(Failure),
}

/// What did not happen as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Where it is written.
    pub place: Place,
    /// When it showed, from the start.
    pub at: Duration,
    /// What was expected.
    pub expected: String,
    /// What happened instead.
    pub got: String,
}

/// A script's run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub verdict: Verdict,
    /// What was set and has no effect.
    pub notes: Vec<String>,
    /// What the script printed.
    pub printed: Vec<String>,
    /// All packets, a line each.
    pub trace: Vec<String>,
    /// Packets that the program's chains have handled in the kernel.
    pub in_kernel: u64,
    /// The script's line that did not pass; empty if it passed.
    pub source: String,
}

impl Report {
    /// Of a script that has not run.
    pub(super) fn of(verdict: Verdict) -> Report {
        Report {
            verdict,
            notes: Vec::new(),
            printed: Vec::new(),
            trace: Vec::new(),
            in_kernel: 0,
            source: String::new(),
        }
    }

    /// True when the script passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.verdict == Verdict::Passed
    }

    /// What failed, if anything did.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match &self.verdict {
            Verdict::Passed => None,
            Verdict::Failed(failure) | Verdict::Unsupported(failure) | Verdict::Unreadable(failure) => {
                Some(failure)
            }
        }
    }

    /// The verdict in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Passed => "ok",
            Verdict::Failed(_) => "failed",
            Verdict::Unsupported(_) => "unsupported",
            Verdict::Unreadable(_) => "unreadable",
        }
    }

    /// The report of a script that did not pass, for people: `name` is the script's.
    #[must_use]
    pub fn explain(&self, name: &str) -> String {
        let Some(failure) = self.failure() else {
            return String::new();
        };
        let mut text = format!("{name}:{}: ", failure.place);
        let _ = match self.verdict {
            Verdict::Unreadable(_) | Verdict::Unsupported(_) => {
                write!(text, "{}{}", failure.got, self.pointed(failure.place))
            }
            Verdict::Passed | Verdict::Failed(_) => {
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
        if !self.trace.is_empty() && matches!(self.verdict, Verdict::Failed(_)) {
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

impl Report {
    /// The script's line, with a caret below the place.
    fn pointed(&self, place: Place) -> String {
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

/// How much of a line is shown, characters.
const WIDEST: usize = 160;
/// How many packets are shown.
const SHOWN: usize = 40;

/// A time from the start, as scripts write it.
pub(crate) fn seconds(span: Duration) -> String {
    format!("{}.{:06}", span.as_secs(), span.subsec_micros())
}
