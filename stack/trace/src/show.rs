//! An event as text: a line for the event, then a line for each thing that came of it, with its place in the
//! source at the end.

use std::fmt;

use crate::event::{Context, Count, Event, Processor};
use crate::name::Name;
use crate::packet::{Decoded, Sent};
use crate::source::Line;
use crate::value::Value;

/// The column that places in the source begin in.
const PLACES: usize = 88;

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at_ns as f64 / 1e9;
        write!(f, "{seconds:>14.9} {} {} {}", self.host, self.source, self.event)?;
        fields(f, &self.fields)?;
        if let Some(flow) = self.flow {
            write!(f, "  flow {flow}")?;
        }
        if let Some(context) = &self.context {
            write!(f, "  on {context}")?;
        }
        if let Some(packet) = &self.packet {
            line(f, &format!("received {packet}"), &Line::default())?;
        }
        if !self.processors.is_empty() {
            processors(f, &self.processors)?;
        }
        for change in &self.changes {
            let text = format!(
                "{}.{}: {} -> {}",
                change.context, change.field, change.old, change.new
            );
            line(f, &text, &change.line)?;
        }
        if let Some(created) = &self.created {
            line(f, &format!("created {created}"), &Line::default())?;
        }
        for instruction in &self.instructions {
            let mut text = instruction.instruction.to_owned();
            for (name, value) in &instruction.arguments {
                text += &format!(" {name} {value}");
            }
            text += &counts(&instruction.counted);
            if let Some(number) = instruction.packet {
                text += &format!("  [packet {number}]");
            }
            line(f, &text, &instruction.line)?;
        }
        if self.outcome != "done" {
            let why = self
                .why
                .as_ref()
                .map_or_else(String::new, |why| format!(": {why}"));
            line(
                f,
                &format!("{}{why}{}", self.outcome, counts(&self.counted)),
                &Line::default(),
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at_ns as f64 / 1e9;
        write!(f, "{seconds:>14.9} {} sent packet {}", self.host, self.packet)?;
        if let Some(flow) = self.flow {
            write!(f, "  flow {flow}")?;
        }
        line(f, &format!("event {}: {}", self.number, self.decoded), &self.line)
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)?;
        let mut headers = self.headers.iter();
        headers.try_for_each(|(name, fields)| write!(f, " {name} {fields}"))?;
        self.error.map_or(Ok(()), |error| write!(f, " [{error}]"))
    }
}

/// Their names, as many to a line as find room.
fn processors(f: &mut fmt::Formatter<'_>, processors: &[Processor]) -> fmt::Result {
    f.write_str("\n    ran")?;
    let mut column = 7;
    for processor in processors {
        let name = &processor.processor;
        if column + name.len() >= PLACES {
            f.write_str("\n       ")?;
            column = 7;
        }
        write!(f, " {name}")?;
        column += name.len() + 1;
    }
    Ok(())
}

fn fields(f: &mut fmt::Formatter<'_>, fields: &[(Name, Value)]) -> fmt::Result {
    let mut set = fields.iter().filter(|(_, value)| !value.is_zero());
    set.try_for_each(|(name, value)| write!(f, " {name}={value}"))
}

fn counts(counted: &[Count]) -> String {
    let texts = counted.iter().map(|count| match count.by {
        1 => format!("  [{}]", count.counter),
        by => format!("  [{} {by}]", count.counter),
    });
    texts.collect()
}

fn line(f: &mut fmt::Formatter<'_>, text: &str, place: &Line) -> fmt::Result {
    if place.file.is_empty() {
        write!(f, "\n    {text}")
    } else {
        write!(
            f,
            "\n    {text:<width$} {}:{}",
            place.file,
            place.line,
            width = PLACES - 5
        )
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)?;
        match (self.local, self.remote) {
            (Some(local), Some(remote)) if remote.port() > 0 => write!(f, " {local} > {remote}"),
            (Some(local), _) => write!(f, " {local}"),
            _ => Ok(()),
        }
    }
}
