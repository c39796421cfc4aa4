//! Warnings about legal code that is probably a mistake. Warnings about an expression or a statement are
//! reported while it is lowered, those about declarations at the end.

use hawser_ir as ir;
use hawser_ir::{CmpOp, ContainerOp, ContextId, Granularity, Place, StmtKind as Ir, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{BinOp, Expr, ExprKind, Field, Span, Stmt, StmtKind};

use crate::body::{Body, Variable};
use crate::codes;
use crate::convert::Value;
use crate::fold;
use crate::state::{Checker, MemberType, RecordKind};

/// Returns a constant as an untyped literal.
fn literal_of(expr: &ir::Expr) -> Option<Value> {
    let value = fold::value_of(expr)?;
    let value = match expr.ty {
        Ty::Int { bits, signed: true } => i128::from((value << (64 - bits)).cast_signed() >> (64 - bits)),
        Ty::Int { signed: false, .. } => i128::from(value),
        _ => return None,
    };
    Some(Value::Literal { value, mask: false })
}

impl<'a> Body<'_, 'a> {
    pub(crate) fn warn(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        label: impl Into<String>,
    ) {
        self.ck
            .report(Diagnostic::warning(code, at, message).label(label));
    }

    /// `x / 0`, `x % 0`, with a named constant or a number.
    pub(crate) fn warn_of_division(&mut self, op: BinOp, right: Option<u64>, at: Span) {
        let result = match op {
            BinOp::Div => "the result is 0",
            BinOp::Rem => "the result is the left side",
            _ => return,
        };
        if right == Some(0) {
            self.warn(codes::DIVISION_BY_ZERO, at, "division by zero", result);
        }
    }

    /// Warns of a result that is computed at the width of its operands although a wider one is wanted. For
    /// constants, it warns if the result does not fit; for others, if it is a product.
    pub(crate) fn warn_of_narrow(
        &mut self,
        op: BinOp,
        left: &ir::Expr,
        right: &ir::Expr,
        want: Option<&Ty>,
        at: Span,
    ) {
        let (Ty::Int { bits, .. }, Some(Ty::Int { bits: wanted, .. })) = (&left.ty, want) else {
            return;
        };
        if bits >= wanted {
            return;
        }
        let what = match (op, &left.kind, &right.kind) {
            (_, ir::ExprKind::Const(a), ir::ExprKind::Const(b)) => {
                let (a, b) = (u128::from(*a), u128::from(*b));
                let exact = match op {
                    BinOp::Mul => a * b,
                    BinOp::Add => a + b,
                    BinOp::Shl => a << (b % u128::from(*bits)),
                    _ => return,
                };
                if exact >> bits == 0 {
                    return;
                }
                "this constant overflows before it widens"
            }
            // `10 * size`: with 32 bits or more, a multiple is usually known to fit.
            (_, ir::ExprKind::Const(_), _) | (_, _, ir::ExprKind::Const(_)) if *bits >= 32 => return,
            (BinOp::Mul, ..) => "this product may overflow before it widens",
            _ => return,
        };
        let (found, expected) = (
            self.ck.show(&left.ty),
            want.map_or_else(String::new, |ty| self.ck.show(ty)),
        );
        self.ck.report(
            Diagnostic::warning(codes::NARROW_PRODUCT, at, what)
                .label(format!(
                    "it is computed as {found}, and becomes {expected} only then"
                ))
                .hint(format!("cast one operand first: `{expected}(a)`")),
        );
    }

    /// Warns of a comparison of a variable value with a constant that has a type.
    pub(crate) fn warn_of_compared_constant(
        &mut self,
        op: CmpOp,
        left: &ir::Expr,
        right: &ir::Expr,
        at: Span,
    ) {
        match (literal_of(left), literal_of(right)) {
            (Some(literal), None) => self.warn_of_comparison(op, &literal, &Value::Error, &right.ty, at),
            (None, Some(literal)) => self.warn_of_comparison(op, &Value::Error, &literal, &left.ty, at),
            _ => {}
        }
    }

    /// Warns of a comparison with a literal whose result is the same for every value of the other side's
    /// type.
    pub(crate) fn warn_of_comparison(&mut self, op: CmpOp, left: &Value, right: &Value, ty: &Ty, at: Span) {
        let (literal, is_left) = match (left, right) {
            (Value::Literal { value, mask: false }, _) => (*value, true),
            (_, Value::Literal { value, mask: false }) => (*value, false),
            _ => return,
        };
        let (low, high) = match ty {
            Ty::Int { bits, signed: false } => (0, (1i128 << bits) - 1),
            Ty::Int { bits, signed: true } => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            _ => return,
        };
        let holds = |x: i128| {
            let (a, b) = if is_left { (literal, x) } else { (x, literal) };
            op.holds(a, b)
        };
        let inside = (low..=high).contains(&literal);
        let is_decided = match op {
            CmpOp::Eq | CmpOp::Ne => !inside,
            CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => holds(low) == holds(high),
        };
        if is_decided {
            let found = self.ck.show(ty);
            let result = holds(low);
            self.warn(
                codes::CONSTANT_COMPARISON,
                at,
                format!("this comparison is always {result}"),
                format!("a {found} lies between {low} and {high}"),
            );
        }
    }

    /// Warns of a statement behind one that always leaves the block.
    pub(crate) fn warn_of_dead_code(&mut self, stmts: &'a [Stmt]) {
        if let Some([_, behind]) = stmts.windows(2).find(|pair| leaves(&pair[0])) {
            self.warn(
                codes::DEAD_CODE,
                behind.span,
                "this statement is never reached",
                "the statement before it leaves the block",
            );
        }
    }

    /// Warns of an assignment to a header's field that is computed for each packet.
    pub(crate) fn warn_of_fill(&mut self, target: &'a Expr) {
        let ExprKind::Field(base, field) = &target.kind else {
            return;
        };
        let ExprKind::Name(variable) = &base.kind else {
            return;
        };
        let ty = match self.local(variable).map(|local| &local.variable) {
            Some(Variable::Place(place)) => place.ty.clone(),
            _ => return,
        };
        let Ty::Struct(id) = ty else { return };
        let Some(record) = self.ck.record_of(id) else {
            return;
        };
        let record = &self.ck.records[record];
        if !matches!(record.kind, RecordKind::Blueprint | RecordKind::Opt) {
            return;
        }
        let is_fill = |declared: &Field| {
            declared.init.is_some()
                || matches!(
                    declared.ty.name.name.as_str(),
                    "checksum16_t" | "crc32_t" | "hdrlen4_t"
                )
        };
        let member = record
            .members
            .iter()
            .find(|member| member.name.name == field.name);
        if member.and_then(|member| member.field).is_some_and(is_fill) {
            let message = format!("`{}` is computed for each packet", field.name);
            self.warn(
                codes::ASSIGNED_FILL,
                target.span,
                message,
                "the value assigned here is not sent",
            );
        }
    }

    /// Warns of elements that are removed while a loop counts over them.
    pub(crate) fn warn_of_removal(&mut self, list: &Place, body: &[ir::Stmt]) {
        let mut at = None;
        ir::statements(body, &mut |stmt| {
            let Ir::Container { op, .. } = &stmt.kind else {
                return;
            };
            let (ContainerOp::PopFront(changed, _)
            | ContainerOp::Clear(changed)
            | ContainerOp::Remove(changed, _)) = op
            else {
                return;
            };
            if changed == list {
                at.get_or_insert(stmt.span);
            }
        });
        // A loop that is left directly after the removal is correct. The check does not determine whether a
        // `break` follows directly.
        let leaves = body.iter().any(|stmt| contains_break(&stmt.kind));
        if let (Some(at), false) = (at, leaves) {
            let message = "this shortens the list of the loop";
            let label = "the loop skips the element after a removed one";
            self.warn(codes::SHRINKING_LIST, crate::state::ast_span(at), message, label);
        }
    }
}

/// True if the statements behind this one in its block are never reached.
fn leaves(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Done | StmtKind::Refuse(_) | StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue => {
            true
        }
        StmtKind::Block(block) => block.stmts.iter().any(leaves),
        StmtKind::If { then, otherwise, .. } => {
            then.stmts.iter().any(leaves) && otherwise.as_deref().is_some_and(leaves)
        }
        StmtKind::Match { arms, .. } => {
            arms.iter().any(|arm| arm.cases.is_empty())
                && arms.iter().all(|arm| arm.body.stmts.iter().any(leaves))
        }
        StmtKind::Declare { .. }
        | StmtKind::Assign { .. }
        | StmtKind::Expr(_)
        | StmtKind::Emit { .. }
        | StmtKind::ForEach { .. }
        | StmtKind::ForRange { .. }
        | StmtKind::Assert(_)
        | StmtKind::Error => false,
    }
}

/// True if a statement may leave the loop around it.
fn contains_break(stmt: &Ir) -> bool {
    match stmt {
        Ir::Break | Ir::Return(_) | Ir::Done | Ir::Refuse(_) => true,
        Ir::For { body, .. } => body
            .iter()
            .any(|stmt| matches!(stmt.kind, Ir::Return(_) | Ir::Done)),
        other => other
            .blocks()
            .iter()
            .any(|block| block.iter().any(|stmt| contains_break(&stmt.kind))),
    }
}

impl Checker<'_> {
    /// Warns of contexts that are never created and timers that are never started, in a whole program.
    pub(crate) fn find_idle_contexts(&mut self) {
        if self.deploys.is_empty() || self.attached_from.is_some() {
            return;
        }
        let made: Vec<ContextId> = self
            .facts
            .iter()
            .flat_map(|facts| facts.creates.iter().map(|(context, _)| *context))
            .collect();
        let mut diagnostics = Vec::new();
        for record in &self.records {
            let RecordKind::Context(index) = record.kind else {
                continue;
            };
            let context = ContextId(index);
            let is_there = self.module.contexts[index as usize].granularity == Granularity::Global;
            if !is_there && !made.contains(&context) {
                diagnostics.push(
                    Diagnostic::warning(
                        codes::CONTEXT_NEVER_MADE,
                        record.span,
                        format!("no chain creates a `{}`", record.name),
                    )
                    .label("chains that need one never run")
                    .hint(format!(
                        "write `{} c = new_ctx{{…}};` in a chain, or register it as GLOBAL",
                        record.name
                    )),
                );
                continue;
            }
            for member in &record.members {
                let is_timer = matches!(member.ty, MemberType::Timer(Some(_)));
                if is_timer && !self.started.contains(&(context, member.name.name.clone())) {
                    diagnostics.push(
                        Diagnostic::warning(
                            codes::TIMER_NEVER_STARTED,
                            member.name.span,
                            format!("the timer `{}` is never started", member.name.name),
                        )
                        .label("its event never occurs")
                        .hint(format!("`emit timer_start(c.{}, 200ms);`", member.name.name)),
                    );
                }
            }
        }
        self.diagnostics.extend(diagnostics);
    }

    /// Warns of a constant initial value outside of the range that modifications allow.
    pub(crate) fn check_default_range(&mut self, range: (u64, u64), default: u64, ty: &Ty, at: Span) {
        let is_signed = ty.width().is_some_and(|(_, signed)| signed);
        let is_inside = match is_signed {
            true => (range.0 as i64..=range.1 as i64).contains(&(default as i64)),
            false => (range.0..=range.1).contains(&default),
        };
        if !is_inside {
            self.report(
                Diagnostic::warning(
                    codes::DEFAULT_OUTSIDE,
                    at,
                    "the initial value is outside the field's range",
                )
                .label("`modifiable` states the range"),
            );
        }
    }
}
