//! Conditions that other conditions decide: warnings. `a > 5 && a < 3` never holds, `a < 5 || a >= 5` always does, and
//! behind `if (a > 5)` the condition of `else if (a <= 5)` is always true.
//!
//! A comparison is read as a claim: the ranges in which it holds, out of all values that its subject can have.
//! Conditions with calls are left alone, since a call may change the values that are compared.

use hawser_ir as ir;
use hawser_ir::visit::{Visitor, visit_expr};
use hawser_ir::{CmpOp, Expr, ExprKind, StmtKind as Ir, Ty, UnOp};
use hawser_syntax::ast::{self, Span};

use crate::body::Body;
use crate::codes;

/// Whole numbers from the first to the last.
type Range = (i128, i128);

/// The claim that a comparison makes.
#[derive(Clone)]
struct Claim<'e> {
    /// The value, and the other one where that is no constant.
    subject: (&'e Expr, Option<&'e Expr>),
    /// All values of the subject. Where two values are compared: -1, 0 and 1 for less, equal and greater.
    all: Range,
    /// The values of which the claim holds, in order.
    holds: Vec<Range>,
}

impl<'e> Claim<'e> {
    fn of(expr: &'e Expr) -> Option<Claim<'e>> {
        match &expr.kind {
            ExprKind::Const(_) => None,
            ExprKind::Unary(UnOp::LogicalNot, inner) => Claim::of(inner).map(Claim::denied),
            ExprKind::Compare(op, a, b) => match (number(a), number(b)) {
                (None, Some(number)) => Claim::against(*op, a, number),
                (Some(number), None) => Claim::against(mirrored(*op), b, number),
                (None, None) => Claim::between(*op, a, b),
                (Some(_), Some(_)) => None,
            },
            _ => Some(Claim { subject: (expr, None), all: (0, 1), holds: vec![(1, 1)] }),
        }
    }

    /// A comparison with a constant, unless all values decide it alike.
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

    /// A comparison of two values that vary.
    fn between(op: CmpOp, a: &'e Expr, b: &'e Expr) -> Option<Claim<'e>> {
        let is_ordered = !matches!(op, CmpOp::Eq | CmpOp::Ne);
        let is_circular = is_ordered && matches!(a.ty, Ty::Seq { .. });
        (!is_circular).then(|| Claim { subject: (a, Some(b)), all: (-1, 1), holds: ranges(op, 0, (-1, 1)) })
    }

    /// The claim that this one does not hold.
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

    /// The ranges in which this claim holds of the subject of another, where both have one subject.
    fn holds_of(&self, other: &Claim<'_>) -> Option<Vec<Range>> {
        let (a, b) = self.subject;
        if (a, b) == other.subject {
            return Some(self.holds.clone());
        }
        let is_mirrored = b.is_some() && (b, Some(a)) == (Some(other.subject.0), other.subject.1);
        is_mirrored.then(|| self.holds.iter().rev().map(|(from, to)| (-to, -from)).collect())
    }
}

/// The numbers of a range that compare so with a number.
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

/// The numbers in some range of both lists.
fn common(a: &[Range], b: &[Range]) -> Vec<Range> {
    let pairs = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| (x.0.max(y.0), x.1.min(y.1))));
    pairs.filter(|(from, to)| from <= to).collect()
}

/// The operator with its sides exchanged.
fn mirrored(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Eq | CmpOp::Ne => op,
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
    }
}

/// The value of a constant.
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

/// All values of a type, where these are numbers.
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

/// The value that was widened to be compared.
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

/// The operands of a chain of `&&`, or of `||`.
fn operands(expr: &Expr, is_and: bool) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::And(a, b) if is_and => [operands(a, true), operands(b, true)].concat(),
        ExprKind::Or(a, b) if !is_and => [operands(a, false), operands(b, false)].concat(),
        _ => vec![expr],
    }
}

/// The claims of the operands of `&&`; with `||`, the claims that they do not hold.
fn claims(expr: &Expr, is_and: bool) -> Vec<Claim<'_>> {
    let claims = operands(expr, is_and).into_iter().filter_map(Claim::of);
    match is_and {
        true => claims.collect(),
        false => claims.map(Claim::denied).collect(),
    }
}

/// Whether a claim cannot hold where others do, which can hold together.
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
    /// `a > 5 && a < 3`, `a < 5 || a >= 5`
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
                    "a condition that is always false",
                    "no value meets this and the part before it",
                ),
                false => (
                    "a condition that is always true",
                    "each value meets this or the part before it",
                ),
            };
            self.warn(codes::CONSTANT_COMPARISON, at, message, label);
        }
    }

    /// An `else if` whose condition the `if` before it decides.
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
                    let label = "the `if` before it takes every such value";
                    self.warn(
                        codes::CONSTANT_COMPARISON,
                        cond.span,
                        "a condition that is always false here",
                        label,
                    );
                } else if is_always {
                    let label = "the `if` before it takes every other value: `else` says the same";
                    self.warn(
                        codes::CONSTANT_COMPARISON,
                        cond.span,
                        "a condition that is always true here",
                        label,
                    );
                }
            }
            (otherwise, written) = (next, behind.as_deref());
        }
    }
}
