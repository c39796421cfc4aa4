//! Finds the breakpoints in an event.

use hawser_interp::{LastingMemory, Statement, Write};
use hawser_ir::Ty;
use hawser_ir::abi::{ChainOutcome, PacketRec, RecordKind};

use crate::debug::breakpoint::{Meant, PacketOrigin, Set};
use crate::debug::debugger::{Current, Debugger};
use crate::debug::program::HostProgram;
use crate::debug::stop::{Reason, Stop};

/// A place in the event with breakpoints.
pub(crate) struct Hit {
    pub(crate) statement: usize,
    breakpoints: Vec<u32>,
    problems: Vec<String>,
    is_assert: bool,
}

impl Debugger {
    /// Returns the places of this event with breakpoints, in order.
    pub(crate) fn hits(&mut self) -> Vec<Hit> {
        let Some(current) = self.current.as_ref() else {
            return Vec::new();
        };
        let host = current.seen.host;
        let program = &self.programs[host];
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (index, set) in self.breakpoints.iter().enumerate() {
            if set.host.is_none_or(|only| only == host) {
                let places = places(set, current, program);
                found.extend(places.into_iter().map(|place| (place, index)));
            }
        }
        found.sort_unstable();
        let mut hits: Vec<Hit> = Vec::new();
        for (statement, index) in found {
            let holds = self.holds(index, statement);
            let set = &self.breakpoints[index];
            let problem = match holds {
                Ok(true) => None,
                Ok(false) => continue,
                Err(error) => Some(error),
            };
            if hits.last().is_none_or(|last| last.statement != statement) {
                hits.push(Hit {
                    statement,
                    breakpoints: Vec::new(),
                    problems: Vec::new(),
                    is_assert: false,
                });
            }
            if let Some(hit) = hits.last_mut() {
                hit.breakpoints.push(set.shown.number);
                hit.problems.extend(problem);
                hit.is_assert |= matches!(set.meant, Meant::Assert);
            }
        }
        hits
    }

    /// Stops at a place with breakpoints.
    pub(crate) fn stopped_at(&mut self, hit: Hit) -> Stop {
        self.statement = hit.statement;
        let reason = if hit.is_assert {
            Reason::Assert
        } else {
            Reason::Breakpoint
        };
        Stop {
            breakpoints: hit.breakpoints,
            problems: hit.problems,
            ..self.stopped(reason)
        }
    }

    /// Returns whether a breakpoint's condition holds at a statement of this event, or the fault in the
    /// condition.
    fn holds(&mut self, breakpoint: usize, statement: usize) -> Result<bool, String> {
        let set = &self.breakpoints[breakpoint];
        let Some(condition) = set.shown.condition.clone() else {
            return Ok(true);
        };
        let packet = matches!(set.meant, Meant::Packet(_))
            .then(|| self.image(statement))
            .flatten();
        self.condition(&condition, statement, packet)
            .map_err(|error| error.to_string())
    }

    /// Returns the packet that a statement creates: the type of its blueprint, and its fields' bytes.
    fn image(&self, statement: usize) -> Option<(Ty, Vec<u8>)> {
        let (current, program) = (self.current.as_ref()?, self.program()?);
        let emitted = &current.steps(program).emitted;
        let mut records = current.seen.kept.records.iter().enumerate();
        let is_meant = |index: &usize| emitted.get(*index) == Some(&statement);
        let (_, record) =
            records.find(|(index, record)| record.kind == RecordKind::Packet && is_meant(index))?;
        let blueprint = record.fixed::<PacketRec>().blueprint;
        let blueprint = program.module.blueprints.get(usize::from(blueprint))?;
        Some((Ty::Struct(blueprint.body), record.tail::<PacketRec>().to_vec()))
    }
}

/// Returns the statements of an event before which a breakpoint stops.
fn places(set: &Set, current: &Current, program: &HostProgram) -> Vec<usize> {
    let seen = &current.seen;
    let Some(event) = seen.event() else {
        return Vec::new();
    };
    match &set.meant {
        Meant::Event(events) if events[seen.host] == Some(event) => vec![0],
        Meant::Event(_) => Vec::new(),
        _ if seen.kept.outcome.is_none() => Vec::new(),
        Meant::Line(stops) => match &stops[seen.host] {
            Some((file, line, events)) if events.contains(&event) => on_line(current, program, *file, *line),
            _ => Vec::new(),
        },
        Meant::Field(fields) => {
            let changed = fields[seen.host].iter().filter_map(|(context, leaf)| {
                let keyed = seen.kept.before.keyed.as_ref().zip(seen.kept.context.as_ref());
                let keyed = keyed.filter(|((id, _), _)| id == context);
                let keyed = keyed.map(|((_, before), (_, after))| (LastingMemory::Keyed, before, after));
                let index = context.0 as usize;
                let global = seen
                    .kept
                    .before
                    .globals
                    .get(index)
                    .zip(seen.kept.globals.get(index));
                let global = global.map(|(before, after)| (LastingMemory::Global(*context), before, after));
                let (memory, ..) = keyed
                    .into_iter()
                    .chain(global)
                    .find(|(_, before, after)| !leaf.is_same(before, after))?;
                let wrote = |write: &&Write| {
                    write.memory == memory
                        && write.bytes.start < leaf.bytes.end
                        && leaf.bytes.start < write.bytes.end
                };
                let steps = current.steps(program);
                let write = steps.writes.iter().rev().find(wrote);
                // A field that no statement wrote was changed at the chain's beginning, by a timer that
                // fired.
                Some(write.map_or(0, |write| after(&steps.statements, write.statement)))
            });
            changed.collect()
        }
        Meant::Packet(wanted) => {
            let is_wanted = |index: usize| {
                wanted.is_none_or(|origin| {
                    let (host, life) = (seen.host, seen.life);
                    let cause = seen.kept.first_cause + index as u32;
                    origin == PacketOrigin { host, life, cause }
                })
            };
            let records = seen.kept.records.iter().enumerate();
            let packets =
                records.filter(|(index, record)| record.kind == RecordKind::Packet && is_wanted(*index));
            let packets: Vec<usize> = packets.map(|(index, _)| index).collect();
            if packets.is_empty() {
                return Vec::new();
            }
            let emitted = &current.steps(program).emitted;
            packets
                .into_iter()
                .filter_map(|index| emitted.get(index).copied())
                .collect()
        }
        Meant::Assert => match seen.kept.outcome {
            Some(ChainOutcome::Assert(index)) => vec![false_assert(current, program, index)],
            _ => Vec::new(),
        },
    }
}

/// Returns the statement after this one, without entering the functions that it calls.
fn after(statements: &[Statement], statement: usize) -> usize {
    let depth = statements.get(statement).map_or(0, |statement| statement.depth);
    let mut later = statements.iter().enumerate().skip(statement + 1);
    later
        .find(|(_, later)| later.depth <= depth)
        .map_or(statements.len(), |(index, _)| index)
}

/// Returns the statements that begin in a line, without continuations within it.
fn on_line(current: &Current, program: &HostProgram, file: u32, line: u32) -> Vec<usize> {
    let statements = &current.steps(program).statements;
    let is_there = |index: usize| {
        let span = statements[index].span;
        span.file == file && program.line(span).line == line
    };
    let goes_on = |index: usize| {
        let before = index.checked_sub(1).map(|before| statements[before]);
        before.is_some_and(|before| {
            is_there(index - 1)
                && before.func == statements[index].func
                && before.span.start < statements[index].span.start
        })
    };
    (0..statements.len())
        .filter(|index| is_there(*index) && !goes_on(*index))
        .collect()
}

/// Returns the place where an assertion is false: its statement, or the end for an invariant.
fn false_assert(current: &Current, program: &HostProgram, index: u32) -> usize {
    let statements = &current.steps(program).statements;
    let at = program.module.asserts.get(index as usize).map(|(span, _)| *span);
    let is_last = |last: &Statement| {
        at.is_some_and(|at| {
            at.file == last.span.file && last.span.start <= at.start && at.end <= last.span.end
        })
    };
    let last = statements.last().filter(|last| is_last(last));
    statements.len() - usize::from(last.is_some())
}
