//! What is received of a running process, as lines: what `hawser watch --json` prints, `--record` keeps and
//! `--replay` reads.
//!
//! Each line is a JSON object of `at`, nanoseconds since listening began, and one thing that was received.
//! The first has what the file is. Nothing here does I/O; what comes out of a file is judged as it is
//! read, and subscribers that are not known are passed over, so that later versions may add some.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The schema that the first line of a recording names.
pub const SCHEMA: &str = "hawser-watch/1";
/// The longest line that is read, bytes.
pub const MAX_LINE: usize = 4 << 20;

/// A line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When it was received: nanoseconds since listening began.
    pub at: u64,
    /// What the line contains.
    #[serde(flatten)]
    pub what: What,
}

/// What was received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// What the recording is of; the first line.
    Header(Header),
    /// Which events and variables there are, whenever that changes.
    Offers(Vec<Offer>),
    /// The flows that there are, whenever they change.
    Flows(Vec<Flow>),
    /// Variables of a flow, read.
    Sample(Sample),
    /// An event.
    Signal(Signal),
    /// Entries of the log of modifications that are new or changed.
    Audit(Vec<Modification>),
    /// What became of the events that were wanted.
    Statistics(Counts),
}

/// What a recording is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// The number of the process that was watched.
    pub process: u64,
    /// When listening began: milliseconds since 1970-01-01 UTC.
    pub began: u64,
    /// Which events were wanted.
    pub pattern: String,
    /// Of each event of a flow only the last in so many nanoseconds was wanted; 0: all.
    pub interval: u64,
}

/// What a source offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its number, which names of its flows begin with.
    pub source: u64,
    /// What it is: `tcp`.
    pub provider: String,
    /// Its events.
    pub events: Vec<Event>,
    /// Its variables.
    pub variables: Vec<Named>,
}

/// An event that can be signalled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its whole name.
    pub name: String,
    /// What comes with it.
    pub fields: Vec<Named>,
}

/// A variable, or a field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name, a variable's whole name.
    pub name: String,
    /// `number`, `bool`, `duration`, `time`, `enum`.
    pub kind: String,
    /// What an enum's numbers are called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Label>,
}

impl Named {
    /// What one of an enum's numbers is called.
    #[must_use]
    pub fn label(&self, value: u64) -> Option<&str> {
        self.values
            .iter()
            .find(|label| label.value == value)
            .map(|label| label.name.as_str())
    }
}

/// The name of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The number.
    pub value: u64,
    /// Its name.
    pub name: String,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Its name: source and number.
    pub flow: String,
    /// Its provider.
    pub provider: String,
    /// What sort of flow: `conn`, `listener`.
    pub kind: String,
    /// Its own address.
    #[serde(default)]
    pub local: Option<String>,
    /// Its peer's.
    #[serde(default)]
    pub remote: Option<String>,
    /// A note of the provider's, such as an interface.
    #[serde(default)]
    pub label: String,
}

impl Flow {
    /// Its source's number.
    #[must_use]
    pub fn source(&self) -> Option<u64> {
        self.flow.split_once(':')?.0.parse().ok()
    }
}

/// Variables of a flow, all read at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Of which.
    pub flow: String,
    /// When, by the provider's clock.
    pub time: u64,
    /// By whole name.
    pub values: BTreeMap<String, u64>,
}

/// An event that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Its whole name.
    pub event: String,
    /// The flow that it happened to.
    pub flow: String,
    /// When, by the provider's clock.
    pub time: u64,
    /// What came with it.
    #[serde(default)]
    pub fields: BTreeMap<String, u64>,
    /// Signals before it that found the queue full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

impl Signal {
    /// The last part of its name: `acked` of `kernel.tcp.acked`.
    #[must_use]
    pub fn short(&self) -> &str {
        last_part(&self.event)
    }
}

/// An entry of the log of modifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modification {
    /// When it happened first, by the provider's clock.
    pub first: u64,
    /// When last.
    pub last: u64,
    /// How often.
    pub count: u64,
    /// Who it was.
    pub who: String,
    /// Of which flow.
    pub flow: String,
    /// Which variable.
    pub variable: String,
    /// `set`, `refused`, `expired`, `released`, `holder_gone`, `panicked`, `lost`, `attached`, `detached`.
    pub act: String,
    /// To what it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// Why it was refused, or the text of a panic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Of a text that was attached: the beginning of its SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// That were wanted.
    pub events: u64,
    /// That passed the filters.
    pub passed: u64,
    /// That found the queue full.
    pub lost: u64,
    /// That could not be kept until their interval's end.
    #[serde(default)]
    pub crowded: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// The last part of a name.
pub(super) fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Why a text is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A line is no JSON, or has not the form of a recording's line.
    #[error(transparent)]
    Syntax(#[from] hawser_documents::Fault),
    /// It is a recording of another version, or of something else.
    #[error("a recording of `{0}`, expected `{SCHEMA}`")]
    Schema(String),
    /// The first line is no header.
    #[error("no recording: it does not begin with a header of `{SCHEMA}`")]
    NoHeader,
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Line, RecordError> {
    Ok(hawser_documents::json(text)?)
}

/// Reads the first line.
///
/// # Errors
/// That it begins no recording, or one of another version.
pub fn parse_header(text: &str) -> Result<Header, RecordError> {
    match parse(text) {
        Ok(Line { what: What::Header(header), .. }) if header.schema == SCHEMA => Ok(header),
        Ok(Line { what: What::Header(header), .. }) => Err(RecordError::Schema(header.schema)),
        _ => Err(RecordError::NoHeader),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let text = r#"{"at":5,"signal":{"event":"tcp.acked","flow":"0:1","time":9,"fields":{"bytes":7}}}"#;
        let line = parse(text).expect("a line");
        let What::Signal(signal) = &line.what else {
            panic!("no signal")
        };
        assert_eq!(
            (signal.short(), signal.fields["bytes"], signal.lost),
            ("acked", 7, 0)
        );
        assert_eq!(serde_json::to_string(&line).expect("text"), text);
        let header = r#"{"at":0,"header":{"schema":"hawser-watch/1","process":1,"began":2,"pattern":"*","interval":0,"later":1}}"#;
        assert_eq!(parse_header(header).expect("a header").began, 2);
    }

    #[test]
    fn a_file_that_is_no_recording_is_refused() {
        assert!(matches!(parse_header("{}"), Err(RecordError::NoHeader)));
        let other = r#"{"at":0,"header":{"schema":"x/2","process":1,"began":2,"pattern":"*","interval":0}}"#;
        assert!(matches!(parse_header(other), Err(RecordError::Schema(schema)) if schema == "x/2"));
        assert!(parse(r#"{"at":1,"dream":{}}"#).is_err());
    }
}
