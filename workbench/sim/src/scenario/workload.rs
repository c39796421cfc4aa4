//! Files that describe messages: a distribution of their sizes, or a trace.
//!
//! Both consist of lines of fields separated by blanks; a `#` begins a comment. A line of a distribution has
//! a message size in bytes and the share of all messages that are no longer. Both rise from line to line, and
//! the last share is 1. A line of a trace has the time since the flow's start, the calling host, the called
//! host, and the bytes. Its lines are in the order of time.

use std::time::Duration;

use super::ScenarioError;
use super::units::{DataSize, Share, TimeSpan};
use crate::scenario::rng::Rng;

/// The maximum number of lines of a file.
const LINES_MAX: usize = 10_000_000;

/// A distribution of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Message sizes in bytes, each with the share of messages that are no longer; both rise.
    steps: Vec<(u64, f64)>,
}

/// A message of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The due time, from the flow's start.
    pub at: Duration,
    /// The host that sends the message.
    pub from: String,
    /// The host to which the message goes.
    pub to: String,
    /// The size of the message, in bytes.
    pub bytes: u64,
}

/// The fault of a file.
struct WorkloadFault {
    /// The line, or `None` if the fault concerns the whole file.
    line: Option<usize>,
    message: String,
    hint: &'static str,
}

impl WorkloadFault {
    /// Returns the error for the key that names the file.
    fn at(self, path: &str, file: &str) -> ScenarioError {
        let line = self
            .line
            .map_or_else(String::new, |line| format!(", line {line}"));
        ScenarioError::new(path, format!("{file}{line}: {}", self.message)).with_hint(self.hint)
    }
}

const STEP: &str =
    "a line is the bytes of a message and the share of all messages that are no longer: 1500 0.25";
const MESSAGE: &str = "a line is a time, two hosts and an amount: 1.5ms h0 h3 20kB";

/// Returns the lines of a file that have content, with their numbers and fields.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().filter_map(|(number, line)| {
        let content = line.split('#').next().unwrap_or_default();
        let fields: Vec<&str> = content.split_whitespace().collect();
        (!fields.is_empty()).then_some((number + 1, fields))
    })
}

impl Distribution {
    /// Reads a distribution; `path` is the key that names the file.
    ///
    /// # Errors
    /// Returns the line, and its fault.
    pub fn parse(text: &str, path: &str, file: &str) -> Result<Distribution, ScenarioError> {
        let mut steps = Vec::new();
        let error = |line, message: String| WorkloadFault { line, message, hint: STEP }.at(path, file);
        let wrong = |line, message| error(Some(line), message);
        for (line, fields) in lines(text) {
            let &[bytes, share] = &fields[..] else {
                return Err(wrong(
                    line,
                    format!("the line has {} fields instead of two", fields.len()),
                ));
            };
            let bytes: u64 = bytes
                .parse()
                .map_err(|_| wrong(line, format!("`{bytes}` is not a number of bytes")))?;
            let share: f64 = share
                .parse()
                .map_err(|_| wrong(line, format!("`{share}` is not a share")))?;
            if !(0.0..=1.0).contains(&share) {
                return Err(wrong(line, format!("a share of {share} is not between 0 and 1")));
            }
            let (before, share_before) = steps.last().copied().unwrap_or((0, 0.0));
            if bytes <= before || share < share_before {
                return Err(wrong(
                    line,
                    format!("{bytes} {share} follows {before} {share_before}, but both must rise"),
                ));
            }
            if steps.len() == LINES_MAX {
                return Err(wrong(line, format!("more than {LINES_MAX} lines")));
            }
            steps.push((bytes, share));
        }
        match steps.last() {
            Some((_, share)) if (share - 1.0).abs() < 1e-9 => Ok(Distribution { steps }),
            Some((_, share)) => {
                let line = text.lines().count();
                Err(wrong(line, format!("the last share is {share}, not 1")))
            }
            None => Err(error(None, "no line has a size".to_owned())),
        }
    }

    /// Draws a size from the distribution.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let share = rng.fraction();
        let step = self.steps.partition_point(|(_, upto)| *upto <= share);
        self.steps[step.min(self.steps.len() - 1)].0
    }

    /// Returns the mean size of messages, where those above `limit` count as `limit`.
    #[must_use]
    pub fn mean(&self, limit: u64) -> f64 {
        let before = [0.0]
            .into_iter()
            .chain(self.steps.iter().map(|(_, share)| *share));
        let steps = self.steps.iter().zip(before);
        steps
            .map(|((bytes, share), before)| (share - before) * *bytes.min(&limit) as f64)
            .sum()
    }

    /// Returns the largest size, in bytes.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.steps.last().map_or(0, |(bytes, _)| *bytes)
    }
}

/// Reads a trace; `path` is the key that names the file.
///
/// # Errors
/// Returns the line, and its fault.
pub fn parse_trace(text: &str, path: &str, file: &str) -> Result<Vec<Traced>, ScenarioError> {
    let mut all: Vec<Traced> = Vec::new();
    let error = |line, message: String| WorkloadFault { line, message, hint: MESSAGE }.at(path, file);
    let wrong = |line, message| error(Some(line), message);
    for (line, fields) in lines(text) {
        let &[at, from, to, bytes] = &fields[..] else {
            return Err(wrong(
                line,
                format!("the line has {} fields instead of four", fields.len()),
            ));
        };
        let at: Duration = match at {
            "0" => Duration::ZERO,
            _ => at
                .parse::<TimeSpan>()
                .map_err(|_| wrong(line, format!("`{at}` is not a time span")))?
                .into(),
        };
        let whole = bytes.parse().map(DataSize).or_else(|_| bytes.parse::<DataSize>());
        let size = whole.map_err(|_| wrong(line, format!("`{bytes}` is not an amount of data")))?;
        if size.0 == 0 {
            return Err(wrong(line, "a message has at least one byte".to_owned()));
        }
        if all.last().is_some_and(|last| last.at > at) {
            return Err(wrong(
                line,
                "the message is due before that of the previous line".to_owned(),
            ));
        }
        if all.len() == LINES_MAX {
            return Err(wrong(line, format!("more than {LINES_MAX} lines")));
        }
        all.push(Traced { at, from: from.to_owned(), to: to.to_owned(), bytes: size.0 });
    }
    if all.is_empty() {
        return Err(error(None, "no line has a message".to_owned()));
    }
    Ok(all)
}

/// Returns the average time from one message of a host to its next if they use `share` of a line's rate.
pub(crate) fn interval(mean: f64, share: Share, bits_per_second: u64) -> Duration {
    Duration::try_from_secs_f64(mean * 8.0 / (bits_per_second as f64 * share.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(text: &str) -> Result<Distribution, String> {
        Distribution::parse(text, "flow[0].calls.size_file", "x.cdf").map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_have_the_shares_of_their_steps() {
        let sizes = distribution("# a comment\n10 0.2\n\n100 0.9 # most\n1000 1\n").expect("it is one");
        let rng = &mut Rng::new(1, "sizes");
        let drawn: Vec<u64> = (0..100_000).map(|_| sizes.draw(rng)).collect();
        for (size, share) in [(10, 0.2), (100, 0.7), (1000, 0.1)] {
            let count = drawn.iter().filter(|drawn| **drawn == size).count() as f64 / 100_000.0;
            // The bound is five standard deviations of the share among this many draws.
            assert!(
                (count - share).abs() < 5.0 * (share * (1.0 - share) / 1e5).sqrt(),
                "{size}: {count}"
            );
        }
        assert!((sizes.mean(u64::MAX) - (2.0 + 70.0 + 100.0)).abs() < 1e-9);
        assert!(
            (sizes.mean(200) - (2.0 + 70.0 + 20.0)).abs() < 1e-9,
            "cut to 200 bytes"
        );
    }

    #[test]
    fn a_bad_file_is_an_error_with_its_line() {
        let hint = format!("\n  hint: {STEP}");
        let error = |text: &str| {
            let error = distribution(text).expect_err(text);
            let error = error.strip_suffix(&hint).map(str::to_owned).unwrap_or_default();
            error
                .trim_start_matches("`flow[0].calls.size_file`: x.cdf")
                .trim_start_matches(", ")
                .to_owned()
        };
        assert_eq!(
            error("10 0.5\n20\n"),
            "line 2: the line has 1 fields instead of two"
        );
        assert_eq!(error("ten 0.5"), "line 1: `ten` is not a number of bytes");
        assert_eq!(error("10 half"), "line 1: `half` is not a share");
        assert_eq!(error("10 1.5"), "line 1: a share of 1.5 is not between 0 and 1");
        assert_eq!(error("10 NaN"), "line 1: a share of NaN is not between 0 and 1");
        assert_eq!(
            error("10 0.5\n10 1"),
            "line 2: 10 1 follows 10 0.5, but both must rise"
        );
        assert_eq!(error("0 1"), "line 1: 0 1 follows 0 0, but both must rise");
        assert_eq!(error("10 0.5\n"), "line 1: the last share is 0.5, not 1");
        assert_eq!(error("# nothing\n"), ": no line has a size");
        assert_eq!(error(""), ": no line has a size");
    }

    #[test]
    fn a_trace_is_read_and_its_faults_have_lines() {
        let trace = |text: &str| {
            parse_trace(text, "flow[0].calls.trace", "x.trace").map_err(|error| error.to_string())
        };
        let read = trace("0 a b 10\n1.5us a c 20kB # the second\n").expect("a trace");
        assert_eq!(
            (read.len(), read[1].at, read[1].bytes),
            (2, Duration::from_nanos(1500), 20_000)
        );
        let error = |text: &str| {
            let error = trace(text).expect_err(text);
            let first = error.lines().next().unwrap_or_default();
            first
                .trim_start_matches("`flow[0].calls.trace`: x.trace")
                .trim_start_matches(", ")
                .to_owned()
        };
        assert_eq!(error("0 a b"), "line 1: the line has 3 fields instead of four");
        assert_eq!(error("soon a b 1"), "line 1: `soon` is not a time span");
        assert_eq!(error("0 a b much"), "line 1: `much` is not an amount of data");
        assert_eq!(error("0 a b 0"), "line 1: a message has at least one byte");
        assert_eq!(
            error("2us a b 1\n1us a b 1"),
            "line 2: the message is due before that of the previous line"
        );
        assert_eq!(error(""), ": no line has a message");
    }

    #[test]
    fn a_load_is_a_share_of_the_line() {
        // 1,000 bytes each 10 us are 800 Mbit/s: 80 % of 1 Gbit/s.
        assert_eq!(
            interval(1000.0, Share(0.8), 1_000_000_000),
            Duration::from_micros(10)
        );
    }

    /// The interval exceeds 64 bits of seconds.
    #[test]
    fn a_tiny_load_has_the_longest_interval() {
        assert_eq!(interval(1000.0, Share(1e-300), 1_000_000_000), Duration::MAX);
    }
}
