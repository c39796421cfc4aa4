//! Recordings of a running process, as lines: `hawser watch --json` prints them, `--record` keeps them and
//! `--replay` reads them.
//!
//! Each line is a JSON object with `at`, the time in nanoseconds since the recording began, and one received
//! message. The first line is the header. This module does no I/O. The content of a file is checked as it is
//! read. Unknown members are ignored, so that later versions may add some.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The schema that the first line of a recording names.
pub const SCHEMA: &str = "hawser-watch/1";
/// The maximum length of a line that is read, in bytes.
pub const MAX_LINE: usize = 4 << 20;

/// A line of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordLine {
    /// The time of receipt, in nanoseconds since the recording began.
    pub at: u64,
    /// The content of the line.
    #[serde(flatten)]
    pub what: LineContent,
}

/// The content of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineContent {
    /// The origin of the recording; the first line.
    Header(Header),
    /// The available events and variables, whenever they change.
    Offers(Vec<SourceSchema>),
    /// The present flows, whenever they change.
    Flows(Vec<FlowRecord>),
    /// Variables of a flow, as read.
    Sample(Sample),
    /// An event.
    Signal(Signal),
    /// Entries of the log of modifications that are new or changed.
    Audit(Vec<Modification>),
    /// The counts of the events that were subscribed to.
    Statistics(Counts),
}

/// The origin of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The schema, [`SCHEMA`].
    pub schema: String,
    /// The id of the process that was watched.
    pub process: u64,
    /// The start of the recording, in milliseconds since 1970-01-01 UTC.
    pub began: u64,
    /// The pattern of the events that were subscribed to.
    pub pattern: String,
    /// The interval of the time filter, in nanoseconds, of which only the last event was delivered for each
    /// flow; 0 stands for all events.
    pub interval: u64,
}

/// The events and variables of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSchema {
    /// The source's number, with which the names of its flows begin.
    pub source: u64,
    /// The name of the provider: `tcp`.
    pub provider: String,
    /// The events that the source offers.
    pub events: Vec<EventSchema>,
    /// The variables that the source offers.
    pub variables: Vec<Named>,
}

/// A type of event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSchema {
    /// Its whole name.
    pub name: String,
    /// The fields that come with it.
    pub fields: Vec<Named>,
}

/// A variable, or a field of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name; for a variable, the whole name.
    pub name: String,
    /// `number`, `bool`, `duration`, `time`, `enum`.
    pub kind: String,
    /// The names of an enum's numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Label>,
}

impl Named {
    /// Returns the name of one of an enum's numbers.
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
    /// The number that is named.
    pub value: u64,
    /// The name of the number.
    pub name: String,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Its name: source and number.
    pub flow: String,
    /// The name of its provider.
    pub provider: String,
    /// The kind of flow: `conn`, `listener`.
    pub kind: String,
    /// The local address.
    #[serde(default)]
    pub local: Option<String>,
    /// The address of the peer.
    #[serde(default)]
    pub remote: Option<String>,
    /// A note of the provider, such as an interface.
    #[serde(default)]
    pub label: String,
}

impl FlowRecord {
    /// Returns the number of its source.
    #[must_use]
    pub fn source(&self) -> Option<u64> {
        self.flow.split_once(':')?.0.parse().ok()
    }
}

/// Variables of a flow, all read at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The name of the flow.
    pub flow: String,
    /// The time, by the provider's clock, in nanoseconds.
    pub time: u64,
    /// The values, by the variables' whole names.
    pub values: BTreeMap<String, u64>,
}

/// An occurrence of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Its whole name.
    pub event: String,
    /// The flow of the event.
    pub flow: String,
    /// The time, by the provider's clock, in nanoseconds.
    pub time: u64,
    /// The values of the event's fields, by name.
    #[serde(default)]
    pub fields: BTreeMap<String, u64>,
    /// The number of signals before it that found the queue full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

impl Signal {
    /// Returns the last part of its name: `acked` of `kernel.tcp.acked`.
    #[must_use]
    pub fn short(&self) -> &str {
        last_part(&self.event)
    }
}

/// An entry of the log of modifications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modification {
    /// The time of the first occurrence, by the provider's clock, in nanoseconds.
    pub first: u64,
    /// The time of the last occurrence, by the provider's clock, in nanoseconds.
    pub last: u64,
    /// The number of occurrences.
    pub count: u64,
    /// The name of the subscriber.
    pub who: String,
    /// The flow of the variable.
    pub flow: String,
    /// The whole name of the variable.
    pub variable: String,
    /// `set`, `refused`, `expired`, `released`, `holder_gone`, `panicked`, `lost`, `attached`, `detached`.
    pub act: String,
    /// The value that was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The reason for a refusal, or the message of a panic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The beginning of the SHA-256 of an attached text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The counts of a subscription's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Events that match the subscription.
    pub events: u64,
    /// Events that passed the filters.
    pub passed: u64,
    /// Events that found the queue full.
    pub lost: u64,
    /// Events that could not be kept until the end of their interval.
    #[serde(default)]
    pub crowded: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Returns the last part of a name.
pub(super) fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The reasons for which a text is not a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A line is not JSON, or does not have the form of a recording's line.
    #[error(transparent)]
    Syntax(#[from] hawser_documents::Fault),
    /// The text is a recording of another version, or of another kind.
    #[error("the recording has the schema `{0}`, expected `{SCHEMA}`")]
    Schema(String),
    /// The first line is not a header.
    #[error("the file is not a recording: it does not begin with a header of `{SCHEMA}`")]
    NoHeader,
}

/// Reads a line.
///
/// # Errors
/// The fault of the line.
pub fn parse(text: &str) -> Result<RecordLine, RecordError> {
    Ok(hawser_documents::json(text)?)
}

/// Reads the first line.
///
/// # Errors
/// When the line does not begin a recording, or begins one of another version.
pub fn parse_header(text: &str) -> Result<Header, RecordError> {
    match parse(text) {
        Ok(RecordLine { what: LineContent::Header(header), .. }) if header.schema == SCHEMA => Ok(header),
        Ok(RecordLine { what: LineContent::Header(header), .. }) => Err(RecordError::Schema(header.schema)),
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
        let LineContent::Signal(signal) = &line.what else {
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
