//! A program with an attachment, run in two ways. One side interprets all of it. The other runs the program's
//! own machine code and interprets only the chains that the attachment changes, as an engine does.

use std::path::Path;
use std::sync::Arc;

use hawser_interp::Interpreter;
use hawser_ir::abi::{Built, ChainOutcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header};

use crate::comparison;
use crate::compile::Printed;
use crate::coverage::Coverage;
use crate::side::Side;

/// Both sides of the comparison.
pub struct Attached<'a> {
    whole: Printed,
    mixed: Mixed<'a>,
}

/// Machine code, with the changed chains interpreted.
struct Mixed<'a> {
    own: &'a dyn Side,
    changed: Interpreter,
    /// By event: true if the attachment changes its chain.
    differs: Vec<bool>,
    /// By blueprint: true if the machine code builds it.
    builds: Vec<bool>,
    /// By assert of the program: its index in the program with the attachment.
    asserts: Vec<u32>,
}

impl<'a> Attached<'a> {
    /// Attaches a text to a program whose machine code is `own`.
    ///
    /// # Errors
    /// If the checker finds errors, or if the two programs would not share their memory.
    pub fn new(printed: &Printed, own: &'a dyn Side, text: &str) -> Result<Attached<'a>, String> {
        let compilation = hawser_driver::attach(&printed.module, &[(Path::new("attached.mtp"), text)]);
        let Some(module) = compilation.module.as_ref().filter(|_| !compilation.failed()) else {
            return Err(compilation.render(false));
        };
        let (before, after) = (&printed.module, Arc::new(module.clone()));
        before
            .shares_memory_with(&after)
            .map_err(|what| format!("the attachment changed {what}"))?;
        if after.params != before.params || after.signals != before.signals {
            return Err("the attachment has no declarations, but the program has grown".to_owned());
        }
        let chains = before.chains.iter().zip(&after.chains);
        let differs = chains
            .map(|(before, after)| before.processors != after.processors)
            .collect();
        let builds = before.sent_blueprints();
        let place = |assert| {
            after
                .asserts
                .iter()
                .position(|other| other == assert)
                .map(|at| at as u32)
        };
        let asserts = before.asserts.iter().map(place).collect::<Option<_>>();
        let asserts = asserts.ok_or("the attachment lost an assertion")?;
        let made = || Interpreter::new(after.clone(), printed.params.clone());
        let whole = Printed {
            name: printed.name.clone(),
            text: format!("{}{text}", printed.text),
            module: after.clone(),
            params: printed.params.clone(),
            interpreter: made().map_err(|unsupported| unsupported.to_string())?,
            c: String::new(),
            symbol: String::new(),
        };
        Ok(Attached {
            whole,
            mixed: Mixed {
                own,
                changed: made().map_err(|unsupported| unsupported.to_string())?,
                differs,
                builds,
                asserts,
            },
        })
    }

    /// Compares both sides; see [`comparison::compare`].
    ///
    /// # Errors
    /// Returns the number of the step and the difference between the sides.
    pub fn compare(
        &self,
        seed: u64,
        coverage: &mut Coverage,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), (usize, String)> {
        let changed = self.mixed.differs.iter().filter(|differs| **differs).count();
        (0..changed).for_each(|_| coverage.count("attached chain"));
        comparison::compare(&self.whole, &self.mixed, seed, coverage, progress)
    }
}

impl Side for Mixed<'_> {
    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        self.own.parse(parser, input, out)
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        if self.differs[usize::from(event_header(event).event)] {
            return self.changed.react(event, memory, out);
        }
        match self.own.react(event, memory, out) {
            ChainOutcome::Assert(index) => {
                // An index beyond the table is `Native`'s encoding of an invalid result.
                ChainOutcome::Assert(self.asserts.get(index as usize).copied().unwrap_or(index))
            }
            outcome => outcome,
        }
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        let own = self.builds[usize::from(packet.blueprint)];
        let side: &dyn Side = if own { self.own } else { &self.changed };
        side.build(packet, image, segment, header)
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        self.own.coalesce(blueprint, earlier, later)
    }
}
