//! Lines of JSON, written by hand. They are most of a long trace, and a general serializer took three times
//! as long. A test compares them with `serde`'s output for the same values.

use hawser_syntax::Printable;
use serde::Serialize;
use std::io::Write;

use crate::trace::digits::{number, signed};
use crate::trace::event::{Context, CounterChange, FieldChange, Processor, TracedEvent, TracedInstruction};
use crate::trace::packet::{Decoded, SentPacket};
use crate::trace::source::ProgramLine;
use crate::trace::value::TraceValue;

impl TracedEvent {
    /// Appends the event as a JSON object on one line.
    pub fn json(&self, to: &mut Vec<u8>) {
        event(self, to);
    }
}

impl SentPacket {
    /// Appends the packet as a JSON object on one line.
    pub fn json(&self, to: &mut Vec<u8>) {
        general(self, to);
        to.push(b'\n');
    }
}

/// Appends an event as JSON on one line.
fn event(event: &TracedEvent, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"at_ns\":");
    number(event.at_ns, to);
    key("host", to);
    string(&event.host, to);
    key("number", to);
    number(event.number, to);
    if let Some(flow) = event.flow {
        key("flow", to);
        number(flow as u64, to);
    }
    key("event", to);
    string(&event.event, to);
    key("source", to);
    string(event.source, to);
    key("fields", to);
    list(&event.fields, to, |(name, value), to| {
        to.push(b'[');
        string(name, to);
        to.push(b',');
        self::value(value, to);
        to.push(b']');
    });
    if let Some(packet) = &event.packet {
        key("packet", to);
        decoded(packet, to);
    }
    for (name, context) in [("context", &event.context), ("created", &event.created)] {
        if let Some(context) = context {
            key(name, to);
            self::context(context, to);
        }
    }
    key("processors", to);
    list(&event.processors, to, processor);
    key("changes", to);
    list(&event.changes, to, change);
    key("instructions", to);
    list(&event.instructions, to, instruction);
    key("outcome", to);
    string(event.outcome, to);
    if let Some(why) = &event.why {
        key("why", to);
        string(why, to);
    }
    counted(&event.counted, to);
    to.extend_from_slice(b"}\n");
}

/// Appends the key of a field other than the first.
fn key(name: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(b",\"");
    to.extend_from_slice(name.as_bytes());
    to.extend_from_slice(b"\":");
}

fn list<T>(items: &[T], to: &mut Vec<u8>, print: impl Fn(&T, &mut Vec<u8>)) {
    to.push(b'[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            to.push(b',');
        }
        print(item, to);
    }
    to.push(b']');
}

/// Appends a string in quotes.
fn string(text: &str, to: &mut Vec<u8>) {
    to.push(b'"');
    let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().all(is_plain) {
        to.extend_from_slice(text.as_bytes());
    } else {
        escaped(text, to);
    }
    to.push(b'"');
}

/// Appends the content of a string with special characters. Terminal control characters are escaped as well.
#[cold]
fn escaped(text: &str, to: &mut Vec<u8>) {
    let quoted = serde_json::to_string(text).expect("text is serializable");
    write!(to, "{}", Printable(&quoted[1..quoted.len() - 1])).expect("memory takes all");
}

/// Appends rare values with the general serializer.
fn general(value: &impl Serialize, to: &mut Vec<u8>) {
    let text = serde_json::to_string(value).expect("names are text");
    write!(to, "{}", Printable(text)).expect("memory takes all");
}

fn line(line: &ProgramLine, to: &mut Vec<u8>) {
    key("file", to);
    string(&line.file, to);
    key("line", to);
    number(line.line.into(), to);
}

fn processor(processor: &Processor, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"processor\":");
    string(&processor.processor, to);
    line(&processor.line, to);
    to.push(b'}');
}

fn change(change: &FieldChange, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"context\":");
    string(&change.context, to);
    key("field", to);
    string(&change.field, to);
    key("old", to);
    value(&change.old, to);
    key("new", to);
    value(&change.new, to);
    line(&change.line, to);
    to.push(b'}');
}

fn instruction(instruction: &TracedInstruction, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"instruction\":");
    string(instruction.instruction, to);
    key("arguments", to);
    list(&instruction.arguments, to, |(name, value), to| {
        to.push(b'[');
        string(name, to);
        to.push(b',');
        self::value(value, to);
        to.push(b']');
    });
    line(&instruction.line, to);
    if let Some(packet) = instruction.packet {
        key("packet", to);
        number(packet, to);
    }
    counted(&instruction.counted, to);
    to.push(b'}');
}

fn context(context: &Context, to: &mut Vec<u8>) {
    to.extend_from_slice(b"{\"context\":");
    string(&context.context, to);
    for (name, end) in [("local", context.local), ("remote", context.remote)] {
        if let Some(end) = end {
            key(name, to);
            write!(to, "\"{end}\"").expect("memory takes all");
        }
    }
    to.push(b'}');
}

fn counted(counts: &[CounterChange], to: &mut Vec<u8>) {
    if counts.is_empty() {
        return;
    }
    key("counted", to);
    list(counts, to, |count, to| {
        to.extend_from_slice(b"{\"counter\":");
        string(count.counter, to);
        key("by", to);
        number(count.by, to);
        to.push(b'}');
    });
}

fn decoded(packet: &Decoded, to: &mut Vec<u8>) {
    general(packet, to);
}

fn value(value: &TraceValue, to: &mut Vec<u8>) {
    match value {
        TraceValue::Flag(flag) => to.extend_from_slice(if *flag { b"true" } else { b"false" }),
        TraceValue::Number(value) | TraceValue::Span(value) | TraceValue::Time(value) => number(*value, to),
        TraceValue::Signed(value) => signed(*value, to),
        TraceValue::None => to.extend_from_slice(b"null"),
        TraceValue::Text(text) => string(text, to),
        TraceValue::Fields(fields) => {
            to.push(b'{');
            for (place, (name, value)) in fields.iter().enumerate() {
                if place > 0 {
                    to.push(b',');
                }
                string(name, to);
                to.push(b':');
                self::value(value, to);
            }
            to.push(b'}');
        }
        TraceValue::List(elements, _) => list(elements, to, self::value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::shared_names::SharedName;

    fn name(text: &str) -> SharedName {
        SharedName::new(text)
    }

    fn at(number: u32) -> ProgramLine {
        ProgramLine { file: name("a \"b\".mtp"), line: number }
    }

    /// Returns an event with all possible parts, and strings with all characters that need escapes.
    fn whole() -> TracedEvent {
        let odd: String = (0..0x80).map(char::from).chain(['ä', '\u{2028}', '𝄞']).collect();
        let context = Context {
            context: name("conn"),
            local: Some("10.0.0.1:80".parse().expect("an address")),
            remote: Some("[fe80::1]:9".parse().expect("an address")),
        };
        let counts = vec![CounterChange { counter: "dangling", by: 2 }];
        TracedEvent {
            at_ns: 12_345_678_901,
            host: name("a"),
            number: u64::MAX,
            flow: Some(3),
            event: name("seg"),
            source: "packet",
            fields: vec![
                (name("flag"), TraceValue::Flag(true)),
                (name("none"), TraceValue::None),
                (name("odd"), TraceValue::Text(odd)),
            ],
            packet: Some(Decoded {
                bytes: 40,
                headers: vec![(
                    name("hdr"),
                    TraceValue::Fields(vec![(name("seq"), TraceValue::Number(1))]),
                )],
                error: Some("truncated"),
            }),
            context: Some(context.clone()),
            created: Some(Context { local: None, ..context }),
            processors: vec![Processor { processor: name("listen"), line: at(7) }],
            changes: vec![FieldChange {
                context: name("conn"),
                field: name("cc.cwnd"),
                old: TraceValue::Signed(i64::MIN),
                new: TraceValue::List(
                    vec![
                        TraceValue::Span(0),
                        TraceValue::Time(99),
                        TraceValue::Fields(Vec::new()),
                    ],
                    4,
                ),
                line: at(100),
            }],
            instructions: vec![TracedInstruction {
                instruction: "pkt_gen",
                arguments: vec![
                    (name("to"), TraceValue::Signed(-7)),
                    (name("flag"), TraceValue::Flag(false)),
                ],
                line: at(u32::MAX),
                packet: Some(17),
                counted: counts.clone(),
            }],
            first_cause: 1,
            outcome: "refused",
            why: Some("error \\ 1".to_owned()),
            counted: counts,
        }
    }

    #[test]
    fn lines_equal_those_of_serde_json() {
        let bare = TracedEvent {
            flow: None,
            fields: Vec::new(),
            packet: None,
            context: None,
            created: None,
            processors: Vec::new(),
            changes: Vec::new(),
            instructions: Vec::new(),
            why: None,
            counted: Vec::new(),
            ..whole()
        };
        for shown in [whole(), bare] {
            let mut line = Vec::new();
            event(&shown, &mut line);
            let expected = serde_json::to_string(&shown).expect("it is serializable");
            assert_eq!(
                String::from_utf8(line).expect("text"),
                format!("{}\n", Printable(expected))
            );
        }
    }
}
