//! The worst case of functions and chains: records and their bytes, packets, raised events, units of data,
//! steps.
//!
//! A loop counts with its maximum number of rounds, and a branch with its more expensive side. A branch that
//! returns does not pay for the statements behind it. The engine runs a chain only if that much is free
//! (docs/language.md, Limits).

use hawser_ir::facts::{Exit, Facts, Tail};
use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{
    Arg, Bounds, Expr, FuncId, Instr, Module, Node, Place, Precondition, Processor, Stmt, StmtKind,
};

use crate::steps::Weights;

/// An upper bound of needs. Counts saturate instead of wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    pub(crate) records: u64,
    pub(crate) record_bytes: u64,
    pub(crate) packets: u64,
    pub(crate) raises: u64,
    /// The number of units of ordered data created.
    pub(crate) units: u64,
    /// The number of contexts created.
    pub(crate) creates: u64,
    /// The number of events of a parser.
    pub(crate) events: u64,
    /// The work, in the unit of [`crate::steps`].
    pub(crate) steps: u64,
}

impl Cost {
    /// Creates a cost that consists of work alone.
    fn of_steps(steps: u64) -> Cost {
        Cost { steps, ..Cost::default() }
    }

    fn zip(self, other: Cost, f: impl Fn(u64, u64) -> u64) -> Cost {
        Cost {
            records: f(self.records, other.records),
            record_bytes: f(self.record_bytes, other.record_bytes),
            packets: f(self.packets, other.packets),
            raises: f(self.raises, other.raises),
            units: f(self.units, other.units),
            creates: f(self.creates, other.creates),
            events: f(self.events, other.events),
            steps: f(self.steps, other.steps),
        }
    }

    /// The cost of both, one after the other.
    pub(crate) fn then(self, other: Cost) -> Cost {
        self.zip(other, u64::saturating_add)
    }

    /// The cost of one or the other.
    fn or(self, other: Cost) -> Cost {
        self.zip(other, u64::max)
    }

    fn times(self, rounds: u32) -> Cost {
        self.zip(self, |a, _| a.saturating_mul(rounds.into()))
    }

    /// Returns the bounds in the form that the module holds.
    pub(crate) fn bounds(self) -> Bounds {
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Bounds {
            records: count(self.records),
            record_bytes: count(self.record_bytes),
            packets: count(self.packets),
            raises: count(self.raises),
            units: count(self.units),
            steps: self.steps,
        }
    }
}

/// The cost of paths through some statements: of those that reach the end, of those that leave the function
/// before it, and of those that end the chain. `None` if there is no such path.
#[derive(Clone, Copy, Default)]
struct Paths {
    through: Option<Cost>,
    leaving: Option<Cost>,
    ending: Option<Cost>,
}

impl Paths {
    fn through(cost: Cost) -> Paths {
        Paths { through: Some(cost), ..Paths::default() }
    }

    fn or(self, other: Paths) -> Paths {
        Paths {
            through: either(self.through, other.through),
            leaving: either(self.leaving, other.leaving),
            ending: either(self.ending, other.ending),
        }
    }

    /// Continues the paths that reach the end with the next ones.
    fn then(self, next: Paths) -> Paths {
        let Some(so_far) = self.through else { return self };
        let after = |cost: Option<Cost>| cost.map(|cost| so_far.then(cost));
        Paths {
            through: after(next.through),
            leaving: either(self.leaving, after(next.leaving)),
            ending: either(self.ending, after(next.ending)),
        }
    }

    /// Returns the maximum over all paths.
    fn worst(self) -> Cost {
        either(either(self.through, self.leaving), self.ending).unwrap_or_default()
    }
}

fn either(a: Option<Cost>, b: Option<Cost>) -> Option<Cost> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.or(b)),
        (one, None) | (None, one) => one,
    }
}

/// Computes the cost of each function once. The call graph has no cycle.
pub(crate) struct Costs<'m> {
    module: &'m Module,
    weights: Weights<'m>,
    known: Vec<Option<Paths>>,
}

impl<'m> Costs<'m> {
    pub(crate) fn new(module: &'m Module, member_size: &'m [u32]) -> Costs<'m> {
        Costs {
            module,
            weights: Weights::new(module, member_size),
            known: vec![None; module.funcs.len()],
        }
    }

    /// Returns the worst case of one call of a function.
    pub(crate) fn function(&mut self, func: FuncId) -> Cost {
        self.call(func).worst()
    }

    /// Returns the worst case of a chain, over all results of the lookup.
    pub(crate) fn chain(&mut self, processors: &[Processor]) -> Cost {
        let mut worst = Cost::default();
        for scenario in scenarios(processors) {
            let running = processors.iter().filter(|p| runs(p.when, scenario));
            let paths = running.fold(Paths::through(Cost::default()), |paths, p| {
                paths.then(self.call(p.func))
            });
            worst = worst.or(paths.worst());
        }
        worst
    }

    /// The paths of a call as a step of its caller: a return reaches the end of the call.
    fn call(&mut self, func: FuncId) -> Paths {
        let index = func.0 as usize;
        if let Some(known) = self.known[index] {
            return known;
        }
        let module = self.module;
        let entry = Paths::through(Cost::of_steps(self.weights.entry(&module.funcs[index])));
        let paths = entry.then(self.paths(&module.funcs[index].body));
        let through = either(paths.through, paths.leaving);
        let call = Paths { through, leaving: None, ending: paths.ending };
        self.known[index] = Some(call);
        call
    }

    fn paths(&mut self, stmts: &[Stmt]) -> Paths {
        let mut paths = Paths::through(Cost::default());
        for stmt in stmts {
            if paths.through.is_none() {
                break;
            }
            paths = paths.then(self.statement(stmt));
        }
        paths
    }

    fn statement(&mut self, stmt: &Stmt) -> Paths {
        let mut parts = Parts { costs: self, paths: Paths::through(Cost::default()) };
        visit::visit_own(&mut parts, stmt);
        let parts = parts.paths;
        let own = match &stmt.kind {
            StmtKind::If(_, then, otherwise) => self.paths(then).or(self.paths(otherwise)),
            StmtKind::For { body, max, .. } => {
                // A round that breaks reaches the end, too; it is unknown which rounds do.
                let round = self.paths(body);
                let rounds = round.worst().then(Cost::of_steps(1)).times(*max);
                Paths {
                    through: Some(rounds),
                    leaving: round.leaving.map(|_| rounds),
                    ending: round.ending.map(|_| rounds),
                }
            }
            StmtKind::Emit(instruction) => Paths::through(self.instruction(instruction)),
            StmtKind::PushEvent { .. } => Paths::through(Cost { events: 1, ..Cost::default() }),
            other => {
                let done = Some(Cost::default());
                match other.effects().exit {
                    None | Some(Exit::Loop) => Paths::through(Cost::default()),
                    Some(Exit::Function) => Paths { leaving: done, ..Paths::default() },
                    Some(Exit::Run) => Paths { ending: done, ..Paths::default() },
                }
            }
        };
        parts.then(own)
    }

    fn instruction(&self, instruction: &Instr) -> Cost {
        let mut record = Record { module: self.module, bytes: 0 };
        instruction.facts(&mut record);
        let record_bytes = record.bytes.next_multiple_of(8) as u64;
        let one_if = |holds| u64::from(holds);
        Cost {
            records: 1,
            record_bytes,
            packets: one_if(matches!(instruction, Instr::PktGen { .. })),
            raises: one_if(matches!(instruction, Instr::Raise { .. })),
            units: one_if(matches!(
                instruction,
                Instr::NewTxOrderedData { .. } | Instr::NewRxOrderedData { .. }
            )),
            creates: one_if(matches!(instruction, Instr::NewCtx { .. })),
            events: 0,
            steps: record_bytes / 8,
        }
    }
}

/// Adds up the size of an instruction's record.
struct Record<'m> {
    module: &'m Module,
    bytes: usize,
}

impl Facts<'_> for Record<'_> {
    fn record(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    fn tail(&mut self, tail: Tail) {
        let module = self.module;
        self.bytes += match tail {
            Tail::Image(id) => module.structure(module.blueprints[id.0 as usize].body).size as usize,
            Tail::Event(event) => module.event_size(event),
            Tail::Signal(id) => module.structure(module.signals[id.0 as usize].1).size as usize,
            Tail::Numbers(count) => 8 * count,
        };
    }
}

/// Adds up the costs of a statement's parts.
struct Parts<'c, 'm> {
    costs: &'c mut Costs<'m>,
    paths: Paths,
}

impl Parts<'_, '_> {
    fn add_steps(&mut self, steps: u64) {
        self.paths = self.paths.then(Paths::through(Cost::of_steps(steps)));
    }
}

impl Visitor<'_> for Parts<'_, '_> {
    fn stmt(&mut self, stmt: &Stmt) {
        self.add_steps(self.costs.weights.statement(&stmt.kind));
    }

    fn expr(&mut self, expr: &Expr) {
        self.add_steps(self.costs.weights.expr(expr));
    }

    fn place(&mut self, place: &Place, _: PlaceAccess) {
        self.add_steps(self.costs.weights.place(place));
    }

    fn call(&mut self, func: FuncId, _: &[Arg]) {
        self.paths = self.paths.then(self.costs.call(func));
    }
}

/// The cases that a chain can meet: no context found, or a context of each type that it asks for.
pub(crate) fn scenarios(processors: &[Processor]) -> Vec<Precondition> {
    let mut cases = vec![Precondition::NotFound];
    for processor in processors {
        if matches!(processor.when, Precondition::Found(_)) && !cases.contains(&processor.when) {
            cases.push(processor.when);
        }
    }
    cases
}

/// True if a processor runs in a case.
pub(crate) fn runs(when: Precondition, case: Precondition) -> bool {
    when == Precondition::Always || when == case
}
