//! Answers to commands.

use std::fmt;

use hawser_syntax::OneLine;

use crate::trace::{TraceValue, TracedEvent};
use serde::Serialize;

use crate::debug::breakpoint::{BreakCondition, BreakError, Breakpoint};
use crate::debug::checked_expression::PrintError;
use crate::debug::command::{Command, HELP};
use crate::debug::debugger::{DebugError, Debugger};
use crate::debug::stop::Stop;
use crate::debug::view::{Flying, Frame, HostView, Scope, SourceLine};

/// An answer. As JSON it is an object with one key, its kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The debugger has moved to another place.
    Stop(Box<Stop>),
    /// A breakpoint was added.
    Breakpoint(Breakpoint),
    /// All breakpoints.
    Breakpoints(Vec<Breakpoint>),
    /// The number of breakpoints removed.
    Cleared(usize),
    /// The value of an expression.
    Value(TraceValue),
    /// The active functions, the innermost first, and the processors of the event's chain.
    Stack {
        /// The active functions.
        frames: Vec<Frame>,
        /// The names of the processors.
        chain: Vec<String>,
    },
    /// The variables that a function sees.
    Scopes(Vec<Scope>),
    /// The contexts of all hosts.
    Contexts(Vec<HostView>),
    /// The packets in flight.
    Flight(Vec<Flying>),
    /// Lines of a file.
    Source {
        /// The name of the file.
        file: String,
        /// The lines with their numbers.
        lines: Vec<SourceLine>,
    },
    /// All effects of the event.
    Event(Box<TracedEvent>),
    /// The host or function to which later questions refer.
    Selected(String),
    /// The help text with all commands.
    Help(&'static str),
    /// The debugger is to end.
    Quit,
}

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum ObeyError {
    /// The breakpoint cannot be set.
    #[error(transparent)]
    Break(#[from] BreakError),
    /// The expression could not be evaluated.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// The run cannot be repeated.
    #[error(transparent)]
    Debug(#[from] DebugError),
    /// No breakpoint has this number.
    #[error("unknown breakpoint {0}: `breakpoints` lists them")]
    NoBreakpoint(u32),
    /// No active function has this number.
    #[error("no running function has the number {0}: `stack` lists them")]
    NoFrame(usize),
    /// The run is over.
    #[error("the run is over: `back` goes to its last event")]
    Over,
}

impl Debugger {
    /// Executes a command. The debugger occasionally asks `pause` whether to stop on the way.
    ///
    /// # Errors
    /// The reason why the command failed. The debugger has not moved.
    pub fn obey(&mut self, command: &Command, pause: &mut dyn FnMut() -> bool) -> Result<Answer, ObeyError> {
        Ok(match command {
            Command::Go(step) => Answer::Stop(Box::new(self.go(step, pause)?)),
            Command::Packet(number) => Answer::Stop(Box::new(self.goto_packet(*number, pause)?)),
            Command::Break { what, host, condition } => {
                Answer::Breakpoint(self.add(what.clone(), host.as_deref(), condition.clone())?)
            }
            Command::Clear(Some(number)) if self.clear(*number) => Answer::Cleared(1),
            Command::Clear(Some(number)) => return Err(ObeyError::NoBreakpoint(*number)),
            Command::Clear(None) => Answer::Cleared(self.clear_all()),
            Command::Breakpoints => Answer::Breakpoints(self.breakpoints().cloned().collect()),
            Command::Print(text) => Answer::Value(self.print(text)?),
            Command::Stack => Answer::Stack {
                frames: self.frames(),
                chain: self.processors().into_iter().map(str::to_owned).collect(),
            },
            Command::Locals => Answer::Scopes(self.scopes(self.frame)),
            Command::Contexts => Answer::Contexts(self.contexts()),
            Command::Flight => Answer::Flight(self.flight()),
            Command::List(around) => {
                let (file, lines) = self.source(self.frame, *around);
                Answer::Source { file, lines }
            }
            Command::Trace => Answer::Event(Box::new(self.event().ok_or(ObeyError::Over)?.clone())),
            Command::Host(name) => {
                self.select_host(name)?;
                Answer::Selected(format!("host {name}"))
            }
            Command::Frame(number) if self.select_frame(*number) => {
                Answer::Selected(format!("frame {number}"))
            }
            Command::Frame(number) => return Err(ObeyError::NoFrame(*number)),
            Command::Help => Answer::Help(HELP),
            Command::Quit => Answer::Quit,
        })
    }

    /// Goes to the statement that created a packet.
    fn goto_packet(&mut self, number: u64, pause: &mut dyn FnMut() -> bool) -> Result<Stop, ObeyError> {
        let kept = std::mem::take(&mut self.breakpoints);
        let stop = self.add(BreakCondition::Packet(Some(number)), None, None);
        let stop = stop.map_err(ObeyError::from).and_then(|_| {
            self.rewind()?;
            Ok(self.go(&crate::debug::command::Move::Continue, pause)?)
        });
        self.breakpoints = kept;
        let stop = stop?;
        Ok(Stop {
            breakpoints: Vec::new(),
            reason: match stop.reason {
                crate::debug::stop::Reason::Breakpoint => crate::debug::stop::Reason::Step,
                other => other,
            },
            ..stop
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Stop(stop) => stop.fmt(f),
            Answer::Breakpoint(breakpoint) => write!(f, "breakpoint {breakpoint}"),
            Answer::Breakpoints(all) if all.is_empty() => f.write_str("there are none"),
            Answer::Breakpoints(all) => lines(f, all),
            Answer::Cleared(count) => write!(f, "{count} removed"),
            Answer::Value(value) => value.fmt(f),
            Answer::Stack { frames, chain } => {
                for (number, frame) in frames.iter().enumerate() {
                    writeln!(
                        f,
                        "{number} {} {}:{}",
                        frame.function,
                        OneLine(&frame.line.file),
                        frame.line.line
                    )?;
                }
                write!(f, "chain {}", chain.join(" "))
            }
            Answer::Scopes(scopes) => lines(f, scopes),
            Answer::Contexts(hosts) => lines(f, hosts),
            Answer::Flight(packets) if packets.is_empty() => f.write_str("no packet is being stepped"),
            Answer::Flight(packets) => lines(f, packets),
            Answer::Source { file, lines: found } => {
                write!(f, "{}", OneLine(file))?;
                found.iter().try_for_each(|line| write!(f, "\n{line}"))
            }
            Answer::Event(event) => event.fmt(f),
            Answer::Selected(what) => write!(f, "{}", OneLine(what)),
            Answer::Help(text) => f.write_str(text.trim_end()),
            Answer::Quit => Ok(()),
        }
    }
}

/// Writes one item for each line.
fn lines<T: fmt::Display>(f: &mut fmt::Formatter<'_>, all: &[T]) -> fmt::Result {
    all.iter().enumerate().try_for_each(|(number, each)| {
        let before = if number > 0 { "\n" } else { "" };
        write!(f, "{before}{each}")
    })
}
