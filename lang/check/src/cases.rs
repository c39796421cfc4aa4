//! `match` and `in`. Both are lowered to comparisons: the arms of a `match` to an `if` with `else if`, a set to
//! a chain of `||`.

use hawser_ir as ir;
use hawser_ir::{CmpOp, Expr, ExprKind, StmtKind, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{self, Arm, Span};

use crate::body::{Body, load};
use crate::codes;
use crate::convert::Value;
use crate::fold;
use crate::state::span;

impl<'a> Body<'_, 'a> {
    /// Lowers `match (e) { … }` over an enum. A value that no arm names runs `default`, if there is one.
    pub(crate) fn match_(&mut self, value: &'a ast::Expr, arms: &'a [Arm], at: Span) {
        let lowered = self.value(value, None);
        let subject = match lowered {
            Value::Error => None,
            lowered => self.scalar(lowered, value.span),
        };
        let subject = subject.map(|subject| self.once(subject));
        let known = match &subject {
            None => None,
            Some(Expr { ty: Ty::Enum { index, .. }, .. }) => subject.as_ref().zip(Some(*index as usize)),
            Some(Expr { ty, .. }) => {
                let found = self.ck.show(ty);
                self.error_hint(
                    codes::MISMATCH,
                    value.span,
                    format!("a `match` on {found}"),
                    "expected an enum",
                    "give the number's place the enum's type, or cast it: `kind_t(n)`",
                );
                None
            }
        };
        let mut named = Vec::new();
        let mut tested = Vec::new();
        let mut default: Option<(&'a Arm, Vec<ir::Stmt>)> = None;
        for arm in arms {
            let mut condition = None;
            for case in &arm.cases {
                let Some((subject, index)) = known else { continue };
                let Some(variant) = self.variant(case, index, &mut named) else {
                    continue;
                };
                let test = fold::compare(CmpOp::Eq, subject.clone(), variant);
                condition =
                    Some(condition.map_or_else(|| test.clone(), |before| fold::or(before, test.clone())));
            }
            let ((), body) = self.separately(|lowering| lowering.block(&arm.body));
            match (&default, condition) {
                (_, Some(condition)) => tested.push((arm.span, condition, body)),
                (Some((first, _)), None) if arm.cases.is_empty() => {
                    let first = first.span;
                    self.twice("`default`", arm.span, first);
                }
                (None, None) if arm.cases.is_empty() => default = Some((arm, body)),
                (_, None) => {}
            }
        }
        if let (Some((_, index)), None) = (known, &default) {
            self.require_all(index, &named, at);
        }
        let otherwise = default.map_or_else(Vec::new, |(_, body)| body);
        let chain = tested
            .into_iter()
            .rev()
            .fold(otherwise, |otherwise, (at, condition, body)| {
                vec![ir::Stmt { span: span(at), kind: StmtKind::If(condition, body, otherwise) }]
            });
        self.out.extend(chain);
    }

    /// Returns the constant of a case, and records its value.
    fn variant(&mut self, case: &'a ast::Expr, index: usize, named: &mut Vec<(u64, Span)>) -> Option<Expr> {
        let expr = match self.value(case, None) {
            Value::Scalar(expr) => expr,
            Value::Error => return None,
            _ => fold::constant(0, Ty::Bool),
        };
        let (ExprKind::Const(value), Ty::Enum { index: own, .. }) = (&expr.kind, &expr.ty) else {
            self.no_variant(case.span, index);
            return None;
        };
        if *own as usize != index {
            self.no_variant(case.span, index);
            return None;
        }
        if let Some((_, first)) = named.iter().find(|(known, _)| known == value) {
            let first = *first;
            self.twice("a case", case.span, first);
            return None;
        }
        named.push((*value, case.span));
        Some(expr)
    }

    fn no_variant(&mut self, at: Span, index: usize) {
        let name = &self.ck.enums[index].name.name;
        let message = format!("this case is no variant of `{name}`");
        let label = format!("expected a variant of `{name}`, or `default`");
        self.error(codes::CASE, at, message, label);
    }

    fn twice(&mut self, what: &str, at: Span, first: Span) {
        self.ck.report(
            Diagnostic::error(codes::CASE, at, format!("{what} stands twice in one `match`"))
                .label("this arm would never run")
                .related(first, "first here"),
        );
    }

    /// Reports the variants that a `match` without `default` leaves out.
    fn require_all(&mut self, index: usize, named: &[(u64, Span)], at: Span) {
        let decl = &self.ck.enums[index];
        let is_named = |value: &u64| named.iter().any(|(known, _)| known == value);
        let left_out = decl.variants.iter().zip(&decl.values);
        let left_out: Vec<&str> = left_out
            .filter(|(_, value)| !is_named(value))
            .map(|((variant, _), _)| variant.name.as_str())
            .collect();
        if left_out.is_empty() {
            return;
        }
        let shown = left_out.iter().take(SHOWN).map(|name| format!("`{name}`"));
        let mut list = shown.collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = left_out.len().checked_sub(SHOWN) {
            list += &format!(" and {more} more");
        }
        let message = format!("a `match` on `{}` leaves out {list}", decl.name.name);
        let at = Span { end: at.start + "match".len() as u32, ..at };
        self.error_hint(
            codes::MISSING_CASE,
            at,
            message,
            "expected an arm for each variant",
            "name them in an arm, or end with `default -> { }`",
        );
    }

    /// Lowers `a in {b, c}` to `a == b || a == c`. Each operand is evaluated once.
    pub(crate) fn membership(&mut self, a: &'a ast::Expr, set: &'a [ast::Expr]) -> Value {
        let subject = match self.value(a, None) {
            Value::Scalar(expr) => Value::Scalar(self.once(expr)),
            Value::Place(place) if place.ty.is_scalar() => Value::Scalar(self.once(load(place))),
            Value::Place(place) if !place.steps.is_empty() && self.statements_allowed(a.span) => {
                Value::Place(self.keep_place(place))
            }
            other => other,
        };
        let mut result: Option<Expr> = None;
        let mut known: Vec<(Expr, Span)> = Vec::new();
        for element in set {
            let value = self.value(element, None);
            if matches!(value, Value::Error) || matches!(subject, Value::Error) {
                continue;
            }
            let at = Span { end: element.span.end, ..a.span };
            let Value::Scalar(test) =
                self.compare(CmpOp::Eq, subject.clone(), value, a.span, element.span, at)
            else {
                continue;
            };
            let is_decided = matches!(test.kind, ExprKind::Const(_));
            if let Some((_, first)) = known.iter().find(|(other, _)| !is_decided && *other == test) {
                let first = *first;
                self.ck.report(
                    Diagnostic::warning(codes::REPEATED, element.span, "the same value twice in a set")
                        .label("it changes nothing here")
                        .related(first, "first here"),
                );
                continue;
            }
            known.push((test.clone(), element.span));
            result = Some(result.map_or_else(|| test.clone(), |before| fold::or(before, test.clone())));
        }
        result.map_or(Value::Error, Value::Scalar)
    }

    /// Returns an expression that may stand several times in place of this one. Only plain reads do so
    /// themselves, so that the size of the result does not multiply.
    fn once(&mut self, expr: Expr) -> Expr {
        let mut plain = &expr;
        while let ExprKind::Cast(inner) = &plain.kind {
            plain = inner;
        }
        match &plain.kind {
            ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::RuleArg(_) | ExprKind::Wire(_) => expr,
            ExprKind::Load(place) if place.steps.is_empty() => expr,
            _ if self.statements_allowed(self.at) => self.keep(expr),
            _ => expr,
        }
    }
}

/// The number of missing variants that a message names.
const SHOWN: usize = 5;
