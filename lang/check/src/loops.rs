//! Loops: counted, with a constant bound.

use hawser_ir as ir;
use hawser_ir::{Index, LIST_HEADER, Place, Query, Step, StmtKind as Ir, Ty};
use hawser_syntax::ast::{Block, Expr, ExprKind, Ident, Span};

use crate::body::{Body, Variable, load};
use crate::codes;
use crate::convert::{How, Value};
use crate::fold;

/// The maximum number of rounds of one loop.
const MAX_ROUNDS: u64 = 1 << 16;

impl<'a> Body<'_, 'a> {
    /// Evaluates a loop's bound: a constant of at least 1.
    fn rounds(&mut self, max: &'a Expr) -> Option<u32> {
        if !matches!(max.kind, ExprKind::Int(_)) && self.mentions_variable(max) {
            self.error_hint(
                codes::LOOP_BOUND,
                max.span,
                "the bound of this loop is not constant",
                "expected a constant number of rounds",
                "use the largest possible number; `break` leaves the loop earlier",
            );
            return None;
        }
        let found = self.ck.constant_expr(max, &Ty::uint(64))?;
        if (1..=MAX_ROUNDS).contains(&found) {
            return Some(found as u32);
        }
        self.error(
            codes::LOOP_BOUND,
            max.span,
            format!("this loop has up to {found} rounds"),
            format!("expected a constant from 1 to {MAX_ROUNDS}"),
        );
        None
    }

    /// `for (x in list, K)`: counts positions, and `x` stands for the element.
    pub(crate) fn for_each(
        &mut self,
        var: &'a Ident,
        list: &'a Expr,
        max: Option<&'a Expr>,
        block: &'a Block,
    ) {
        let max_rounds = max.and_then(|max| self.rounds(max));
        let place = match self.value(list, None) {
            Value::Place(place) => place,
            Value::Error => {
                self.loop_body(var, Variable::Error, block);
                return;
            }
            _ => return self.not_a_list(list, var, block),
        };
        let (cap, ty) = match &place.ty {
            Ty::List { elem, cap } | Ty::Sorted { elem, cap, .. } => (*cap, (**elem).clone()),
            Ty::Array { elem, len } => (*len, (**elem).clone()),
            Ty::Options { cap, .. } => (*cap, place.ty.clone()),
            _ => return self.not_a_list(list, var, block),
        };
        if max.is_some() && max_rounds.is_none() {
            self.loop_body(var, Variable::Error, block);
            return;
        }
        if max.is_none() && u64::from(cap) > MAX_ROUNDS {
            self.error_hint(
                codes::LOOP_BOUND,
                list.span,
                format!("this loop has up to {cap} rounds"),
                format!("expected at most {MAX_ROUNDS}"),
                format!("write `for ({} in …, K)` with a smaller bound K", var.name),
            );
            self.loop_body(var, Variable::Error, block);
            return;
        }
        // Each round refers to the same list, even if the loop changes what an index depends on.
        let list = place;
        let place = self.frozen(list.clone());
        let counter = self.temporary(Ty::uint(32));
        let position = load(counter.clone());
        let (len, variable) = match &place.ty {
            Ty::Array { elem, len } => {
                let all = fold::constant(u64::from(*len), Ty::uint(32));
                (all, Variable::Place(self.item(&place, elem, *len, position)))
            }
            Ty::Options { list, .. } => {
                let stride = self.ck.layout().option_stride(*list);
                let index = Index::At(Box::new(position));
                let mut entry = Place { ty: Ty::uint(64), ..place.clone() };
                entry
                    .steps
                    .push(Step { index, stride, header: LIST_HEADER, cap, offset: 0 });
                (length(&place), Variable::Entry(entry, *list))
            }
            _ => {
                let index = Index::At(Box::new(position));
                (
                    length(&place),
                    Variable::Place(self.element(&place, &ty, cap, index)),
                )
            }
        };
        let max = max_rounds.unwrap_or(cap).min(cap);
        let body = self.loop_body(var, variable, block);
        self.warn_of_removal(&list, &body);
        self.push(Ir::For {
            var: counter,
            from: fold::constant(0, Ty::uint(32)),
            to: len,
            max,
            body,
        });
    }

    fn not_a_list(&mut self, list: &'a Expr, var: &'a Ident, block: &'a Block) {
        self.error_hint(
            codes::NOT_INDEXED,
            list.span,
            "this is not a list",
            "expected a list, an array, a sorted list or an option list",
            "to count, write `for (i in 0..n, K)`",
        );
        self.loop_body(var, Variable::Error, block);
    }

    /// `for (i in a..b, K)`
    pub(crate) fn for_range(
        &mut self,
        var: &'a Ident,
        range: [&'a Expr; 2],
        max: Option<&'a Expr>,
        block: &'a Block,
    ) {
        let [from_at, to_at] = range;
        let (from, to) = (self.value(from_at, None), self.value(to_at, None));
        let whole = Span { end: to_at.span.end, ..from_at.span };
        let constant_rounds = match (constant(&from), constant(&to)) {
            (Some(a), Some(b)) => {
                self.warn_of_empty_range(a, b, whole);
                Some((b - a).max(1))
            }
            _ => None,
        };
        let ty = match (&from, &to) {
            (Value::Error, _) | (_, Value::Error) => None,
            _ => self.common_type(
                &from,
                &to,
                Some(&Ty::uint(32)),
                Span { end: to_at.span.end, ..from_at.span },
            ),
        };
        let Some(ty) = ty else {
            self.loop_body(var, Variable::Error, block);
            return;
        };
        if !matches!(ty, Ty::Int { .. } | Ty::Seq { .. }) {
            let found = self.ck.show(&ty);
            self.error(
                codes::MISMATCH,
                from_at.span,
                format!("a loop cannot count over {found}"),
                "expected integers",
            );
            self.loop_body(var, Variable::Error, block);
            return;
        }
        let max = match (max, constant_rounds) {
            (Some(max), _) => self.rounds(max),
            (None, Some(rounds)) if (rounds as u128) <= u128::from(MAX_ROUNDS) => Some(rounds as u32),
            (None, _) => {
                self.error_hint(
                    codes::LOOP_BOUND,
                    Span { end: to_at.span.end, ..from_at.span },
                    "this loop has no bound",
                    "expected a constant number of rounds",
                    "write `for (i in a..b, 16)`",
                );
                None
            }
        };
        let from = self.convert(from, &ty, How::Pass, from_at.span);
        let to = self.convert(to, &ty, How::Pass, to_at.span);
        let counter = self.allocate(&var.name, ty);
        let body = self.loop_body(var, Variable::Place(counter.clone()), block);
        if let Some(max) = max {
            self.push(Ir::For { var: counter, from, to, max, body });
        }
    }

    fn loop_body(&mut self, var: &'a Ident, variable: Variable, block: &'a Block) -> Vec<ir::Stmt> {
        self.loops += 1;
        let ((), body) = self.separately(|body| {
            body.scoped(|body| {
                body.bind(var, variable, None);
                body.block(block);
            });
        });
        self.loops -= 1;
        body
    }

    pub(crate) fn leave_loop(&mut self, at: Span, statement: Ir) {
        if self.loops == 0 {
            self.error(
                codes::OUTSIDE_LOOP,
                at,
                "this statement is outside a loop",
                "expected within a `for`",
            );
            return;
        }
        self.push(statement);
    }

    /// True if an expression mentions a variable of this function.
    fn mentions_variable(&mut self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Name(name) => self.local(name).is_some(),
            // The callee is not a variable, and a structure is not a bound.
            ExprKind::Call { args, .. } => args.iter().any(|arg| self.mentions_variable(&arg.value)),
            ExprKind::Struct { .. } => false,
            _ => e.parts().into_iter().any(|part| self.mentions_variable(part)),
        }
    }
}

/// Returns a known value: a literal, or an expression over `const`s.
fn constant(value: &Value) -> Option<i128> {
    match value {
        Value::Literal { value, .. } => Some(*value),
        Value::Scalar(ir::Expr { ty: Ty::Int { signed: true, .. }, kind: ir::ExprKind::Const(n) }) => {
            Some((*n as i64).into())
        }
        Value::Scalar(ir::Expr { ty: Ty::Int { .. }, kind: ir::ExprKind::Const(n) }) => Some((*n).into()),
        _ => None,
    }
}

/// Returns the number of a list's elements.
fn length(list: &Place) -> ir::Expr {
    ir::Expr { ty: Ty::uint(32), kind: ir::ExprKind::Query(Query::Len(list.clone())) }
}
