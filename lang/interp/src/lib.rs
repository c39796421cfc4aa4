//! The interpreter, which defines the meaning of a program.
//!
//! It walks the intermediate form directly. Every other back end agrees with it, byte for byte, on contexts
//! and instruction records.
//!
//! * [`memory`]: regions of bytes; reading outside yields zero, writing outside has no effect
//! * [`machine`]: one run, its frames and calls
//! * [`place`], [`expr`], [`stmt`], [`emit`]: one function per kind of node
//! * [`containers`]: lists, sorted lists, windows
//! * [`steps`]: the actions of an observed run, with their places in the source
//! * [`halted`]: a chain that is halted before one of its statements, and expressions over it
//! * [`chain`], [`parse`]: the entry points for an event and for an input
//! * [`extract`], [`options`], [`build`], [`wire`], [`bits`], [`checksum`]: packets
//!
//! Invariants: no input, event or context causes a panic; only a module that no checker would produce can. An
//! event causes no allocation. There is no clock, no randomness and no I/O.

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
mod options;
mod parse;
mod place;
mod prepared;
mod steps;
mod stmt;
mod unsupported;
mod wire;

pub use halted::{Halted, Variable};
pub use steps::{Call, LastingMemory, Statement, Steps, Write};
pub use unsupported::Unsupported;

use std::ops::Range;
use std::sync::Arc;

use hawser_ir::abi::{Built, ChainOutcome, Packet, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions};
use hawser_ir::{BlueprintId, Module};

use crate::machine::Machine;
use crate::memory::{Loc, Region};
use crate::prepared::Prepared;

/// A program that is ready to run. It is reentrant and can be shared between threads.
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
    /// If the program contains a construct that cannot run yet.
    pub fn new(module: Arc<Module>, params: Vec<u64>) -> Result<Interpreter, Unsupported> {
        if let Some(unsupported) = unsupported::unsupported(&module) {
            return Err(unsupported);
        }
        let prepared = Prepared::new(&module);
        let typed = module.params.iter().zip(params);
        let params = typed
            .map(|(param, value)| hawser_ir::number::reduce(value, &param.ty))
            .collect();
        Ok(Interpreter { module, params, prepared })
    }

    #[must_use]
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// Returns the values of its params, in the module's order.
    #[must_use]
    pub fn params(&self) -> &[u64] {
        &self.params
    }

    /// Turns an input into events, which are appended to `out` in order. `parser` is an index in
    /// [`Module::parsers`].
    ///
    /// # Errors
    /// Returns the reason why the input is dropped; `out` is unchanged in that case.
    pub fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        parse::parse(self, parser, input, out, None)
    }

    /// Like [`Interpreter::parse`], but also records in `steps` the headers that were parsed. The previous
    /// contents of `steps` are discarded.
    ///
    /// # Errors
    /// Returns the reason why the input is dropped; the headers before the failure are recorded.
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

    /// Runs the chain of one event (header first) and appends its records to `out`. Contexts and the
    /// scratchpad are changed in place.
    pub fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        chain::react(self, event, memory, out, None, None)
    }

    /// Like [`Interpreter::react`], but also records in `steps` the processors that ran. For each record and
    /// each change of a context, `steps` has the statement that caused it. The previous contents of `steps`
    /// are discarded.
    pub fn react_watched(
        &self,
        event: &mut [u8],
        memory: &mut Regions<'_>,
        out: &mut RecordBuf,
        steps: &mut Steps,
    ) -> ChainOutcome {
        steps.begin(out.bytes().len());
        chain::react(self, event, memory, out, Some(steps), None)
    }

    /// Writes the header of one packet of a `pkt_gen` to `header`.
    ///
    /// The caller calls it for `segment.index` 0, 1, … in order. The segmentation rules and the payload's
    /// length change `image` in place: `prev.data.len` of the next packet is `segment.len` of this one.
    pub fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let mut machine = Machine::new(self);
        machine.memory.image = image;
        machine.build(packet, segment, header)
    }

    /// Parses one header of a packet into `image`, verifies its computed fields, and returns the range of the
    /// packet's bytes that is its payload.
    ///
    /// # Errors
    /// Returns the fault of the packet; `image` is zero in that case.
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

    /// True if `later` replaces `earlier`, both being images of the same blueprint. False if the program has
    /// no rule for the blueprint.
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
