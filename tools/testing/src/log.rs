//! Records the events that are logged while a test runs.

use std::fmt::{Debug, Write};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default, set_global_default};
use tracing::{Event, Metadata, Subscriber};

/// A recorder of logged events, at all levels.
pub struct Log {
    lines: Lines,
    /// The number of events that were logged before this recorder began.
    earlier: usize,
    _guard: Option<DefaultGuard>,
}

impl Log {
    /// Records the events of the calling thread until the recorder is dropped.
    #[must_use]
    pub fn start() -> Log {
        let lines = Lines::default();
        Log { _guard: Some(set_default(lines.clone())), earlier: 0, lines }
    }

    /// Records the events of all threads from now on, until the process ends. It serves code that runs on
    /// threads of a runtime.
    ///
    /// # Panics
    /// The process already has another subscriber.
    #[must_use]
    pub fn of_process() -> Log {
        static LINES: OnceLock<Lines> = OnceLock::new();
        let lines = LINES.get_or_init(|| {
            let lines = Lines::default();
            set_global_default(lines.clone()).expect("the process has no other subscriber");
            lines
        });
        Log { lines: lines.clone(), earlier: lines.0.lock().len(), _guard: None }
    }

    /// Returns a text for each event so far: its level, its target, and its fields, each as `NAME=VALUE` in
    /// the format that the caller chose.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.0.lock()[self.earlier..].to_vec()
    }

    /// Fails unless the text of one event contains all of these parts.
    ///
    /// # Panics
    /// No event contains them; the message lists all events.
    pub fn expect(&self, parts: &[&str]) {
        let lines = self.lines();
        let is_meant = |line: &String| parts.iter().all(|part| line.contains(part));
        assert!(lines.iter().any(is_meant), "no {parts:?} in {lines:#?}");
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

/// The text of one event.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("a text takes everything");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let about = event.metadata();
        let mut line = Line(format!("{} {}", about.level(), about.target()));
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
