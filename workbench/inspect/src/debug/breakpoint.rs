//! Breakpoints: the places where the debugger stops by itself.

use std::collections::BTreeSet;
use std::fmt;

use crate::trace::Leaf;
use hawser_ir::{ContextId, EventId};
use hawser_syntax::nearest;
use serde::Serialize;

use crate::debug::program::HostProgram;

/// The condition of a breakpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BreakCondition {
    /// A statement that begins in this line is about to run. Without a file, the program's first file is
    /// meant.
    Line {
        /// The file, by its name or the end of its name.
        file: Option<String>,
        /// The line; the first is 1.
        line: u32,
    },
    /// The reaction to an event of this name is about to begin.
    Event(String),
    /// A field of a context has changed after an event: `cc.cwnd`, `tcp_conn.cc.cwnd`. The debugger stops
    /// after the last statement that wrote it.
    Field(String),
    /// An instruction is about to create a packet: the one with this number in a capture of the run, or any
    /// packet.
    Packet(Option<u64>),
    /// An assertion or an invariant is false.
    Assert,
}

/// A breakpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breakpoint {
    /// The breakpoint's number.
    pub number: u32,
    /// The condition. A line is the one where the debugger really stops.
    pub what: BreakCondition,
    /// The only host to which it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// An expression in the language that must be true for a stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// A breakpoint could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BreakError {
    /// No program of the run has this file.
    #[error("no program of this run has a file `{0}`; the files are: {1}")]
    File(String, String),
    /// No statement of a chain begins at or after this line.
    #[error("no chain has a statement in line {line} of {file} or after it")]
    Line {
        /// The name of the file.
        file: String,
        /// The number of the line.
        line: u32,
    },
    /// No program of the run has this event.
    #[error("no program of this run has an event `{0}`{hint}", hint = did_you_mean(.1))]
    Event(String, Option<String>),
    /// No context of the run has this field.
    #[error("no context of this run has a field `{0}`{hint}; fields are named as in `cc.cwnd`", hint = did_you_mean(.1))]
    Field(String, Option<String>),
    /// The run sends fewer packets.
    #[error("this run sends fewer than {0} packets")]
    Packet(u64),
    /// The packet was sent by the network layer, not by a program.
    #[error("packet {0} was sent by the network layer, not by a program")]
    NetworkPacket(u64),
    /// The scenario has no such host.
    #[error("the scenario has no host `{0}`; the hosts are: {1}")]
    Host(String, String),
    /// The run in which to find the packet cannot be repeated.
    #[error("{0}")]
    Run(String),
}

fn did_you_mean(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |near| format!(": did you mean `{near}`?"))
}

/// A breakpoint, resolved in the programs.
pub(crate) struct Set {
    pub(crate) shown: Breakpoint,
    /// The number of the only host.
    pub(crate) host: Option<usize>,
    pub(crate) meant: Meant,
}

/// The resolved condition of a breakpoint, for each host.
pub(crate) enum Meant {
    /// The file, the line, and the events whose chains can reach it.
    Line(Vec<Option<(u32, u32, BTreeSet<EventId>)>>),
    Event(Vec<Option<EventId>>),
    Field(Vec<Vec<(ContextId, Leaf)>>),
    Packet(Option<PacketOrigin>),
    Assert,
}

/// The instruction that sent a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketOrigin {
    /// The number of the host.
    pub(crate) host: usize,
    /// The host's life. Each life numbers its instructions anew.
    pub(crate) life: u32,
    /// The number of the instruction.
    pub(crate) cause: u32,
}

/// Resolves a line in the programs to a place where a stop is possible.
pub(crate) fn line(
    programs: &[HostProgram],
    file: Option<&str>,
    wanted: u32,
) -> Result<(BreakCondition, Meant), BreakError> {
    let first = |program: &HostProgram| program.module.files.first().map(|(name, _)| name.clone());
    let name = file
        .map(str::to_owned)
        .or_else(|| programs.first().and_then(first));
    let name = name.unwrap_or_default();
    if programs.iter().all(|program| program.file(&name).is_none()) {
        let known: BTreeSet<&str> = programs
            .iter()
            .flat_map(|program| program.module.files.iter().map(|(name, _)| name.as_str()))
            .collect();
        return Err(BreakError::File(
            name,
            known.into_iter().collect::<Vec<_>>().join(", "),
        ));
    }
    let stop = |program: &HostProgram| {
        let (number, _, _) = program.file(&name)?;
        let (line, events) = program.stops_at(number, wanted)?;
        Some((number, line, events))
    };
    let stops: Vec<_> = programs.iter().map(stop).collect();
    let found = stops.iter().zip(programs).find_map(|(stop, program)| {
        let (_, line, _) = stop.as_ref()?;
        Some((program.file(&name)?.1.to_owned(), *line))
    });
    let Some((file, line)) = found else {
        return Err(BreakError::Line { file: name, line: wanted });
    };
    let what = BreakCondition::Line { file: Some(file), line };
    Ok((what, Meant::Line(stops)))
}

/// Resolves an event.
pub(crate) fn event(programs: &[HostProgram], name: &str) -> Result<Meant, BreakError> {
    let of = |program: &HostProgram| {
        let place = program.module.events.iter().position(|event| event.name == name);
        place.map(|place| EventId(place as u32))
    };
    let found: Vec<_> = programs.iter().map(of).collect();
    if found.iter().any(Option::is_some) {
        return Ok(Meant::Event(found));
    }
    let known = programs.iter().flat_map(|program| &program.module.events);
    let near = nearest(name, known.map(|event| event.name.as_str()));
    Err(BreakError::Event(name.to_owned(), near.map(str::to_owned)))
}

/// Resolves a field of contexts.
pub(crate) fn field(programs: &[HostProgram], name: &str) -> Result<Meant, BreakError> {
    let of = |program: &HostProgram| {
        let contexts = program.module.contexts.iter().zip(&program.contexts).enumerate();
        let found = contexts.flat_map(|(index, (context, leaves))| {
            let own = name.strip_prefix(context.name.as_str());
            let own = own.and_then(|rest| rest.strip_prefix('.'));
            let meant = leaves
                .iter()
                .filter(move |leaf| leaf.name.as_str() == name || Some(leaf.name.as_str()) == own);
            meant.map(move |leaf| (ContextId(index as u32), leaf.clone()))
        });
        found.collect::<Vec<_>>()
    };
    let found: Vec<_> = programs.iter().map(of).collect();
    if found.iter().any(|leaves| !leaves.is_empty()) {
        return Ok(Meant::Field(found));
    }
    let known = programs
        .iter()
        .flat_map(|program| program.contexts.iter().flatten());
    let near = nearest(name, known.map(|leaf| leaf.name.as_str()));
    Err(BreakError::Field(name.to_owned(), near.map(str::to_owned)))
}

impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.number)?;
        match &self.what {
            BreakCondition::Line { file, line } => write!(f, "{}:{line}", file.as_deref().unwrap_or(""))?,
            BreakCondition::Event(name) => write!(f, "event {name}")?,
            BreakCondition::Field(name) => write!(f, "field {name}")?,
            BreakCondition::Packet(None) => f.write_str("packet")?,
            BreakCondition::Packet(Some(number)) => write!(f, "packet {number}")?,
            BreakCondition::Assert => f.write_str("assert")?,
        }
        if let Some(host) = &self.host {
            write!(f, " on {host}")?;
        }
        if let Some(condition) = &self.condition {
            write!(f, " if {condition}")?;
        }
        Ok(())
    }
}
