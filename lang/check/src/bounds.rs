//! The worst case of functions and chains: records, their bytes, packets, raised events.
//!
//! Loops count as often as they may run, branches with their more expensive side, and a branch
//! that returns does not pay for what follows it. The engine runs a chain only if that much is
//! free (language decision 1).

use hawser_ir::abi::{
    ContextRec, ExternRec, NotifyRec, PacketRec, QueueRec, RaiseRec, SignalRec, TimerRec, UnitRec,
};
use hawser_ir::{Bounds, Instr, Module, Processor, Stmt, StmtKind, When};

use crate::walk;

/// What something can need at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    pub(crate) records: u32,
    pub(crate) record_bytes: u32,
    pub(crate) packets: u32,
    pub(crate) raises: u32,
    /// Contexts made.
    pub(crate) creates: u32,
    /// Events of a parser.
    pub(crate) events: u32,
}

impl Cost {
    fn zip(self, other: Cost, f: impl Fn(u32, u32) -> u32) -> Cost {
        Cost {
            records: f(self.records, other.records),
            record_bytes: f(self.record_bytes, other.record_bytes),
            packets: f(self.packets, other.packets),
            raises: f(self.raises, other.raises),
            creates: f(self.creates, other.creates),
            events: f(self.events, other.events),
        }
    }

    /// One after the other.
    pub(crate) fn then(self, other: Cost) -> Cost {
        self.zip(other, u32::saturating_add)
    }

    /// One or the other.
    fn or(self, other: Cost) -> Cost {
        self.zip(other, u32::max)
    }

    fn times(self, rounds: u32) -> Cost {
        self.zip(self, |a, _| a.saturating_mul(rounds))
    }

    /// As the module states it.
    pub(crate) fn bounds(self) -> Bounds {
        let Cost { records, record_bytes, packets, raises, .. } = self;
        Bounds { records, record_bytes, packets, raises }
    }
}

/// The cost of paths through statements: of those that reach their end, and of those that leave
/// the function before it.
#[derive(Clone, Copy, Default)]
struct Paths {
    through: Option<Cost>,
    leaving: Option<Cost>,
}

fn either(a: Option<Cost>, b: Option<Cost>) -> Option<Cost> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.or(b)),
        (one, None) | (None, one) => one,
    }
}

/// Computes costs once for each function. The call graph has no cycle.
pub(crate) struct Costs<'m> {
    module: &'m Module,
    known: Vec<Option<Cost>>,
}

impl<'m> Costs<'m> {
    pub(crate) fn new(module: &'m Module) -> Costs<'m> {
        Costs { module, known: vec![None; module.funcs.len()] }
    }

    /// The most that one call of a function needs.
    pub(crate) fn function(&mut self, func: hawser_ir::FuncId) -> Cost {
        let index = func.0 as usize;
        if let Some(known) = self.known[index] {
            return known;
        }
        let module = self.module;
        let paths = self.paths(&module.funcs[index].body);
        let cost = either(paths.through, paths.leaving).unwrap_or_default();
        self.known[index] = Some(cost);
        cost
    }

    /// The most that a chain needs: whichever context is found, or none.
    pub(crate) fn chain(&mut self, processors: &[Processor]) -> Cost {
        let mut worst = Cost::default();
        for scenario in scenarios(processors) {
            let running = processors.iter().filter(|p| runs(p.when, scenario));
            let total = running.fold(Cost::default(), |sum, p| sum.then(self.function(p.func)));
            worst = worst.or(total);
        }
        worst
    }

    fn paths(&mut self, stmts: &[Stmt]) -> Paths {
        let mut through = Some(Cost::default());
        let mut leaving = None;
        for stmt in stmts {
            let Some(so_far) = through else { break };
            let step = self.statement(&stmt.kind);
            leaving = either(leaving, step.leaving.map(|cost| so_far.then(cost)));
            through = step.through.map(|cost| so_far.then(cost));
        }
        Paths { through, leaving }
    }

    fn statement(&mut self, stmt: &StmtKind) -> Paths {
        let mut own = Cost::default();
        walk::calls(stmt, &mut |func, _| own = own.then(self.function(func)));
        match stmt {
            StmtKind::If(_, then, otherwise) => {
                let (then, otherwise) = (self.paths(then), self.paths(otherwise));
                let after = |cost: Option<Cost>| cost.map(|cost| own.then(cost));
                Paths {
                    through: after(either(then.through, otherwise.through)),
                    leaving: after(either(then.leaving, otherwise.leaving)),
                }
            }
            StmtKind::For { body, max, .. } => {
                let body = self.paths(body);
                // A round that breaks off leaves the body, too; which rounds do is not known.
                let round = either(body.through, body.leaving).unwrap_or_default();
                Paths {
                    through: Some(own.then(round.times(*max))),
                    leaving: body.leaving.map(|_| own.then(round.times(*max))),
                }
            }
            StmtKind::Return(_) | StmtKind::Done | StmtKind::Refuse(_) | StmtKind::Drop => {
                Paths { through: None, leaving: Some(own) }
            }
            StmtKind::Emit(instruction) => {
                Paths { through: Some(own.then(self.instruction(instruction))), leaving: None }
            }
            StmtKind::PushEvent { .. } => {
                Paths { through: Some(own.then(Cost { events: 1, ..Cost::default() })), leaving: None }
            }
            StmtKind::Store(..)
            | StmtKind::Copy(..)
            | StmtKind::Init(_)
            | StmtKind::MakeId(..)
            | StmtKind::MakeData { .. }
            | StmtKind::MakeIpv4(..)
            | StmtKind::Container { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Call(..)
            | StmtKind::Assert(..)
            | StmtKind::Extract { .. }
            | StmtKind::SetIds { .. } => Paths { through: Some(own), leaving: None },
        }
    }

    fn instruction(&self, instruction: &Instr) -> Cost {
        let module = self.module;
        let size = |id: hawser_ir::StructId| module.structure(id).size as usize;
        let (bytes, packets, raises, creates) = match instruction {
            Instr::NewTxOrderedData { .. }
            | Instr::AddTxData { .. }
            | Instr::TxFlushAndNotify { .. }
            | Instr::NewRxOrderedData { .. }
            | Instr::AddRxDataSeg { .. }
            | Instr::RxFlushAndNotify { .. } => (size_of::<UnitRec>(), 0, 0, 0),
            Instr::PktGen { blueprint, .. } => {
                let image = size(module.blueprints[blueprint.0 as usize].body);
                (size_of::<PacketRec>() + image, 1, 0, 0)
            }
            Instr::TimerStart { .. } | Instr::TimerStop { .. } => (size_of::<TimerRec>(), 0, 0, 0),
            Instr::NewCtx { .. } => (size_of::<ContextRec>(), 0, 0, 1),
            Instr::DelCtx { .. } | Instr::AddId { .. } | Instr::DropId { .. } => {
                (size_of::<ContextRec>(), 0, 0, 0)
            }
            Instr::Notify { .. } => (size_of::<NotifyRec>(), 0, 0, 0),
            Instr::Raise { event, .. } => {
                (size_of::<RaiseRec>() + size(module.events[event.0 as usize].body), 0, 1, 0)
            }
            Instr::Signal { signal, .. } => {
                (size_of::<SignalRec>() + size(module.signals[signal.0 as usize].1), 0, 0, 0)
            }
            Instr::SetQueueRate { .. } | Instr::SetQueuePrio { .. } | Instr::QueueReset { .. } => {
                (size_of::<QueueRec>(), 0, 0, 0)
            }
            Instr::Extern { args, .. } => (size_of::<ExternRec>() + 8 * args.len(), 0, 0, 0),
        };
        let record_bytes = u32::try_from(bytes.next_multiple_of(8)).unwrap_or(u32::MAX);
        Cost { records: 1, record_bytes, packets, raises, creates, events: 0 }
    }
}

/// The cases that a chain can meet: nothing found, or a context of each type that it asks for.
pub(crate) fn scenarios(processors: &[Processor]) -> Vec<When> {
    let mut cases = vec![When::NotFound];
    for processor in processors {
        if matches!(processor.when, When::Found(_)) && !cases.contains(&processor.when) {
            cases.push(processor.when);
        }
    }
    cases
}

/// Whether a processor runs in a case.
pub(crate) fn runs(when: When, case: When) -> bool {
    when == When::Always || when == case
}
