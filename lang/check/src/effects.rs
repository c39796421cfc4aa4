//! Forbidden effects along a chain (docs/language.md, Events, contexts, chains): a refusal after a change,
//! and a packet's address that is kept in a context.
//!
//! Every chain is interpreted abstractly, in each case that it can meet, processor by processor. The state of
//! a path records whether something was changed or issued on it. Functions are run once for each state and
//! for each origin of their reference arguments.

use std::collections::{HashMap, HashSet};

use hawser_ir::facts::{Exit, Facts, PlaceAccess};
use hawser_ir::visit;
use hawser_ir::{
    Arg, Base, EventKind, Expr, ExprKind, FuncId, Module, Node, Place, Span, Stmt, StmtKind, Ty,
};
use hawser_syntax::Diagnostic;

use crate::bounds::{runs, scenarios};
use crate::codes;
use crate::state::Checker;

/// The owner of the memory at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum MemoryOwner {
    /// A context that existed before the chain.
    Existing,
    /// The context that the chain creates.
    Fresh,
    /// The event, variables or the scratchpad. They do not outlive the chain.
    Passing,
}

/// The state of a path so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Path {
    /// No path arrives.
    None,
    Clean,
    /// A context was written, or an instruction issued, at this place.
    Dirty(SourceRange),
}

impl Path {
    fn join(self, other: Path) -> Path {
        match (self, other) {
            (Path::None, path) | (path, Path::None) => path,
            (Path::Dirty(..), _) => self,
            (Path::Clean, other) => other,
        }
    }
}

/// A violation: its code, its place, and the place of its cause.
type Violation = (&'static str, SourceRange, Option<SourceRange>);

/// File, offset of the first byte, offset one past the last.
type SourceRange = (u32, u32, u32);

/// The analysis of the chains of packets, or of requests.
struct Run<'m> {
    module: &'m Module,
    /// True if the chains are those of packets, whose addresses do not outlive the batch.
    of_packet: bool,
    /// The results of functions, from any chain.
    known: HashMap<(FuncId, Vec<MemoryOwner>, Path), Path>,
    violations: HashSet<Violation>,
}

/// The running function.
struct Frame {
    refs: Vec<MemoryOwner>,
    returned: Path,
    /// The paths that left the innermost loop.
    left: Path,
}

impl Checker<'_> {
    /// Runs all chains abstractly and reports forbidden effects.
    pub(crate) fn check_effects(&mut self) {
        let run = |of_packet| Run {
            module: &self.module,
            of_packet,
            known: HashMap::new(),
            violations: HashSet::new(),
        };
        let (mut packets, mut requests) = (run(true), run(false));
        for (event, chain) in self.module.events.iter().zip(&self.module.chains) {
            let run = match event.kind {
                EventKind::Net => &mut packets,
                EventKind::App => &mut requests,
                EventKind::Timer | EventKind::Sys | EventKind::Internal => continue,
            };
            for case in scenarios(&chain.processors) {
                let mut path = Path::Clean;
                for processor in chain.processors.iter().filter(|p| runs(p.when, case)) {
                    let refs = processor
                        .args
                        .iter()
                        .map(|place| origin(place.base, &[]))
                        .collect();
                    path = run.function(processor.func, refs, path);
                }
            }
        }
        let violations: HashSet<Violation> = packets
            .violations
            .into_iter()
            .chain(requests.violations)
            .collect();
        for (code, at, because) in violations {
            self.report_effect(code, at, because);
        }
    }

    fn report_effect(&mut self, code: &'static str, at: SourceRange, because: Option<SourceRange>) {
        let at = place_of(at);
        let mut diagnostic = if code == codes::REFUSE_AFTER_CHANGE {
            Diagnostic::error(code, at, "`refuse` may follow a change")
                .label(
                    "changes are not rolled back: no path to here may change a context or issue an \
                        instruction",
                )
                .hint("refuse first; write to contexts and issue instructions afterwards")
        } else {
            Diagnostic::error(code, at, "a context cannot keep a packet's address")
                .label("the address is valid only until the end of the batch")
                .hint("hand the bytes to ordered data: `emit add_rx_data_seg(addr, len, uid, offset);`")
        };
        if let Some(because) = because {
            diagnostic = diagnostic.related(place_of(because), "this change may come first");
        }
        self.report(diagnostic);
    }
}

/// The operands of a statement itself.
#[derive(Default)]
struct Moves<'n> {
    values: Vec<&'n Expr>,
    read: Vec<&'n Place>,
    written: Vec<&'n Place>,
}

impl<'n> Facts<'n> for Moves<'n> {
    fn value(&mut self, value: &'n Expr) {
        self.values.push(value);
    }

    fn place(&mut self, place: &'n Place, access: PlaceAccess) {
        if access.reads() {
            self.read.push(place);
        }
        if access.writes() {
            self.written.push(place);
        }
    }
}

fn origin(base: Base, refs: &[MemoryOwner]) -> MemoryOwner {
    match base {
        Base::Keyed | Base::Global(_) => MemoryOwner::Existing,
        Base::Fresh => MemoryOwner::Fresh,
        Base::Local | Base::Event | Base::Scratch | Base::Blueprint => MemoryOwner::Passing,
        Base::Ref(n) => refs.get(n as usize).copied().unwrap_or(MemoryOwner::Passing),
    }
}

impl Run<'_> {
    fn function(&mut self, func: FuncId, refs: Vec<MemoryOwner>, path: Path) -> Path {
        if path == Path::None {
            return path;
        }
        let key = (func, refs.clone(), path);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let module = self.module;
        let mut frame = Frame { refs, returned: Path::None, left: Path::None };
        let end = self.statements(&module.funcs[func.0 as usize].body, &mut frame, path);
        let result = end.join(frame.returned);
        self.known.insert(key, result);
        result
    }

    fn statements(&mut self, stmts: &[Stmt], frame: &mut Frame, mut path: Path) -> Path {
        for stmt in stmts {
            if path == Path::None {
                break;
            }
            path = self.statement(stmt, frame, path);
        }
        path
    }

    fn statement(&mut self, stmt: &Stmt, frame: &mut Frame, path: Path) -> Path {
        let mut path = path;
        visit::own_calls(stmt, |func, args| {
            let refs = args.iter().filter_map(|arg| match arg {
                Arg::Ref(place) => Some(origin(place.base, &frame.refs)),
                Arg::Value(_) => None,
            });
            path = self.function(func, refs.collect(), path);
        });
        if path == Path::None {
            return path;
        }
        path = self.changes(stmt, frame, path);
        match &stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                let then = self.statements(then, frame, path);
                let otherwise = self.statements(otherwise, frame, path);
                then.join(otherwise)
            }
            StmtKind::For { body, .. } => {
                let outer = std::mem::replace(&mut frame.left, Path::None);
                let once = self.statements(body, frame, path);
                let after_one = path.join(once).join(frame.left);
                // A second round differs only if the first one changed the state.
                let again = if after_one == path {
                    path
                } else {
                    self.statements(body, frame, after_one)
                };
                let left = std::mem::replace(&mut frame.left, outer);
                after_one.join(again).join(left)
            }
            StmtKind::Emit(_) => dirty(path, stmt.span),
            StmtKind::Refuse(_) => {
                if let Path::Dirty(because) = path {
                    self.violations
                        .insert((codes::REFUSE_AFTER_CHANGE, key(stmt.span), Some(because)));
                }
                Path::None
            }
            other => self.leave(other.effects().exit, frame, path),
        }
    }

    /// Ends a path at a statement that never continues with the next one.
    fn leave(&self, exit: Option<Exit>, frame: &mut Frame, path: Path) -> Path {
        match exit {
            None => return path,
            Some(Exit::Loop) => frame.left = frame.left.join(path),
            Some(Exit::Function) => frame.returned = frame.returned.join(path),
            Some(Exit::Run) => {}
        }
        Path::None
    }

    /// Follows a statement's own changes of places, and reports a packet's address that one of them keeps.
    fn changes(&mut self, stmt: &Stmt, frame: &Frame, path: Path) -> Path {
        let mut moves = Moves::default();
        stmt.kind.facts(&mut moves);
        let keeps = moves
            .values
            .iter()
            .any(|value| value.ty == Ty::Addr && self.passing_address(value, frame))
            || moves.read.iter().any(|from| {
                self.holds_address(&from.ty) && origin(from.base, &frame.refs) == MemoryOwner::Passing
            });
        let mut path = path;
        for place in moves.written {
            if keeps && self.holds_address(&place.ty) {
                self.kept_address(place, stmt.span, frame);
            }
            path = self.write(place, stmt.span, frame, path);
        }
        path
    }

    fn write(&mut self, place: &Place, at: Span, frame: &Frame, path: Path) -> Path {
        match origin(place.base, &frame.refs) {
            MemoryOwner::Existing => dirty(path, at),
            MemoryOwner::Fresh | MemoryOwner::Passing => path,
        }
    }

    fn kept_address(&mut self, place: &Place, at: Span, frame: &Frame) {
        if self.of_packet && origin(place.base, &frame.refs) != MemoryOwner::Passing {
            self.violations.insert((codes::KEPT_ADDRESS, key(at), None));
        }
    }

    /// True if an address comes from something that does not outlive the chain.
    fn passing_address(&self, value: &Expr, frame: &Frame) -> bool {
        match &value.kind {
            ExprKind::Load(place) => origin(place.base, &frame.refs) == MemoryOwner::Passing,
            ExprKind::Cast(inner) => inner.ty == Ty::Addr && self.passing_address(inner, frame),
            ExprKind::Binary(_, a, b) | ExprKind::Select(_, a, b) => {
                self.passing_address(a, frame) || self.passing_address(b, frame)
            }
            ExprKind::Call(..) => true,
            _ => false, // Its value is no address.
        }
    }

    fn holds_address(&self, ty: &Ty) -> bool {
        match ty {
            Ty::Addr | Ty::Data => true,
            Ty::Struct(id) => self
                .module
                .structure(*id)
                .fields
                .iter()
                .any(|field| self.holds_address(&field.ty)),
            Ty::Array { elem, .. } | Ty::List { elem, .. } | Ty::Sorted { elem, .. } => {
                self.holds_address(elem)
            }
            Ty::Bool
            | Ty::Int { .. }
            | Ty::Enum { .. }
            | Ty::Seq { .. }
            | Ty::Duration
            | Ty::Time
            | Ty::Varint
            | Ty::Ip
            | Ty::Id
            | Ty::Timer
            | Ty::Bytes { .. }
            | Ty::Window { .. }
            | Ty::Options { .. } => false,
        }
    }
}

fn key(at: Span) -> SourceRange {
    (at.file, at.start, at.end)
}

fn place_of((file, start, end): SourceRange) -> hawser_syntax::Span {
    hawser_syntax::Span { file, start, end }
}

fn dirty(path: Path, at: Span) -> Path {
    match path {
        Path::Clean => Path::Dirty(key(at)),
        Path::None | Path::Dirty(..) => path,
    }
}
