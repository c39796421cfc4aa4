//! The state of one run: memory, the running function's frame, and the destinations of results.
//!
//! A run is one chain, one parser, one header or one comparison. Its stacks are taken from the thread and
//! returned to it, so that a run does not allocate once they have grown.

use std::cell::Cell;

use hawser_ir::abi::{MAX_RULE_ARGS, Packet, ParseError};
use hawser_ir::buf::{EventBuf, RecordBuf};
use hawser_ir::number::ScalarShape;
use hawser_ir::{Arg, Base, ContextId, Func, FuncId, FuncParam, Layout, Module, Place};

use crate::Interpreter;
use crate::halted::Halted;
use crate::memory::{Loc, Region, RunMemory};

/// The reasons why a run ends before its last statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// `done;`
    Done,
    /// `refuse(code);`
    Refused(u32),
    /// A false `assert`.
    Assert(u32),
    /// A parser drops its input.
    Drop(ParseError),
    /// The observer wants the run to halt here.
    Halted,
}

/// The continuation after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlFlow {
    Next,
    Break,
    Continue,
    Return(u64),
}

/// Quantities of the packet being built or parsed, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketQuantities {
    pub(crate) total: usize,
    pub(crate) header: usize,
    pub(crate) data: usize,
}

/// The position of a parser in its packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) packet: Packet<'a>,
    /// The offset of the next byte.
    pub(crate) at: usize,
    /// The end offset, exclusive. It includes all bytes after `head`, but not the trailers that were read.
    pub(crate) end: usize,
}

/// The circumstances of a chain, beside its memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setting {
    /// `ev.now`, in nanoseconds.
    pub(crate) now: u64,
    /// The type of the keyed context, if one was found.
    pub(crate) keyed: Option<ContextId>,
    /// The type of the context in the reserved slot, if there is one.
    pub(crate) fresh: Option<ContextId>,
    /// True if `new_ctx` was reached.
    pub(crate) created: bool,
}

/// The running function's part of the stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    /// The start of its variables in [`RunMemory::stack`].
    pub(crate) base: usize,
    /// The start of its references in [`Machine::refs`].
    pub(crate) refs: usize,
}

pub(crate) struct Machine<'a> {
    pub(crate) program: &'a Interpreter,
    pub(crate) memory: RunMemory<'a>,
    pub(crate) setting: Setting,
    pub(crate) records: Option<&'a mut RecordBuf>,
    pub(crate) events: Option<(&'a mut EventBuf, usize)>,
    pub(crate) cursor: Option<Cursor<'a>>,
    /// The region of [`Base::Keyed`]: the keyed context, except in the invariants of other contexts.
    pub(crate) keyed: Region,
    /// The location of [`Base::Blueprint`].
    pub(crate) blueprint: Loc,
    pub(crate) facts: PacketQuantities,
    pub(crate) rule_args: [u64; MAX_RULE_ARGS],
    /// Bytes of a record that are not in memory.
    pub(crate) spare: Vec<u8>,
    /// Values that a comparison with several elements reuses.
    pub(crate) values: Vec<u64>,
    pub(crate) refs: Vec<Loc>,
    pub(crate) frame: Frame,
    /// The destination of the state at a halt.
    pub(crate) halted: Option<&'a mut Halted>,
}

/// Stacks that outlive a run.
#[derive(Default)]
struct Stacks {
    stack: Vec<u8>,
    previous: Vec<u8>,
    spare: Vec<u8>,
    values: Vec<u64>,
    refs: Vec<Loc>,
}

thread_local! {
    static STACKS: Cell<Stacks> = Cell::default();
}

impl<'a> Machine<'a> {
    /// Creates a machine with empty memory and the thread's stacks. A nested run would find them taken and
    /// grow its own.
    pub(crate) fn new(program: &'a Interpreter) -> Machine<'a> {
        let Stacks { stack, previous, spare, values, refs } = STACKS.take();
        Machine {
            program,
            memory: RunMemory { stack, previous, ..RunMemory::default() },
            setting: Setting::default(),
            records: None,
            events: None,
            cursor: None,
            keyed: Region::Keyed,
            blueprint: Loc::NOWHERE,
            facts: PacketQuantities::default(),
            rule_args: [0; MAX_RULE_ARGS],
            spare,
            values,
            refs,
            frame: Frame::default(),
            halted: None,
        }
    }

    pub(crate) fn module(&self) -> &'a Module {
        &self.program.module
    }

    pub(crate) fn layout(&self) -> Layout<'a> {
        self.program.prepared.layout(&self.program.module)
    }

    /// Returns the start of a region, or the target of the n-th reference.
    #[inline]
    pub(crate) fn base(&self, base: Base) -> Loc {
        match base {
            Base::Local => Loc { region: Region::Stack, at: self.frame.base },
            Base::Ref(n) => self
                .refs
                .get(self.frame.refs + usize::from(n))
                .copied()
                .unwrap_or(Loc::NOWHERE),
            Base::Event => Loc::start(Region::Event),
            Base::Keyed => Loc::start(self.keyed),
            Base::Fresh => Loc::start(Region::Fresh),
            Base::Global(id) => Loc::start(Region::Global(id.0)),
            Base::Scratch => Loc::start(Region::Scratch),
            Base::Blueprint => self.blueprint,
        }
    }

    /// Calls a function from outside, with references as its only arguments.
    pub(crate) fn enter(&mut self, id: FuncId, args: &[Loc]) -> Result<u64, Halt> {
        let function = self.function(id);
        let frame = self.open(function);
        self.refs.extend_from_slice(args);
        self.run(id, frame)
    }

    /// Calls a processor with its bound arguments.
    pub(crate) fn process(&mut self, id: FuncId, args: &[Place]) -> Result<u64, Halt> {
        let function = self.function(id);
        let frame = self.open(function);
        for place in args {
            let loc = self.locate(place)?;
            self.refs.push(loc);
        }
        self.run(id, frame)
    }

    /// Calls a helper. Its arguments are evaluated in the caller's frame, in order.
    pub(crate) fn call(&mut self, id: FuncId, args: &[Arg]) -> Result<u64, Halt> {
        let function = self.function(id);
        let frame = self.open(function);
        for (arg, param) in args.iter().zip(&function.params) {
            match arg {
                Arg::Ref(place) => {
                    let loc = self.locate(place)?;
                    self.refs.push(loc);
                }
                Arg::Value(expr) => {
                    let value = self.eval(expr)?;
                    if let FuncParam::Value { ty, offset, .. } = param {
                        let loc = Loc { region: Region::Stack, at: frame.base + *offset as usize };
                        self.memory.write(loc, ScalarShape::from_type(ty).size(), value);
                    }
                }
            }
        }
        self.run(id, frame)
    }

    fn function(&self, id: FuncId) -> &'a Func {
        &self.module().funcs[id.0 as usize]
    }

    /// Allocates a function's variables, zeroed. The caller's frame remains the current one.
    fn open(&mut self, function: &Func) -> Frame {
        let frame = Frame { base: self.memory.stack.len(), refs: self.refs.len() };
        let size = (function.frame as usize).next_multiple_of(8);
        self.memory.stack.resize(frame.base + size, 0);
        frame
    }

    /// Runs a function's body in the frame that was opened for it, and closes the frame.
    fn run(&mut self, id: FuncId, frame: Frame) -> Result<u64, Halt> {
        let caller = std::mem::replace(&mut self.frame, frame);
        let at = self.memory.steps.as_mut().map(|steps| {
            steps.enter(id, frame.base, frame.refs);
            steps.at
        });
        let flow = self.block(&self.function(id).body);
        if let (Some(steps), Some(at)) = (&mut self.memory.steps, at) {
            steps.at = at;
            steps.leave();
        }
        self.frame = caller;
        self.memory.stack.truncate(frame.base);
        self.refs.truncate(frame.refs);
        match flow? {
            ControlFlow::Return(value) => Ok(value),
            ControlFlow::Next | ControlFlow::Break | ControlFlow::Continue => Ok(0),
        }
    }
}

impl Drop for Machine<'_> {
    /// Returns the stacks to the thread.
    fn drop(&mut self) {
        use std::mem::take;
        let mut stacks = Stacks {
            stack: take(&mut self.memory.stack),
            previous: take(&mut self.memory.previous),
            spare: take(&mut self.spare),
            values: take(&mut self.values),
            refs: take(&mut self.refs),
        };
        stacks.stack.clear();
        stacks.values.clear();
        stacks.refs.clear();
        STACKS.set(stacks);
    }
}
