//! An event as text: a line for the event, then a line for each of its effects, with its place in the source
//! at the end.

use hawser_syntax::OneLine;
use std::fmt;
use std::io::Write;

use crate::trace::digits::{number, seconds};
use crate::trace::event::{Context, CounterChange, Processor, TracedEvent};
use crate::trace::packet::{Decoded, SentPacket};
use crate::trace::source::ProgramLine;

/// The column of places in the source.
const PLACES: usize = 88;

impl TracedEvent {
    /// Appends the event as text, without a line end.
    pub fn text(&self, to: &mut Vec<u8>) {
        let begin = to.len();
        seconds(self.at_ns, 14, to);
        for word in [self.host.as_str(), self.source, self.event.as_str()] {
            to.push(b' ');
            to.extend_from_slice(word.as_bytes());
        }
        for (name, value) in self.fields.iter().filter(|(_, value)| !value.is_zero()) {
            to.push(b' ');
            to.extend_from_slice(name.as_bytes());
            to.push(b'=');
            value.text(to);
        }
        if let Some(flow) = self.flow {
            to.extend_from_slice(b"  flow ");
            number(flow as u64, to);
        }
        if let Some(context) = &self.context {
            print(to, format_args!("  on {context}"));
        }
        one_line(to, begin);
        if let Some(packet) = &self.packet {
            line(to, &ProgramLine::default(), |to| {
                print(to, format_args!("received {packet}"))
            });
        }
        if !self.processors.is_empty() {
            processors(to, &self.processors);
        }
        for change in &self.changes {
            line(to, &change.line, |to| {
                to.extend_from_slice(change.context.as_bytes());
                to.push(b'.');
                to.extend_from_slice(change.field.as_bytes());
                to.extend_from_slice(b": ");
                change.old.text(to);
                to.extend_from_slice(b" -> ");
                change.new.text(to);
            });
        }
        if let Some(created) = &self.created {
            line(to, &ProgramLine::default(), |to| {
                print(to, format_args!("created {created}"))
            });
        }
        for instruction in &self.instructions {
            line(to, &instruction.line, |to| {
                to.extend_from_slice(instruction.instruction.as_bytes());
                for (name, value) in &instruction.arguments {
                    to.push(b' ');
                    to.extend_from_slice(name.as_bytes());
                    to.push(b' ');
                    value.text(to);
                }
                counts(to, &instruction.counted);
                if let Some(number) = instruction.packet {
                    print(to, format_args!("  [packet {number}]"));
                }
            });
        }
        if self.outcome != "done" {
            line(to, &ProgramLine::default(), |to| {
                to.extend_from_slice(self.outcome.as_bytes());
                if let Some(why) = &self.why {
                    print(to, format_args!(": {why}"));
                }
                counts(to, &self.counted);
            });
        }
    }
}

impl fmt::Display for TracedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.text(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl SentPacket {
    /// Appends the value as text, without a line end.
    fn text(&self, to: &mut Vec<u8>) {
        let begin = to.len();
        seconds(self.at_ns, 14, to);
        print(to, format_args!(" {} sent packet {}", self.host, self.packet));
        if let Some(flow) = self.flow {
            print(to, format_args!("  flow {flow}"));
        }
        one_line(to, begin);
        line(to, &self.line, |to| {
            print(to, format_args!("event {}: {}", self.number, self.decoded));
        });
    }
}

impl fmt::Display for SentPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.text(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
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

/// Appends the names of processors, wrapped to the width of a line.
fn processors(to: &mut Vec<u8>, processors: &[Processor]) {
    to.extend_from_slice(b"\n    ran");
    let mut column = 7;
    for processor in processors {
        let name = &processor.processor;
        if column + name.len() >= PLACES {
            to.extend_from_slice(b"\n       ");
            column = 7;
        }
        to.push(b' ');
        to.extend_from_slice(name.as_bytes());
        column += name.len() + 1;
    }
}

fn counts(to: &mut Vec<u8>, counted: &[CounterChange]) {
    for count in counted {
        match count.by {
            1 => print(to, format_args!("  [{}]", count.counter)),
            by => print(to, format_args!("  [{} {by}]", count.counter)),
        }
    }
}

/// Appends a separate line with its place in the source at the end.
fn line(to: &mut Vec<u8>, place: &ProgramLine, content: impl FnOnce(&mut Vec<u8>)) {
    to.extend_from_slice(b"\n    ");
    let begin = to.len();
    content(to);
    if !place.file.is_empty() {
        // Continuation bytes of multi-byte characters are not counted.
        let columns = to[begin..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        to.resize(to.len() + (PLACES - 5).saturating_sub(columns) + 1, b' ');
        to.extend_from_slice(place.file.as_bytes());
        to.push(b':');
        number(place.line.into(), to);
    }
    one_line(to, begin);
}

/// Escapes terminal control characters and line ends in the text appended since `begin`, because any user can
/// choose names.
fn one_line(to: &mut Vec<u8>, begin: usize) {
    if to[begin..].iter().any(|byte| !(b' '..=b'~').contains(byte)) {
        let text = String::from_utf8_lossy(&to[begin..]).into_owned();
        to.truncate(begin);
        print(to, format_args!("{}", OneLine(text)));
    }
}

/// Appends formatted text in rare cases.
fn print(to: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    to.write_fmt(text).expect("memory takes all");
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
