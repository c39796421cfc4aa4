//! Runs parsers and shims, which turn an input into an ordered list of events.

use bytemuck::bytes_of;
use hawser_ir::abi::{Packet, ParseError};
use hawser_ir::buf::{EventBuf, Input};
use hawser_ir::{EventId, Place};

use crate::Interpreter;
use crate::machine::{Cursor, Halt, Machine};
use crate::memory::{Loc, Region};
use crate::steps::Steps;

/// Implements [`Interpreter::parse`].
pub(crate) fn parse(
    program: &Interpreter,
    parser: usize,
    input: Input<'_>,
    out: &mut EventBuf,
    steps: Option<&mut Steps>,
) -> Result<(), ParseError> {
    let before = out.len();
    let parser = &program.module.parsers[parser];
    let mut machine = Machine::new(program);
    machine.events = Some((out, before + parser.max_events as usize));
    machine.memory.steps = steps;
    match input {
        Input::Packet(packet) => machine.receive(packet),
        Input::Icmp(packet, error) => {
            machine.receive(packet);
            machine.memory.views[1] = bytes_of(error);
        }
        Input::App(_, op) => machine.memory.views[0] = bytes_of(op),
        Input::Start => {}
    }
    let views = [0, 1].map(|i| Loc::start(Region::View(i)));
    let result = match machine.enter(parser.func, &views) {
        Ok(_) | Err(Halt::Done) => Ok(()),
        Err(Halt::Drop(error)) => Err(error),
        // A shim's false assertion or refusal: the input yields no event.
        Err(Halt::Refused(_) | Halt::Assert(_) | Halt::Halted) => Err(ParseError::Frame),
    };
    drop(machine);
    if result.is_err() {
        out.truncate(before);
    }
    result
}

impl<'a> Machine<'a> {
    /// Sets the cursor to the packet's first byte.
    pub(crate) fn receive(&mut self, packet: Packet<'a>) {
        self.memory.views[0] = bytes_of(packet.net);
        self.cursor = Some(Cursor {
            packet,
            at: 0,
            end: packet.head.len() + packet.tail.len() + packet.merged,
        });
    }

    /// Appends an event, unless the program's declared maximum is reached.
    pub(crate) fn push_event(&mut self, event: EventId, from: &Place) -> Result<(), Halt> {
        let len = self.module().event_size(event);
        let from = self.locate(from)?;
        let Some((events, limit)) = &mut self.events else {
            return Ok(());
        };
        if events.len() >= *limit {
            return Err(Halt::Drop(ParseError::Events));
        }
        let bytes = self.memory.bytes(from, len);
        if bytes.len() == len {
            events.push(event, bytes);
        }
        Ok(())
    }
}
