//! `match` and `in`. Both are lowered to comparisons: the arms of a `match` to an `if` with `else if`, a set to
//! a chain of `||`.

use std::collections::BTreeMap;

use hawser_ir as ir;
use hawser_ir::{CmpOp, Expr, ExprKind, StmtKind, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{self, Arm, Span};

use crate::body::{Body, BodyKind, load};
use crate::codes;
use crate::convert::{How, Value};
use crate::fold;
use crate::ops::widened;
use crate::state::span;

impl<'a> Body<'_, 'a> {
    /// Lowers `match (e) { … }` over an enum. A value that no arm names runs `default`, if there is one.
    pub(crate) fn match_(&mut self, value: &'a ast::Expr, arms: &'a [Arm], at: Span) {
        let lowered = self.value(value, None);
        let subject = match lowered {
            Value::Error => None,
            lowered => self.scalar(lowered, value.span),
        };
        let subject = subject.map(|subject| self.once(subject, false, value.span));
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
        let mut named = BTreeMap::new();
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
    fn variant(
        &mut self,
        case: &'a ast::Expr,
        index: usize,
        named: &mut BTreeMap<u64, Span>,
    ) -> Option<Expr> {
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
        if let Some(first) = named.get(value) {
            self.twice("a case", case.span, *first);
            return None;
        }
        named.insert(*value, case.span);
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
    fn require_all(&mut self, index: usize, named: &BTreeMap<u64, Span>, at: Span) {
        let decl = &self.ck.enums[index];
        let left_out = decl.variants.iter().zip(&decl.values);
        let left_out: Vec<&str> = left_out
            .filter(|(_, value)| !named.contains_key(value))
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

    /// Lowers `a in {b, c}` to `a == b || a == c`. The subject is evaluated once. The elements are evaluated in
    /// order, up to the first that equals it; so are the statements that they need.
    pub(crate) fn membership(&mut self, a: &'a ast::Expr, set: &'a [ast::Expr]) -> Value {
        let subject = self.value(a, None);
        let elements: Vec<Element> = set
            .iter()
            .map(|element| self.separately(|lowering| lowering.value(element, None)))
            .collect();
        let subject = self.subject(subject, &elements, a.span);
        let mut result: Option<Expr> = None;
        let mut known: Vec<(Expr, Span)> = Vec::new();
        for (element, lowered) in set.iter().zip(elements) {
            let is_fixed = !acts(&lowered);
            let (value, before) = lowered;
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
            let repeated = known.iter().find(|(other, _)| !is_decided && *other == test);
            if let Some((_, first)) = repeated.filter(|_| is_fixed) {
                let first = *first;
                self.ck.report(
                    Diagnostic::warning(codes::REPEATED, element.span, "the same value twice in a set")
                        .label("it changes nothing here")
                        .related(first, "first here"),
                );
                continue;
            }
            known.push((test.clone(), element.span));
            result = Some(match result {
                None => {
                    self.out.extend(before);
                    test
                }
                Some(so_far) if before.is_empty() => fold::or(so_far, test),
                Some(so_far) => load(self.logical_with(false, so_far, before, test)),
            });
        }
        result.map_or(Value::Error, Value::Scalar)
    }

    /// Returns the value before `in` in a form that may stand in each comparison.
    fn subject(&mut self, value: Value, elements: &[Element], at: Span) -> Value {
        let value = match value {
            Value::Choice(_) => self.typed_choice(value, elements, at),
            other => other,
        };
        let may_change = elements.iter().any(acts);
        match value {
            Value::Place(place) if !place.ty.is_scalar() => {
                let is_plain = place.steps.is_empty() && !(may_change && self.in_function());
                match is_plain || !self.may_keep(at) {
                    true => Value::Place(place),
                    false => Value::Place(self.keep_place(place)),
                }
            }
            Value::Scalar(_) | Value::Place(_) => match self.scalar(value, at) {
                Some(expr) => Value::Scalar(self.once(expr, may_change, at)),
                None => Value::Error,
            },
            other => other,
        }
    }

    /// Gives a conditional without a type that of the first element that has one.
    fn typed_choice(&mut self, choice: Value, elements: &[Element], at: Span) -> Value {
        let ty = elements.iter().find_map(|(element, _)| match element {
            Value::Scalar(expr) => Some(expr.ty.clone()),
            Value::Place(place) if place.ty.is_scalar() => Some(load(place.clone()).ty),
            _ => None,
        });
        let Some(ty) = ty else {
            return self.scalar(choice, at).map_or(Value::Error, Value::Scalar);
        };
        let ty = widened(ty, &choice);
        Value::Scalar(self.convert(choice, &ty, How::Pass, at))
    }

    /// Returns an expression that may stand several times in place of this one. Only plain reads do so
    /// themselves, so that the size of the result does not multiply, and only if nothing between may change
    /// what they read.
    fn once(&mut self, expr: Expr, may_change: bool, at: Span) -> Expr {
        let may_change = may_change && self.in_function();
        let mut plain = &expr;
        while let ExprKind::Cast(inner) = &plain.kind {
            plain = inner;
        }
        let is_plain = match &plain.kind {
            ExprKind::Const(_) | ExprKind::Param(_) => true,
            ExprKind::RuleArg(_) | ExprKind::Wire(_) => !may_change,
            ExprKind::Load(place) => place.steps.is_empty() && !may_change,
            _ => false,
        };
        match is_plain || !self.may_keep(at) {
            true => expr,
            false => self.keep(expr),
        }
    }

    fn in_function(&self) -> bool {
        matches!(self.kind, BodyKind::Function(_))
    }

    /// Returns true if the value at this place may be kept in a variable, and reports an error otherwise.
    fn may_keep(&mut self, at: Span) -> bool {
        if !self.in_function() {
            self.error_hint(
                codes::NOT_CONSTANT,
                at,
                "`in` needs a plain value before it outside functions",
                "expected a field, a constant or a param",
                "compare the value by `==` with each element: `x + 1 == a || x + 1 == b`",
            );
        }
        self.in_function()
    }
}

/// An element of a set: its value, and the statements that it needs.
type Element = (Value, Vec<ir::Stmt>);

/// True if the evaluation of an element may change what other values read.
fn acts((value, before): &Element) -> bool {
    !before.is_empty() || value.calls()
}

/// The number of missing variants that a message names.
const SHOWN: usize = 5;
