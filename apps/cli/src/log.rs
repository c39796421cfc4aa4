//! Logs on standard error, as selected by `RUST_LOG`. Without it, Hawser's own warnings and errors are
//! logged.
//!
//! Each event is one line, whatever it contains: control sequences are shown as escapes, as in all output of
//! the command.

use std::io::{self, Write};

use hawser::lang::OneLine;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::output::Stream;

/// The filter used without `RUST_LOG`.
const DEFAULT: &str = "hawser=warn";

/// The format of a line of the log.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// Time, level, source, message and fields
    Text,
    /// The same as an object of JSON
    Json,
}

/// Starts logging in this format.
pub(crate) fn start(format: Format) {
    let default = DEFAULT.parse().expect("a directive");
    let filter = EnvFilter::builder()
        .with_default_directive(default)
        .from_env_lossy();
    tracing::subscriber::set_global_default(subscriber(format, filter, || Lines(Stream::Error)))
        .expect("logging was not started before");
}

fn subscriber(
    format: Format,
    filter: EnvFilter,
    to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> Box<dyn tracing::Subscriber + Send + Sync> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(to);
    match format {
        Format::Text => Box::new(builder.finish()),
        Format::Json => Box::new(builder.json().finish()),
    }
}

/// A writer that turns each event, which arrives in one piece, into one line.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        // The line is one write, so that a full queue drops it as a whole.
        let line = format!("{}\n", OneLine(text.trim_end_matches('\n')));
        self.0.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A hostile peer name that clears the screen and forges a log line.
    const HOSTILE: &str = "peer\u{1b}[2J\n1970-01-01T00:00:00Z  INFO hawser: all is well";

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, filter: &str) -> String {
        let memory = Memory::default();
        let lines = memory.clone();
        let subscriber = subscriber(format, EnvFilter::new(filter), move || Lines(lines.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "hawser_sockets", name = HOSTILE, "{HOSTILE}");
            tracing::debug!(target: "hawser_sockets", "a detail");
            tracing::warn!(target: "quinn", "another's");
        });
        let text = memory.0.lock().clone();
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn text_of_a_peer_is_escaped_and_stays_on_one_line() {
        let text = logged(Format::Text, DEFAULT);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(r"[2J\u000a1970"), "{text}");
        let controls = text.trim_end_matches('\n').chars().filter(|c| c.is_control());
        assert_eq!(controls.count(), 0, "{text}");
    }

    #[test]
    fn json_lines_hold_the_text_of_a_peer_unchanged() {
        let text = logged(Format::Json, DEFAULT);
        let line: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["target"], "hawser_sockets");
        assert_eq!(line["fields"]["name"], HOSTILE);
        assert_eq!(line["fields"]["message"], HOSTILE);
    }

    #[test]
    fn the_default_filter_logs_only_own_warnings() {
        assert!(!logged(Format::Text, DEFAULT).contains("a detail"));
        assert!(logged(Format::Text, "debug").contains("a detail"));
        assert!(!logged(Format::Text, DEFAULT).contains("another's"));
    }
}
