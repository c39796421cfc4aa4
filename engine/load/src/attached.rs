//! A program as machine code in which the chains that an attachment changed are interpreted.
//!
//! Both engines run on the same memory. The attachment was compiled together with the program's own text and
//! shares its contexts, events and packets byte for byte; this file verifies that. All other chains run as
//! before. Headers that the program itself never sends are built by the interpreter.

use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_ir::Module;
use hawser_ir::abi::{Built, ChainOutcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header};

use crate::{Interpreted, RunError};

/// A program with attachments.
pub struct Attached {
    /// The program without attachments.
    own: Arc<dyn Program>,
    /// The program with its attachments.
    changed: Interpreted,
    /// For each event, whether the attachments changed its chain.
    differs: Vec<bool>,
    /// For each blueprint, whether the program without attachments sends it and can therefore build it.
    builds: Vec<bool>,
    /// For each assertion of the program, its index in the program with attachments.
    asserts: Vec<u32>,
}

impl Attached {
    /// Combines a program with the same program after attachment. Both have the same param values.
    ///
    /// # Errors
    /// [`RunError::Memory`] if the two cannot share their memory.
    pub fn new(own: Arc<dyn Program>, changed: Interpreted) -> Result<Attached, RunError> {
        let (before, after) = (own.module(), changed.module());
        let other = |what| RunError::Memory { program: before.name.clone(), what };
        before.shares_memory_with(after).map_err(other)?;
        if !after.params.starts_with(&before.params) {
            return Err(other("params"));
        }
        let chains = before.chains.iter().zip(&after.chains);
        let differs = chains
            .map(|(before, after)| before.processors != after.processors)
            .collect();
        let place = |assert| {
            after
                .asserts
                .iter()
                .position(|other| other == assert)
                .map(|at| at as u32)
        };
        let asserts = before
            .asserts
            .iter()
            .map(place)
            .collect::<Option<_>>()
            .ok_or_else(|| other("asserts"))?;
        let builds = before.sent_blueprints();
        Ok(Attached { own, changed, differs, builds, asserts })
    }

    /// Returns the names of the events whose chains are interpreted.
    pub fn changed_events(&self) -> impl Iterator<Item = &str> {
        let events = self.module().events.iter().zip(&self.differs);
        events
            .filter(|(_, differs)| **differs)
            .map(|(event, _)| event.name.as_str())
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let events: Vec<&str> = self.changed_events().collect();
        f.debug_struct("Attached")
            .field("program", &self.module().name)
            .field("changed", &events)
            .finish()
    }
}

impl Program for Attached {
    fn module(&self) -> &Module {
        self.changed.module()
    }

    fn engine(&self) -> &'static str {
        self.own.engine()
    }

    fn params(&self) -> &[u64] {
        self.changed.params()
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        self.own.parse(parser, input, out)
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        let known = event.len() >= size_of::<hawser_ir::abi::EventHeader>();
        let number = if known {
            usize::from(event_header(event).event)
        } else {
            usize::MAX
        };
        if self.differs.get(number) == Some(&true) {
            return self.changed.react(event, memory, out);
        }
        match self.own.react(event, memory, out) {
            ChainOutcome::Assert(index) => {
                ChainOutcome::Assert(self.asserts.get(index as usize).copied().unwrap_or(index))
            }
            outcome => outcome,
        }
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let own = self.builds.get(usize::from(packet.blueprint)) == Some(&true);
        let program: &dyn Program = if own { &*self.own } else { &self.changed };
        program.build(packet, image, segment, header)
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        self.own.coalesce(blueprint, earlier, later)
    }
}
