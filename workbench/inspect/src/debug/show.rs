//! Stops and views as text.

use std::fmt;

use crate::trace::TraceValue;
use hawser_syntax::OneLine;

use crate::debug::stop::{Reason, RunOutcome, Stop, StopPosition, ValueChange};
use crate::debug::view::{Flying, HostView, Scope, SourceLine, Variables};

/// Formats a point in time like a trace.
fn seconds(at_ns: u64) -> String {
    TraceValue::Time(at_ns).to_string()
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Reason::Entry | Reason::Step => {}
            Reason::Breakpoint => {
                let numbers: Vec<String> = self.breakpoints.iter().map(u32::to_string).collect();
                writeln!(f, "breakpoint {}", numbers.join(", "))?;
            }
            Reason::Assert => writeln!(f, "an assertion failed")?,
            Reason::Beginning => writeln!(f, "the beginning of the run")?,
            Reason::Pause => writeln!(f, "paused")?,
            Reason::End => {}
        }
        for problem in &self.problems {
            writeln!(f, "{}", OneLine(problem))?;
        }
        match (&self.place, &self.end) {
            (Some(place), _) => write!(f, "{place}")?,
            (None, Some(end)) => write!(f, "{end}")?,
            (None, None) => f.write_str("the run is over")?,
        }
        for changed in &self.changed {
            write!(f, "\n    {changed}")?;
        }
        Ok(())
    }
}

impl fmt::Display for StopPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "#{} {} {} {} {}",
            self.event,
            seconds(self.at_ns),
            OneLine(&self.host),
            self.source,
            self.name
        )?;
        for (name, value) in self.fields.iter().filter(|(_, value)| !value.is_zero()) {
            write!(f, " {name}={value}")?;
        }
        if let Some(context) = &self.context {
            write!(f, "  on {context}")?;
        }
        let (Some(line), number) = (&self.line, self.statement + 1) else {
            return f.write_str("\n  no statement runs");
        };
        let count = self.statements;
        match &self.function {
            Some(function) => write!(
                f,
                "\n  {}:{} in {function}, statement {number} of {count}",
                OneLine(&line.file),
                line.line
            ),
            None => write!(
                f,
                "\n  {}:{}, after the last of {count} statements",
                OneLine(&line.file),
                line.line
            ),
        }
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.ok { "kept" } else { "broke" };
        write!(
            f,
            "the run is over: {} events in {}, it {verdict} its promise",
            self.events,
            seconds(self.at_ns)
        )?;
        self.failures
            .iter()
            .try_for_each(|failure| write!(f, "\n  {}", OneLine(failure)))
    }
}

impl fmt::Display for ValueChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.field, &self.old, &self.new) {
            (Some(field), Some(old), Some(new)) => {
                write!(
                    f,
                    "{} {}.{field}: {old} -> {new}",
                    OneLine(&self.host),
                    self.context.context
                )
            }
            _ => write!(f, "{} {} {}", OneLine(&self.host), self.change, self.context),
        }
    }
}

/// Writes fields as text, without those that are zero, false or empty.
fn fields(f: &mut fmt::Formatter<'_>, variables: &Variables) -> fmt::Result {
    let mut set = variables.iter().filter(|(_, value)| !value.is_zero());
    set.try_for_each(|(name, value)| write!(f, "\n    {name} {value}"))
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        fields(f, &self.variables)
    }
}

impl fmt::Display for HostView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", OneLine(&self.host))?;
        for view in &self.contexts {
            let sign = if view.is_current { '>' } else { ' ' };
            write!(f, "\n {sign} {}", view.context)?;
            fields(f, &view.fields)?;
        }
        Ok(())
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_current { '>' } else { ' ' };
        write!(f, "{sign}{:>5}  {}", self.line, self.text)
    }
}

impl fmt::Display for Flying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "packet {} of {}, sent at {}: {}",
            self.number,
            OneLine(&self.from),
            seconds(self.sent_at_ns),
            self.summary
        )
    }
}
