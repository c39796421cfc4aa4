//! What is said when the debugger stands still.

use hawser_trace::{Context, Line, Value};
use serde::Serialize;

/// Why it stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The run is about to begin.
    Entry,
    /// It was asked to go there.
    Step,
    /// A breakpoint is here.
    Breakpoint,
    /// An assertion is false here.
    Assert,
    /// Going backwards, nothing was before.
    Beginning,
    /// The run is over.
    End,
    /// Whoever uses it wanted a pause.
    Pause,
}

/// Where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// The number of the event in the run: the first is 1.
    pub event: u64,
    /// The statement that is about to run, by its place among those that the event runs; after the last: their
    /// number.
    pub statement: usize,
    /// How many statements the event runs.
    pub statements: usize,
    /// When, in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// The host.
    pub host: String,
    /// The event's name in the program.
    pub name: String,
    /// What caused it: `packet`, `request`, `timer`, `start` or `raise`.
    pub source: &'static str,
    /// Its fields.
    pub fields: Vec<(String, Value)>,
    /// The context that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// The function that runs. Absent after the last statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The line that is about to run; after the last statement, that one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
}

/// Something that is different from the last stop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The host that has the context.
    pub host: String,
    /// The context.
    #[serde(flatten)]
    pub context: Context,
    /// What changed: `field`, `created` or `ended`.
    pub change: &'static str,
    /// The field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Its value at the last stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Its value now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct End {
    /// Whether it kept its promise.
    pub ok: bool,
    /// What is wrong.
    pub failures: Vec<String>,
    /// How many events there were.
    pub events: u64,
    /// When it ended, in nanoseconds since its start.
    pub at_ns: u64,
}

/// A stop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stop {
    /// Why.
    pub reason: Reason,
    /// The breakpoints that are here, by their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breakpoints: Vec<u32>,
    /// What is wrong with their conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Where; absent when the run is over.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// How the run ended, when it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// What is different from the last stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Changed>,
}
