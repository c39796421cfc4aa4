//! The visible state at the debugger's position.

use crate::trace::{Context, Leaf, ProgramLine, SharedName, TraceValue, TracedEvent, context};
use hawser_interp::{LastingMemory, Variable};
use hawser_ir::{ContextId, Ty};
use hawser_sim::START;
use serde::Serialize;

use crate::debug::debugger::Debugger;
use crate::debug::stop::StopPosition;

/// An active function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// The function's name.
    pub function: String,
    /// The current line in it.
    #[serde(flatten)]
    pub line: ProgramLine,
}

/// Variables by name.
pub type Variables = Vec<(String, TraceValue)>;

/// Converts an event's fields.
fn variables(fields: &[(SharedName, TraceValue)]) -> Variables {
    let fields = fields.iter();
    fields
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect()
}

/// A group of variables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scope {
    /// The group's name: `locals`, `event sw_send`, `scratchpad`, or a context with its ends.
    pub name: String,
    /// The type of the context, if the group is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The variables.
    pub variables: Variables,
}

/// A context of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextView {
    /// The context's type, and the ends of its connection.
    #[serde(flatten)]
    pub context: Context,
    /// True if the event is for this context.
    pub is_current: bool,
    /// The context's fields.
    pub fields: Variables,
}

/// A host and its contexts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostView {
    /// The host's name.
    pub host: String,
    /// The host's contexts.
    pub contexts: Vec<ContextView>,
}

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// The line's number.
    pub line: u32,
    /// The line's text.
    pub text: String,
    /// True if this line is about to run.
    pub is_current: bool,
}

/// A packet in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flying {
    /// The packet's number in a capture of the run.
    pub number: u64,
    /// The host that sent it.
    pub from: String,
    /// The time of sending, in nanoseconds since the start of the run.
    pub sent_at_ns: u64,
    /// The packet's length in bytes.
    pub bytes: usize,
    /// The packet's protocol and first fields.
    pub summary: String,
}

impl Debugger {
    /// Returns the debugger's position, or `None` when the run is over.
    #[must_use]
    pub fn place(&self) -> Option<StopPosition> {
        let (current, program) = (self.current.as_ref()?, self.program()?);
        let statements = &current.steps(program).statements;
        let here = statements.get(self.statement);
        let event = current.event(program);
        Some(StopPosition {
            event: self.number,
            statement: self.statement,
            statements: statements.len(),
            at_ns: event.at_ns,
            host: event.host.to_string(),
            name: event.event.to_string(),
            source: event.source,
            fields: variables(&event.fields),
            context: event.context.clone(),
            function: here.map(|statement| program.function(statement.func).to_owned()),
            line: here
                .or(statements.last())
                .map(|statement| program.line(statement.span)),
        })
    }

    /// Returns all effects of the event as a trace shows them, or `None` when the run is over.
    #[must_use]
    pub fn event(&self) -> Option<&TracedEvent> {
        let (current, program) = (self.current.as_ref()?, self.program()?);
        Some(current.event(program))
    }

    /// Returns the active functions, the innermost first; none after the last statement.
    #[must_use]
    pub fn frames(&self) -> Vec<Frame> {
        let Some(program) = self.program() else {
            return Vec::new();
        };
        let halted = self.halted();
        let calls = halted.calls.iter().rev();
        calls
            .map(|call| Frame {
                function: program.function(call.func).to_owned(),
                line: program.line(call.at),
            })
            .collect()
    }

    /// Returns the processors of the event's chain that run, in order.
    #[must_use]
    pub fn processors(&self) -> Vec<&str> {
        let processors = self.event().map_or(&[][..], |event| &event.processors);
        processors
            .iter()
            .map(|processor| processor.processor.as_str())
            .collect()
    }

    /// Returns the variables that an active function sees, where 0 is the innermost.
    #[must_use]
    pub fn scopes(&self, frame: usize) -> Vec<Scope> {
        let (Some(current), Some(program)) = (&self.current, self.program()) else {
            return Vec::new();
        };
        let halted = self.halted();
        let reader = program.reader();
        let mut scopes = Vec::new();
        let depth = halted.calls.len().checked_sub(frame + 1);
        if let Some(call) = depth.and_then(|depth| halted.calls.get(depth)) {
            let variables = halted.variables(&program.module, call);
            // The other variables are among the fields of the event and the contexts.
            let own = variables.into_iter().filter(Variable::is_local);
            let locals = own.map(|variable| {
                let bytes = halted.bytes_of(&program.interpreter, &variable);
                (variable.name, reader.value(&variable.ty, &bytes))
            });
            scopes.push(Scope { name: "locals".to_owned(), context: None, variables: locals.collect() });
        }
        scopes.push(Scope {
            name: format!("event {}", current.event(program).event),
            context: None,
            variables: variables(&current.event(program).fields),
        });
        let fields = |leaves: &[Leaf], bytes: &[u8]| -> Variables {
            let values = leaves
                .iter()
                .map(|leaf| (leaf.name.to_string(), leaf.value(&reader, bytes)));
            values.collect()
        };
        let host = current.seen.host;
        let known = self.known();
        let of_context = |sign: &str, id: ContextId, bytes: &[u8]| {
            let context = context(&program.module, id, bytes);
            Scope {
                name: format!("{sign}{context}"),
                context: Some(context.context.to_string()),
                variables: fields(&program.contexts[id.0 as usize], bytes),
            }
        };
        if let Some((id, bytes)) = &halted.keyed {
            scopes.push(of_context("", *id, bytes));
        }
        let others = known[host].0.iter().filter(|((id, key), bytes)| {
            let is_new = !self.contexts[host].0.contains_key(&(*id, *key));
            is_new && halted.keyed.as_ref().is_none_or(|(_, keyed)| keyed != *bytes)
        });
        scopes.extend(others.map(|((id, _), bytes)| of_context("new ", *id, bytes)));
        if let Some(scratch) = program.module.scratch {
            let whole = Variable::whole("scratchpad", Ty::Struct(scratch), LastingMemory::Scratch);
            let bytes = halted.bytes_of(&program.interpreter, &whole);
            scopes.push(Scope {
                name: whole.name,
                context: None,
                variables: fields(&crate::trace::leaves(&reader, scratch), &bytes),
            });
        }
        scopes
    }

    /// Returns the contexts of all hosts.
    #[must_use]
    pub fn contexts(&self) -> Vec<HostView> {
        let current = self.current.as_ref();
        let keyed = self.event().and_then(|event| event.context.as_ref());
        let of_host = |(host, contexts): (usize, crate::debug::contexts::Contexts)| {
            let program = &self.programs[host];
            let reader = program.reader();
            let is_there = current.is_some_and(|current| current.seen.host == host);
            let contexts = contexts.0.iter().map(|((id, _), bytes)| {
                let context = context(&program.module, *id, bytes);
                let leaves = program.contexts[id.0 as usize].iter();
                ContextView {
                    is_current: is_there && keyed == Some(&context),
                    context,
                    fields: leaves
                        .map(|leaf| (leaf.name.to_string(), leaf.value(&reader, bytes)))
                        .collect(),
                }
            });
            HostView { host: program.host.clone(), contexts: contexts.collect() }
        };
        self.known().into_iter().enumerate().map(of_host).collect()
    }

    /// Returns the packets in flight when the event's host received the input of the event.
    #[must_use]
    pub fn flight(&self) -> Vec<Flying> {
        let flying = self.player.iter().flat_map(|player| player.flying.values());
        flying
            .map(|sent| Flying {
                number: sent.frame.number,
                from: self.programs[sent.from].host.clone(),
                sent_at_ns: hawser_time::nanos(sent.at - START),
                bytes: sent.frame.len(),
                summary: sent.frame.summary(),
            })
            .collect()
    }

    /// Returns the source around the line of an active function, with this many lines on each side. The
    /// result is empty if no line is known.
    #[must_use]
    pub fn source(&self, frame: usize, around: u32) -> (String, Vec<SourceLine>) {
        let at = self.frames().get(frame).map(|frame| frame.line.clone());
        let at = at.or_else(|| self.place()?.line);
        let Some((at, program)) = at.zip(self.program()) else {
            return (String::new(), Vec::new());
        };
        let Some((_, file, text)) = program.file(&at.file) else {
            return (at.file.to_string(), Vec::new());
        };
        let first = at.line.saturating_sub(around).max(1);
        let lines = text.lines().zip(1..).skip(first as usize - 1);
        let lines = lines.take_while(|(_, line)| *line <= at.line + around);
        let lines =
            lines.map(|(text, line)| SourceLine { line, text: text.to_owned(), is_current: line == at.line });
        (file.to_owned(), lines.collect())
    }
}
