//! Runs the chain of an event: its processors in order, then the invariants.

use hawser_ir::abi::ChainOutcome;
use hawser_ir::buf::{RecordBuf, Regions, event_header};
use hawser_ir::{Chain, ContextId, EventId, EventKind, Precondition, Ty};

use crate::Interpreter;
use crate::halted::Halted;
use crate::machine::{Halt, Machine, Setting};
use crate::memory::{Loc, Region};
use crate::steps::Steps;

/// Implements [`Interpreter::react`].
pub(crate) fn react(
    program: &Interpreter,
    event: &mut [u8],
    memory: &mut Regions<'_>,
    out: &mut RecordBuf,
    steps: Option<&mut Steps>,
    halted: Option<&mut Halted>,
) -> ChainOutcome {
    if event.len() < size_of::<hawser_ir::abi::EventHeader>() {
        return ChainOutcome::Done;
    }
    let header = event_header(event);
    let Some(chain) = program.module.chains.get(usize::from(header.event)) else {
        return ChainOutcome::Done;
    };
    let mut machine = Machine::new(program);
    machine.setting = Setting {
        now: header.now,
        keyed: memory.keyed.as_ref().map(|(id, _)| *id),
        fresh: memory.fresh.as_ref().and(chain.creates),
        created: false,
    };
    machine.memory.event = event;
    if let Some((_, bytes)) = &mut memory.keyed {
        machine.memory.keyed = bytes;
    }
    if let Some(bytes) = &mut memory.fresh {
        machine.memory.fresh = bytes;
    }
    machine.memory.globals = memory.globals;
    machine.memory.scratch = memory.scratch;
    machine.records = Some(out);
    machine.memory.steps = steps;
    machine.halted = halted;
    machine.disarm(EventId(u32::from(header.event)));
    let outcome = machine.chain(chain);
    if let Some(halted) = &mut machine.halted {
        halted.setting = machine.setting;
    }
    outcome
}

impl<'a> Machine<'a> {
    fn chain(&mut self, chain: &'a Chain) -> ChainOutcome {
        let outcome = match self.processors(chain) {
            Ok(()) => ChainOutcome::Done,
            Err(Halt::Done) => ChainOutcome::Stop,
            Err(Halt::Refused(code)) => return ChainOutcome::Refused(code),
            Err(Halt::Assert(index)) => return ChainOutcome::Assert(index),
            // Only parsers drop packets. A chain that did would end here.
            Err(Halt::Drop(_)) => ChainOutcome::Stop,
            Err(Halt::Halted) => return ChainOutcome::Stop,
        };
        self.broken_invariant(chain).map_or(outcome, ChainOutcome::Assert)
    }

    fn processors(&mut self, chain: &'a Chain) -> Result<(), Halt> {
        for processor in &chain.processors {
            let runs = match processor.when {
                Precondition::Always => true,
                Precondition::Found(context) => self.setting.keyed == Some(context),
                Precondition::NotFound => self.setting.keyed.is_none(),
            };
            if runs {
                if let Some(steps) = &mut self.memory.steps {
                    steps.processors.push(processor.func);
                }
                self.process(processor.func, &processor.args)?;
            }
        }
        Ok(())
    }

    /// Sets the field of an expired timer to zero, so that its own event finds it unarmed. If several timers
    /// raise this event, the earliest one has expired.
    fn disarm(&mut self, event: EventId) {
        let (Some(context), Some(EventKind::Timer)) = (
            self.setting.keyed,
            self.module().events.get(event.0 as usize).map(|e| e.kind),
        ) else {
            return;
        };
        let timers = &self.module().contexts[context.0 as usize].timers;
        let mine = timers.iter().filter(|t| t.event == event);
        let fields = mine.map(|t| Loc { region: Region::Keyed, at: t.offset as usize });
        let armed = fields.filter(|loc| self.memory.read(*loc, 8) != 0);
        if let Some(loc) = armed.min_by_key(|loc| self.memory.read(*loc, 8)) {
            self.store_at(loc, &Ty::Timer, 0);
        }
    }

    /// Returns the first invariant that does not hold, among all contexts that the chain could change.
    fn broken_invariant(&mut self, chain: &'a Chain) -> Option<u32> {
        let keyed = self.setting.keyed.map(|id| (id, Region::Keyed));
        let fresh = self
            .setting
            .fresh
            .filter(|_| self.setting.created)
            .map(|id| (id, Region::Fresh));
        let globals = chain.globals.iter().map(|id| (*id, Region::Global(id.0)));
        let broken = keyed
            .into_iter()
            .chain(fresh)
            .chain(globals)
            .find_map(|(id, region)| {
                self.keyed = region;
                self.broken_invariant_of(id)
            });
        self.keyed = Region::Keyed;
        broken
    }

    fn broken_invariant_of(&mut self, context: ContextId) -> Option<u32> {
        let invariants = &self.module().contexts[context.0 as usize].invariants;
        invariants
            .iter()
            .find(|(expr, _)| self.is_true(expr) == Ok(false))
            .map(|(_, index)| *index)
    }
}
