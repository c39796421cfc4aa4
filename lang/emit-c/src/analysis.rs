//! The effects of each function beyond its own frame, including those of its callees.

use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{Arg, Base, Expr, ExprKind, FuncId, FuncParam, Instr, Module, Place, Stmt, StmtKind};

/// The facts about a function that a caller needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// True if it may end the chain or the parser.
    pub(crate) halts: bool,
    /// True if it issues instructions, moves the parser's cursor, ends the run, or writes to a region that is
    /// not among its arguments.
    pub(crate) acts: bool,
    /// True if it issues instructions.
    pub(crate) emits: bool,
    /// By reference parameter: true if something is written through it.
    pub(crate) writes: Vec<bool>,
    /// True if it uses the context that the chain creates.
    pub(crate) fresh: bool,
    /// True if it depends on the keyed context that was found, because it uses that context or issues
    /// instructions about it.
    pub(crate) found: bool,
}

impl Summary {
    /// True if a call changes anything. Such a call cannot be moved, repeated or omitted.
    pub(crate) fn changes(&self) -> bool {
        self.halts || self.acts || self.writes.contains(&true)
    }
}

/// Returns the summaries of all functions of a module.
pub(crate) fn summaries(module: &Module) -> Vec<Summary> {
    let mut known = vec![None; module.funcs.len()];
    (0..module.funcs.len()).for_each(|i| summarize(module, FuncId(i as u32), &mut known));
    known.into_iter().map(Option::unwrap_or_default).collect()
}

/// Summarises a function. The call graph has no cycle, so callees are known before their callers.
fn summarize(module: &Module, id: FuncId, known: &mut Vec<Option<Summary>>) {
    let index = id.0 as usize;
    if known[index].is_some() {
        return;
    }
    let func = &module.funcs[index];
    let refs = func
        .params
        .iter()
        .filter(|p| matches!(p, FuncParam::Ref { .. }))
        .count();
    known[index] = Some(Summary { writes: vec![false; refs], ..Summary::default() });
    visit::callees(&func.body)
        .into_iter()
        .for_each(|callee| summarize(module, callee, known));

    let summary = known[index].clone().unwrap_or_default();
    let mut visit = Summarize { known, summary };
    visit::visit_block(&mut visit, &func.body);
    known[index] = Some(visit.summary);
}

struct Summarize<'a> {
    known: &'a [Option<Summary>],
    summary: Summary,
}

impl Summarize<'_> {
    fn touch(&mut self, base: Base, written: bool) {
        match base {
            Base::Local | Base::Blueprint => {}
            Base::Ref(n) => {
                if let (true, Some(flag)) = (written, self.summary.writes.get_mut(usize::from(n))) {
                    *flag = true;
                }
            }
            Base::Keyed => {
                self.summary.found = true;
                self.summary.acts |= written;
            }
            Base::Fresh => {
                self.summary.fresh = true;
                self.summary.acts |= written;
            }
            Base::Event | Base::Global(_) | Base::Scratch => self.summary.acts |= written,
        }
    }
}

impl Visitor<'_> for Summarize<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        let effects = stmt.kind.effects();
        self.summary.halts |= effects.may_end;
        self.summary.acts |= effects.acts;
        if let StmtKind::Emit(instr) = &stmt.kind {
            self.summary.emits = true;
            let timer = matches!(instr, Instr::TimerStart { .. } | Instr::TimerStop { .. });
            self.summary.found |= !timer;
            self.summary.fresh |= matches!(instr, Instr::NewCtx { .. });
        }
    }

    fn place(&mut self, place: &Place, access: PlaceAccess) {
        // The effects on a reference are added with its call.
        if access != PlaceAccess::Reference {
            self.touch(place.base, access.writes());
        }
    }

    fn call(&mut self, func: FuncId, args: &[Arg]) {
        let Some(callee) = self.known.get(func.0 as usize).and_then(Option::as_ref) else {
            return;
        };
        self.summary.halts |= callee.halts;
        self.summary.acts |= callee.acts;
        self.summary.emits |= callee.emits;
        self.summary.fresh |= callee.fresh;
        self.summary.found |= callee.found;
        let places = args.iter().filter_map(|arg| match arg {
            Arg::Ref(place) => Some(place),
            Arg::Value(_) => None,
        });
        let touched: Vec<(Base, bool)> = places
            .zip(&callee.writes)
            .map(|(place, written)| (place.base, *written))
            .collect();
        touched
            .into_iter()
            .for_each(|(base, written)| self.touch(base, written));
    }
}

/// True if an expression can be printed as one C expression and evaluated at any time before the next change.
/// It calls only functions without effects, and needs no statements of its own.
pub(crate) fn is_plain(summaries: &[Summary], e: &Expr) -> bool {
    let mut plain = Plain { summaries, plain: true };
    visit::visit_expr(&mut plain, e);
    plain.plain
}

/// True if a search for a place is plain in that sense.
pub(crate) fn is_plain_place(summaries: &[Summary], place: &Place) -> bool {
    place.steps.iter().all(|step| match &step.index {
        hawser_ir::Index::At(e) | hawser_ir::Index::Item(e) | hawser_ir::Index::Key(e, _) => {
            is_plain(summaries, e)
        }
        hawser_ir::Index::Tag(_) => true,
    })
}

struct Plain<'a> {
    summaries: &'a [Summary],
    plain: bool,
}

impl Visitor<'_> for Plain<'_> {
    fn call(&mut self, func: FuncId, _: &[Arg]) {
        self.plain &= !self.summaries[func.0 as usize].changes();
    }

    fn expr(&mut self, e: &Expr) {
        self.plain &= !matches!(e.kind, ExprKind::KeyedHash(..));
    }
}
