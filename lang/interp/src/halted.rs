//! A chain that is halted before one of its statements: its memory, its call stack, and expressions over
//! both.

use hawser_ir::abi::EventHeader;
use hawser_ir::buf::{RecordBuf, Regions, event_header};
use hawser_ir::{ContextId, FuncId, FuncParam, Module, Ty};

use crate::Interpreter;
use crate::chain;
use crate::machine::{Halt, Machine, Setting};
use crate::memory::{Loc, Region};
use crate::steps::{Call, LastingMemory, Steps};

/// The memory of a chain before it ran, or at the point where it halted.
#[derive(Clone, Debug, Default)]
pub struct Halted {
    /// The event's bytes, header first.
    pub event: Vec<u8>,
    /// The keyed context.
    pub keyed: Option<(ContextId, Vec<u8>)>,
    /// The slot for a new context.
    pub fresh: Option<Vec<u8>>,
    /// The `GLOBAL` contexts, by type.
    pub globals: Vec<Vec<u8>>,
    /// The scratchpad.
    pub scratch: Vec<u8>,
    /// The running functions, the processor first; empty before and after a chain.
    pub calls: Vec<Call>,
    /// The frames of these functions, and the targets of their references.
    stack: Vec<u8>,
    refs: Vec<Loc>,
    pub(crate) setting: Setting,
}

/// A variable and its place.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub ty: Ty,
    loc: Loc,
}

impl Variable {
    /// Returns a variable that covers a whole region.
    #[must_use]
    pub fn whole(name: impl Into<String>, ty: Ty, memory: LastingMemory) -> Variable {
        let region = match memory {
            LastingMemory::Event => Region::Event,
            LastingMemory::Keyed => Region::Keyed,
            LastingMemory::Fresh => Region::Fresh,
            LastingMemory::Global(context) => Region::Global(context.0),
            LastingMemory::Scratch => Region::Scratch,
        };
        Variable { name: name.into(), ty, loc: Loc::start(region) }
    }
}

impl Variable {
    /// True if it belongs to a function, the running one or a caller.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.loc.region == Region::Stack
    }
}

impl Halted {
    /// Returns the variables of one of the running functions: its parameters, and all variables that it
    /// declares anywhere.
    #[must_use]
    pub fn variables(&self, module: &Module, call: &Call) -> Vec<Variable> {
        let Some(function) = module.funcs.get(call.func.0 as usize) else {
            return Vec::new();
        };
        let references = function.params.iter().filter_map(|param| match param {
            FuncParam::Value { .. } => None, // among the locals
            FuncParam::Ref { name, ty } => Some((name, ty)),
        });
        let references = references.enumerate().map(|(number, (name, ty))| Variable {
            name: name.clone(),
            ty: ty.clone(),
            loc: self.refs.get(call.refs + number).copied().unwrap_or(Loc::NOWHERE),
        });
        let locals = function.locals.iter().enumerate();
        let named = locals.filter(|(number, local)| local.name != format!("t{number}"));
        let locals = named.map(|(_, local)| Variable {
            name: local.name.clone(),
            ty: local.ty.clone(),
            loc: Loc { region: Region::Stack, at: call.base + local.offset as usize },
        });
        references
            .chain(locals)
            .filter(|variable| !variable.name.is_empty())
            .collect()
    }

    /// Calls a function of the program on a copy of this memory. The function takes references to variables
    /// and to its result. Returns the bytes of the result, or `None` if the function did not complete.
    #[must_use]
    pub fn evaluate(
        &self,
        program: &Interpreter,
        func: FuncId,
        variables: &[Variable],
        result: &Ty,
    ) -> Option<Vec<u8>> {
        let mut memory = self.clone();
        let size = program.prepared.layout(&program.module).size(result);
        let mut image = vec![0; size as usize];
        let mut records = RecordBuf::default();
        let mut machine = Machine::new(program);
        machine.setting = memory.setting;
        if memory.event.len() >= size_of::<EventHeader>() {
            machine.setting.now = event_header(&memory.event).now;
        }
        machine.setting.keyed = memory.keyed.as_ref().map(|(id, _)| *id);
        machine.memory.event = &mut memory.event;
        if let Some((_, bytes)) = &mut memory.keyed {
            machine.memory.keyed = bytes;
        }
        if let Some(bytes) = &mut memory.fresh {
            machine.memory.fresh = bytes;
        }
        machine.memory.globals = &mut memory.globals;
        machine.memory.scratch = &mut memory.scratch;
        machine.memory.image = &mut image;
        machine.memory.stack.extend_from_slice(&memory.stack);
        machine.refs.extend_from_slice(&memory.refs);
        machine.records = Some(&mut records);
        let into = Loc::start(Region::Image);
        let args: Vec<Loc> = variables
            .iter()
            .map(|variable| variable.loc)
            .chain([into])
            .collect();
        let worked = machine.enter(func, &args).is_ok();
        drop(machine);
        worked.then_some(image)
    }

    /// Returns the bytes of a variable.
    #[must_use]
    pub fn bytes_of(&self, program: &Interpreter, variable: &Variable) -> Vec<u8> {
        let whole: &[u8] = match variable.loc.region {
            Region::Stack => &self.stack,
            Region::Event => &self.event,
            Region::Keyed => self.keyed.as_ref().map_or(&[], |(_, bytes)| bytes),
            Region::Fresh => self.fresh.as_deref().unwrap_or(&[]),
            Region::Global(context) => self.globals.get(context as usize).map_or(&[], Vec::as_slice),
            Region::Scratch => &self.scratch,
            Region::Nowhere | Region::Image | Region::Previous | Region::View(_) => &[],
        };
        let size = program.prepared.layout(&program.module).size(&variable.ty) as usize;
        let from = variable.loc.at.min(whole.len());
        let mut bytes = whole[from..(from + size).min(whole.len())].to_vec();
        bytes.resize(size, 0);
        bytes
    }

    /// True if the chain has created its new context.
    #[must_use]
    pub fn has_created(&self) -> bool {
        self.setting.created
    }
}

impl Interpreter {
    /// Runs the chain of an event on a copy of the memory before it, and records the statements. `wanted`
    /// selects the signals that are recorded.
    #[must_use]
    pub fn walk(&self, before: &Halted, wanted: u64) -> Steps {
        let mut steps = Steps::of_statements();
        self.watch(&mut before.clone(), wanted, &mut steps, None);
        steps
    }

    /// Runs the chain up to the statement with this index among the executed statements, or to its end.
    #[must_use]
    pub fn halt(&self, before: &Halted, statement: usize, wanted: u64) -> Halted {
        let (mut memory, mut at) = (before.clone(), Halted::default());
        let mut steps = Steps::of_statements();
        steps.halt_before = Some(statement);
        self.watch(&mut memory, wanted, &mut steps, Some(&mut at));
        Halted {
            calls: at.calls,
            stack: at.stack,
            refs: at.refs,
            setting: at.setting,
            ..memory
        }
    }

    fn watch(&self, memory: &mut Halted, wanted: u64, steps: &mut Steps, at: Option<&mut Halted>) {
        let mut records = RecordBuf::default();
        records.want(wanted);
        steps.begin(records.bytes().len());
        let Halted { event, keyed, fresh, globals, scratch, .. } = memory;
        let mut regions = Regions {
            keyed: keyed.as_mut().map(|(id, bytes)| (*id, bytes.as_mut_slice())),
            fresh: fresh.as_deref_mut(),
            globals,
            scratch,
        };
        chain::react(self, event, &mut regions, &mut records, Some(steps), at);
    }
}

impl Machine<'_> {
    /// Saves the state of the chain for the observer.
    #[cold]
    pub(crate) fn halt(&mut self) -> Halt {
        if let (Some(halted), Some(steps)) = (&mut self.halted, &self.memory.steps) {
            halted.calls.clone_from(&steps.calls);
            halted.stack.clone_from(&self.memory.stack);
            halted.refs.clone_from(&self.refs);
        }
        Halt::Halted
    }
}
