//! The interpreter: the one meaning of a program.
//!
//! It walks the intermediate form as it is. Every other back end agrees with it, byte for byte,
//! on contexts and instruction records.
//!
//! * [`memory`]: regions of bytes; reading outside gives zero, writing outside does nothing
//! * [`machine`]: one run, its frames and calls
//! * [`place`], [`expr`], [`stmt`], [`emit`]: one function per kind of node
//! * [`number`], [`containers`]: arithmetic; lists, sorted lists, windows
//! * [`steps`]: what a run that is watched did, and where
//! * [`halted`]: a chain that stands before one of its statements, and expressions over it
//! * [`chain`], [`parse`]: what runs on an event and on an input
//! * [`extract`], [`options`], [`build`], [`wire`], [`bits`], [`checksum`]: packets
//!
//! Invariants: nothing panics on any input, event or context, only on a module that no checker
//! would give; nothing is allocated per event; no clock, no randomness, no I/O.

#![forbid(unsafe_code)]

mod bits;
mod build;
mod chain;
mod checksum;
mod containers;
mod emit;
mod expr;
mod extract;
mod halted;
mod machine;
mod memory;
mod number;
mod options;
mod parse;
mod place;
mod prepared;
mod steps;
mod stmt;
mod unsupported;
mod wire;

pub use halted::{Halted, Variable};
pub use steps::{Call, Memory, Statement, Steps, Write};
pub use unsupported::Unsupported;

use std::ops::Range;
use std::sync::Arc;

use hawser_ir::abi::{Built, Outcome, Packet, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions};
use hawser_ir::{BlueprintId, Module};

use crate::machine::Machine;
use crate::memory::{Loc, Region};
use crate::prepared::Prepared;

/// A program made ready to run: reentrant, and shared between threads at will.
#[derive(Debug)]
pub struct Interpreter {
    module: Arc<Module>,
    params: Vec<u64>,
    prepared: Prepared,
}

impl Interpreter {
    /// Prepares a checked module with the values of its params, in the module's order; see
    /// [`Module::params_with`]. A value is reduced to its param's type.
    ///
    /// # Errors
    /// A construct of the program that does not run yet.
    pub fn new(module: Arc<Module>, params: Vec<u64>) -> Result<Interpreter, Unsupported> {
        if let Some(unsupported) = unsupported::unsupported(&module) {
            return Err(unsupported);
        }
        let prepared = Prepared::new(&module);
        let typed = module.params.iter().zip(params);
        let params = typed
            .map(|(param, value)| number::reduce(value, &param.ty))
            .collect();
        Ok(Interpreter { module, params, prepared })
    }

    /// The program.
    #[must_use]
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// The values of its params, in the module's order.
    #[must_use]
    pub fn params(&self) -> &[u64] {
        &self.params
    }

    /// Turns an input into events, appended to `out` in order. `parser` is an index in
    /// [`Module::parsers`].
    ///
    /// # Errors
    /// Why the input is dropped; `out` is then as before.
    pub fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        parse::parse(self, parser, input, out, None)
    }

    /// [`Interpreter::parse`], and notes in `steps` which headers were taken apart. What was in `steps` is forgotten.
    ///
    /// # Errors
    /// Why the input is dropped; the headers before that are noted.
    pub fn parse_watched(
        &self,
        parser: usize,
        input: Input<'_>,
        out: &mut EventBuf,
        steps: &mut Steps,
    ) -> Result<(), ParseError> {
        steps.begin(0);
        parse::parse(self, parser, input, out, Some(steps))
    }

    /// Runs the chain of one event (header first) and appends its records to `out`. Contexts and
    /// scratchpad change in place.
    pub fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> Outcome {
        chain::react(self, event, memory, out, None, None)
    }

    /// [`Interpreter::react`], and notes in `steps` which processors ran, which statement wrote each record and
    /// which changed what in contexts. What was in `steps` is forgotten.
    pub fn react_watched(
        &self,
        event: &mut [u8],
        memory: &mut Regions<'_>,
        out: &mut RecordBuf,
        steps: &mut Steps,
    ) -> Outcome {
        steps.begin(out.bytes().len());
        chain::react(self, event, memory, out, Some(steps), None)
    }

    /// Writes the header of one packet of a `pkt_gen` to `header`.
    ///
    /// Called for `segment.index` 0, 1, … in order. The segmentation rules change `image` in
    /// place, and so does the payload's length: `prev.data.len` of the next packet is
    /// `segment.len` of this one.
    pub fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let mut machine = Machine::new(self);
        machine.memory.image = image;
        machine.build(packet, segment, header)
    }

    /// Takes one header of a packet apart into `image`, verifies what is computed in it, and returns which bytes of
    /// the packet are its payload.
    ///
    /// # Errors
    /// What is wrong with the packet; `image` is then zero.
    pub fn extract(
        &self,
        blueprint: BlueprintId,
        packet: Packet<'_>,
        image: &mut [u8],
    ) -> Result<Range<usize>, ParseError> {
        let mut machine = Machine::new(self);
        machine.memory.image = image;
        machine.receive(packet);
        machine.extract(blueprint, Loc::start(Region::Image))?;
        Ok(machine.cursor.map_or(0..0, |cursor| cursor.at..cursor.end))
    }

    /// Whether `later` replaces `earlier`, both images of the same blueprint. False where the
    /// program has no rule for it.
    #[must_use]
    pub fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        let Some(rule) = self
            .module
            .coalesce
            .iter()
            .find(|c| c.blueprint.0 == u32::from(blueprint))
        else {
            return false;
        };
        let mut machine = Machine::new(self);
        machine.memory.views = [earlier, later];
        let images = [0, 1].map(|i| Loc::start(Region::View(i)));
        machine
            .enter(rule.func, &images)
            .is_ok_and(|replaces| replaces != 0)
    }
}
