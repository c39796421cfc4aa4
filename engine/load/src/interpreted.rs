//! Runs a module behind the engine's interface by interpretation.

use std::sync::Arc;

use hawser_engine::program::Program;
use hawser_interp::{Interpreter, Unsupported};
use hawser_ir::Module;
use hawser_ir::abi::{Built, ChainOutcome, PacketRec, ParseError, Segment};
use hawser_ir::buf::{EventBuf, Input, RecordBuf, Regions, event_header};

use crate::RunError;
use crate::bounds::BufferSnapshot;
use crate::unsupported::unsupported;

/// An interpreted transport program, with the values of its params.
#[derive(Debug)]
pub struct Interpreted {
    interpreter: Interpreter,
}

impl Interpreted {
    /// Prepares a module. Params that are absent from `params` keep their defaults.
    ///
    /// # Errors
    /// Fails on a param that the program does not have, or on a construct that does not run yet.
    pub fn new(module: Module, params: &[(String, u64)]) -> Result<Interpreted, RunError> {
        let values = module.params_with(params)?;
        Ok(Interpreted::from_module(Arc::new(module), values)?)
    }

    /// Checks that the engine supports every construct of a program, since the language has more than the
    /// engine runs yet.
    ///
    /// # Errors
    /// The construct that does not run yet.
    pub fn runs(module: &Module) -> Result<(), Unsupported> {
        let values = module.params.iter().map(|param| param.default).collect();
        Interpreted::from_module(Arc::new(module.clone()), values).map(drop)
    }

    /// Like `Interpreted::new`, with the values of all params in the module's order.
    ///
    /// # Errors
    /// The construct that does not run yet.
    pub(crate) fn from_module(module: Arc<Module>, values: Vec<u64>) -> Result<Interpreted, Unsupported> {
        if let Some(unsupported) = unsupported(&module) {
            return Err(unsupported);
        }
        Interpreter::new(module, values).map(|interpreter| Interpreted { interpreter })
    }
}

impl Program for Interpreted {
    fn module(&self) -> &Module {
        self.interpreter.module()
    }

    fn engine(&self) -> &'static str {
        crate::Engine::Interp.name()
    }

    fn params(&self) -> &[u64] {
        self.interpreter.params()
    }

    fn parse(&self, parser: usize, input: Input<'_>, out: &mut EventBuf) -> Result<(), ParseError> {
        self.interpreter.parse(parser, input, out)
    }

    fn react(&self, event: &mut [u8], memory: &mut Regions<'_>, out: &mut RecordBuf) -> ChainOutcome {
        let before = cfg!(debug_assertions).then(|| BufferSnapshot::new(out));
        let outcome = self.interpreter.react(event, memory, out);
        debug_assert!(
            before.is_none_or(|before| before.is_within(self.module(), event_header(event).event, out)),
            "a chain exceeded its bounds"
        );
        outcome
    }

    fn build(&self, packet: &PacketRec, image: &mut [u8], segment: Segment, header: &mut [u8]) -> Built {
        self.interpreter.build(packet, image, segment, header)
    }

    fn coalesce(&self, blueprint: u16, earlier: &[u8], later: &[u8]) -> bool {
        self.interpreter.coalesce(blueprint, earlier, later)
    }
}
