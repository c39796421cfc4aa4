//! Warnings about conditions that other conditions decide. `a > 5 && a < 3` never holds, and `a < 5 || a >=
//! 5` always does. Behind `if (a > 5)`, the condition of `else if (a <= 5)` is always true.
//!
//! A comparison is read as a claim: the ranges in which it holds, among all values that its subject can have.
//! Conditions with calls are left alone, because a call may change the compared values.

use hawser_ir as ir;
use hawser_ir::visit::{Visitor, visit_expr};
use hawser_ir::{CmpOp, Expr, ExprKind, StmtKind as Ir, Ty, UnOp};
use hawser_syntax::ast::{self, Span};

use crate::body::Body;
use crate::codes;

/// A range of integers, both ends included.
type Range = (i128, i128);

/// The claim that a comparison makes.
#[derive(Clone)]
struct Claim<'e> {
    /// The compared value, and the other one if it is not a constant.
    subject: (&'e Expr, Option<&'e Expr>),
    /// All values of the subject. If two values are compared: -1, 0 and 1 for less, equal and greater.
    all: Range,
    /// The values for which the claim holds, in order.
    holds: Vec<Range>,
}

impl<'e> Claim<'e> {
    fn from_expr(expr: &'e Expr) -> Option<Claim<'e>> {
        match &expr.kind {
            ExprKind::Const(_) => None,
            ExprKind::Unary(UnOp::LogicalNot, inner) => Claim::from_expr(inner).map(Claim::denied),
            ExprKind::Compare(op, a, b) => match (number(a), number(b)) {
                (None, Some(number)) => Claim::against(*op, a, number),
                (Some(number), None) => Claim::against(mirrored(*op), b, number),
                (None, None) => Claim::between(*op, a, b),
                (Some(_), Some(_)) => None,
            },
            _ => Some(Claim { subject: (expr, None), all: (0, 1), holds: vec![(1, 1)] }),
        }
    }

    /// Returns the claim of a comparison with a constant, unless all values give the same result.
    fn against(op: CmpOp, subject: &'e Expr, number: i128) -> Option<Claim<'e>> {
        let subject = before_widening(subject);
        let all = all_of(&subject.ty)?;
        let is_ordered = !matches!(op, CmpOp::Eq | CmpOp::Ne);
        if is_ordered && matches!(subject.ty, Ty::Seq { .. }) {
            return None;
        }
        let holds = ranges(op, number, all);
        (!holds.is_empty() && holds != [all]).then_some(Claim { subject: (subject, None), all, holds })
    }

    /// Returns the claim of a comparison of two variable values.
    fn between(op: CmpOp, a: &'e Expr, b: &'e Expr) -> Option<Claim<'e>> {
        let is_ordered = !matches!(op, CmpOp::Eq | CmpOp::Ne);
        let is_circular = is_ordered && matches!(a.ty, Ty::Seq { .. });
        (!is_circular).then(|| Claim { subject: (a, Some(b)), all: (-1, 1), holds: ranges(op, 0, (-1, 1)) })
    }

    /// Returns the negation of this claim.
    fn denied(self) -> Claim<'e> {
        let mut holds = Vec::new();
        let mut from = self.all.0;
        for (first, last) in &self.holds {
            if from < *first {
                holds.push((from, first - 1));
            }
            from = last + 1;
        }
        if from <= self.all.1 {
            holds.push((from, self.all.1));
        }
        Claim { holds, ..self }
    }

    /// Returns the ranges in which this claim holds, in terms of another claim's subject, if both have the
    /// same one.
    fn holds_of(&self, other: &Claim<'_>) -> Option<Vec<Range>> {
        let (a, b) = self.subject;
        if (a, b) == other.subject {
            return Some(self.holds.clone());
        }
        let is_mirrored = b.is_some() && (b, Some(a)) == (Some(other.subject.0), other.subject.1);
        is_mirrored.then(|| self.holds.iter().rev().map(|(from, to)| (-to, -from)).collect())
    }
}

/// Returns the numbers of a range for which the comparison with `number` holds.
fn ranges(op: CmpOp, number: i128, (low, high): Range) -> Vec<Range> {
    let parts = match op {
        CmpOp::Eq => vec![(number, number)],
        CmpOp::Ne => vec![(low, number - 1), (number + 1, high)],
        CmpOp::Lt => vec![(low, number - 1)],
        CmpOp::Le => vec![(low, number)],
        CmpOp::Gt => vec![(number + 1, high)],
        CmpOp::Ge => vec![(number, high)],
    };
    common(&parts, &[(low, high)])
}

/// Returns the numbers that are in both lists of ranges.
fn common(a: &[Range], b: &[Range]) -> Vec<Range> {
    let pairs = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| (x.0.max(y.0), x.1.min(y.1))));
    pairs.filter(|(from, to)| from <= to).collect()
}

/// Returns the operator for exchanged sides.
fn mirrored(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Eq | CmpOp::Ne => op,
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
    }
}

fn number(expr: &Expr) -> Option<i128> {
    let ExprKind::Const(value) = expr.kind else {
        return None;
    };
    Some(match expr.ty {
        Ty::Int { bits, signed: true } | Ty::Enum { bits, signed: true, .. } => {
            i128::from((value << (64 - bits)).cast_signed() >> (64 - bits))
        }
        _ => i128::from(value),
    })
}

/// Returns all values of a type, if these are numbers.
fn all_of(ty: &Ty) -> Option<Range> {
    match ty {
        Ty::Bool => Some((0, 1)),
        Ty::Int { bits, signed: true } | Ty::Enum { bits, signed: true, .. } => {
            Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        }
        Ty::Int { bits, signed: false } | Ty::Enum { bits, signed: false, .. } | Ty::Seq { bits } => {
            Some((0, (1 << bits) - 1))
        }
        Ty::Duration | Ty::Time | Ty::Varint => Some((0, i128::from(u64::MAX))),
        _ => None,
    }
}

/// Returns the value before it was widened for the comparison.
fn before_widening(mut expr: &Expr) -> &Expr {
    while let ExprKind::Cast(inner) = &expr.kind {
        match (&inner.ty, &expr.ty) {
            (Ty::Int { bits, signed }, Ty::Int { bits: wide, signed: other })
                if bits <= wide && signed == other =>
            {
                expr = &**inner;
            }
            _ => break,
        }
    }
    expr
}

/// Returns the operands of a chain of `&&` or `||`.
fn operands(expr: &Expr, is_and: bool) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::And(a, b) if is_and => [operands(a, true), operands(b, true)].concat(),
        ExprKind::Or(a, b) if !is_and => [operands(a, false), operands(b, false)].concat(),
        _ => vec![expr],
    }
}

/// Returns the claims of the operands of `&&`, or the negated claims of the operands of `||`.
fn claims(expr: &Expr, is_and: bool) -> Vec<Claim<'_>> {
    let claims = operands(expr, is_and).into_iter().filter_map(Claim::from_expr);
    match is_and {
        true => claims.collect(),
        false => claims.map(Claim::denied).collect(),
    }
}

/// True if a claim cannot hold together with others, although the others can hold together.
fn conflicts(claim: &Claim<'_>, others: &[Claim<'_>]) -> bool {
    let holding = others.iter().filter_map(|other| other.holds_of(claim));
    let possible = holding.fold(vec![claim.all], |possible, holds| common(&possible, &holds));
    !possible.is_empty() && common(&possible, &claim.holds).is_empty()
}

fn calls(expr: &Expr) -> bool {
    struct Calls(bool);
    impl<'n> Visitor<'n> for Calls {
        fn call(&mut self, _: ir::FuncId, _: &'n [ir::Arg]) {
            self.0 = true;
        }
    }
    let mut found = Calls(false);
    visit_expr(&mut found, expr);
    found.0
}

impl<'a> Body<'_, 'a> {
    /// Warns of operands such as those of `a > 5 && a < 3` and `a < 5 || a >= 5`.
    pub(crate) fn warn_of_decided_operand(&mut self, is_and: bool, left: &Expr, right: &Expr, at: Span) {
        if calls(left) || calls(right) {
            return;
        }
        let before = claims(left, is_and);
        if claims(right, is_and)
            .iter()
            .any(|claim| conflicts(claim, &before))
        {
            let (message, label) = match is_and {
                true => (
                    "this condition is always false",
                    "no value fulfils both this and the part before it",
                ),
                false => (
                    "this condition is always true",
                    "every value fulfils this or the part before it",
                ),
            };
            self.warn(codes::CONSTANT_COMPARISON, at, message, label);
        }
    }

    /// Warns of an `else if` whose condition is decided by the `if` before it.
    pub(crate) fn warn_of_decided_branch(
        &mut self,
        (condition, at): (&Expr, Span),
        mut otherwise: &[ir::Stmt],
        mut written: Option<&'a ast::Stmt>,
    ) {
        if calls(condition) {
            return;
        }
        let known = claims(condition, false);
        while let (
            [ir::Stmt { kind: Ir::If(later, _, next), .. }],
            Some(ast::Stmt { kind: ast::StmtKind::If { cond, otherwise: behind, .. }, .. }),
        ) = (otherwise, written)
        {
            let decides = |is_and| claims(later, is_and).iter().any(|claim| conflicts(claim, &known));
            if !calls(later) && !self.ck.reads_alike(at, cond.span) {
                let (is_never, is_always) = (decides(true), decides(false));
                if is_never {
                    let label = "the preceding `if` covers every such value";
                    self.warn(
                        codes::CONSTANT_COMPARISON,
                        cond.span,
                        "this condition is always false here",
                        label,
                    );
                } else if is_always {
                    let label = "the preceding `if` covers every other value: `else` is equivalent";
                    self.warn(
                        codes::CONSTANT_COMPARISON,
                        cond.span,
                        "this condition is always true here",
                        label,
                    );
                }
            }
            (otherwise, written) = (next, behind.as_deref());
        }
    }
}
