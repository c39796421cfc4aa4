//! The description of a stop.

use crate::trace::{Context, ProgramLine, TraceValue};
use serde::Serialize;

/// The reason for a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The run is about to begin.
    Entry,
    /// A move has reached its destination.
    Step,
    /// A breakpoint is at this place.
    Breakpoint,
    /// An assertion is false here.
    Assert,
    /// A move backwards has reached the beginning.
    Beginning,
    /// The run is over.
    End,
    /// The user asked for a pause.
    Pause,
}

/// The debugger's position.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StopPosition {
    /// The number of the event in the run, from 1.
    pub event: u64,
    /// The index of the statement that is about to run, among those of the event; after the last, their
    /// number.
    pub statement: usize,
    /// The number of statements that the event runs.
    pub statements: usize,
    /// The time in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// The name of the host.
    pub host: String,
    /// The event's name in the program.
    pub name: String,
    /// The cause of the event: `packet`, `request`, `timer`, `start` or `raise`.
    pub source: &'static str,
    /// The event's fields.
    pub fields: Vec<(String, TraceValue)>,
    /// The context of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// The active function; absent after the last statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The line that is about to run; after the last statement, that statement's line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<ProgramLine>,
}

/// A change since the last stop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueChange {
    /// The host that has the context.
    pub host: String,
    /// The context with the change.
    #[serde(flatten)]
    pub context: Context,
    /// The kind of change: `field`, `created` or `ended`.
    pub change: &'static str,
    /// The name of a changed field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The field's value at the last stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<TraceValue>,
    /// The field's value now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<TraceValue>,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutcome {
    /// True if the run met its expectations.
    pub ok: bool,
    /// The failures.
    pub failures: Vec<String>,
    /// The number of events.
    pub events: u64,
    /// The time of the end, in nanoseconds since the start.
    pub at_ns: u64,
}

/// A stop, as it is reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stop {
    /// The reason for the stop.
    pub reason: Reason,
    /// The numbers of the breakpoints at this place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breakpoints: Vec<u32>,
    /// The faults in their conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The position; absent when the run is over.
    #[serde(flatten)]
    pub place: Option<StopPosition>,
    /// The outcome of the run, when it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<RunOutcome>,
    /// The changes since the last stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ValueChange>,
}
