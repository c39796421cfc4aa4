//! Expressions: names, conditional and logical operators, and the entry to all others.

use hawser_ir as ir;
use hawser_ir::{Expr, StmtKind, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{self, ExprKind, Ident, Span, UnOp};

use crate::body::{Body, BodyKind, MAX_NESTING, Variable, inside, region};
use crate::codes;
use crate::consts::{BUILTIN_CONSTANTS, builtin_constant};
use crate::convert::{Choice, How, Value};
use crate::fold;
use crate::index::{DefKind, member};
use crate::names::{Def, did_you_mean};

/// The parser's code. The parser limits nesting, so only trees from another source reach this error.
const TOO_DEEP: &str = "E0110";

impl<'a> Body<'_, 'a> {
    /// Lowers an expression. `want` is the type to which it will be converted, if known. It helps with
    /// expressions that have no type of their own.
    pub(crate) fn value(&mut self, e: &'a ast::Expr, want: Option<&Ty>) -> Value {
        if self.nesting >= MAX_NESTING {
            self.too_deep(e.span);
            return Value::Error;
        }
        self.nesting += 1;
        let value = self.value_inner(e, want);
        self.nesting -= 1;
        if matches!(value, Value::Error) {
            self.poisoned = true;
        }
        value
    }

    fn value_inner(&mut self, e: &'a ast::Expr, want: Option<&Ty>) -> Value {
        match &e.kind {
            ExprKind::Int(n) => Value::Literal { value: i128::from(*n), mask: false },
            ExprKind::Duration(n) => Value::Scalar(fold::constant(*n, Ty::Duration)),
            ExprKind::Bool(b) => Value::Scalar(fold::constant(u64::from(*b), Ty::Bool)),
            ExprKind::Str(_) => {
                self.error(
                    codes::NOT_A_VALUE,
                    e.span,
                    "a string is not a value",
                    "strings are allowed in `import` only",
                );
                Value::Error
            }
            ExprKind::Name(name) => self.name(name),
            ExprKind::Field(base, name) => self.field(base, name, e.span),
            ExprKind::Path(scope, name) => self.path(scope, name, e.span),
            ExprKind::Index(base, index) => self.index(base, index, e.span),
            ExprKind::Call { callee, types, args } => self.call(e.span, callee, types, args, want),
            ExprKind::Struct { name, fields } => self.struct_literal(name, fields, e.span),
            ExprKind::Unary(op, operand) => self.unary(*op, operand, want, e.span),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, want, e.span),
            ExprKind::Fields(_) => {
                self.error(
                    codes::NOT_A_VALUE,
                    e.span,
                    "fields that no structure takes",
                    "expected `place = {a, b};` with a structure as the place",
                );
                Value::Error
            }
            ExprKind::In(a, set) => self.membership(a, set),
            ExprKind::Conditional(c, a, b) => self.conditional(c, a, b, want, e.span),
            ExprKind::Error => Value::Error,
        }
    }

    /// Reports, once, that something is nested too deeply.
    pub(crate) fn too_deep(&mut self, at: Span) {
        self.error_hint(
            TOO_DEEP,
            at,
            "this expression is nested too deeply",
            format!("expected at most {MAX_NESTING} levels"),
            "store a part of it in a variable, or move it into a function",
        );
    }

    fn name(&mut self, name: &'a Ident) -> Value {
        if let Some(local) = self.local(name) {
            return match local.variable.clone() {
                Variable::Place(place) => Value::Place(place),
                Variable::RuleArg(index, ty) => {
                    Value::Scalar(Expr { ty, kind: ir::ExprKind::RuleArg(index) })
                }
                Variable::Entry(place, list) => Value::Entry(place, list),
                Variable::Error => Value::Error,
                Variable::Instruction(_)
                | Variable::InstructionList
                | Variable::EventList
                | Variable::Packet
                | Variable::NoContext => {
                    self.error(
                        codes::NOT_A_VALUE,
                        name.span,
                        format!("`{}` cannot be used as a value", name.name),
                        "expected a value",
                    );
                    Value::Error
                }
            };
        }
        if let Some(value) = self.own_field(name) {
            return value;
        }
        match name.name.as_str() {
            "" => return Value::Error,
            "INF" => return Value::Infinite,
            "NONE" => return Value::None,
            "prev" if matches!(self.kind, BodyKind::Rule(_)) => {
                if let BodyKind::Rule(blueprint) = self.kind {
                    let body = self.ck.module.blueprints[blueprint.0 as usize].body;
                    return Value::Place(region(ir::Base::Blueprint, Ty::Struct(body)));
                }
            }
            _ => {}
        }
        match self.ck.lookup(name) {
            Some(Def::Const(index)) => {
                self.ck.consts[index].used = true;
                match self.ck.const_value(index) {
                    Some((ty, value)) => Value::Scalar(fold::constant(value, ty)),
                    None => Value::Error,
                }
            }
            Some(Def::Table(index)) => {
                self.ck.tables[index].used = true;
                Value::Table(index)
            }
            Some(Def::Param(index)) => {
                self.ck.params[index].used = true;
                match self.ck.params[index].result.clone() {
                    Some((Ty::Ip, _)) => self.address_param(index, name.span),
                    Some((ty, _)) => {
                        let at = self.ck.params[index].at;
                        Value::Scalar(Expr { ty, kind: ir::ExprKind::Param(at) })
                    }
                    // A constant that names a param before params are known is not constant.
                    None if matches!(self.kind, BodyKind::Constant) => {
                        self.error(
                            codes::NOT_CONSTANT,
                            name.span,
                            format!("`{}` is a param: operators set it", name.name),
                            "expected a value that is known when the program is compiled",
                        );
                        Value::Error
                    }
                    None => Value::Error,
                }
            }
            Some(Def::Variant(index, variant)) => match self.ck.named_variant(index, variant) {
                Some(ty) => match self.ck.enums[index].values.get(variant) {
                    Some(value) => Value::Scalar(fold::constant(*value, ty)),
                    None => Value::Error,
                },
                None => Value::Error,
            },
            Some(other) => {
                self.error(
                    codes::NOT_A_VALUE,
                    name.span,
                    format!("`{}` is {}", name.name, other.what()),
                    "expected a value",
                );
                Value::Error
            }
            None => match builtin_constant(&name.name) {
                Some((ty, value)) => Value::Scalar(fold::constant(value, ty)),
                None => {
                    self.unknown_variable(name);
                    Value::Error
                }
            },
        }
    }

    fn address_param(&mut self, index: usize, at: Span) -> Value {
        if !self.statements_allowed(at) {
            return Value::Error;
        }
        let first = self.ck.params[index].at;
        let half = |at| Expr { ty: Ty::uint(64), kind: ir::ExprKind::Param(at) };
        let address = self.temporary(Ty::Ip);
        self.push(StmtKind::MakeIpv6(address.clone(), half(first), half(first + 1)));
        Value::Place(address)
    }

    /// Looks up a field of the structure that this expression is about.
    fn own_field(&mut self, name: &Ident) -> Option<Value> {
        let this = self.this.clone()?;
        let Ty::Struct(id) = this.ty else { return None };
        let field = self.ck.field_named(id, &name.name)?;
        let (offset, ty) = (field.offset, field.ty.clone());
        self.ck.note_field(id, name);
        self.ck.note_read(id, name);
        Some(Value::Place(inside(&this, offset, ty)))
    }

    fn unknown_variable(&mut self, name: &Ident) {
        if !self.ck.gives_hints() {
            return self.ck.unknown(name, "a variable or a constant", None);
        }
        let mut known: Vec<&str> = self
            .scopes
            .iter()
            .flat_map(|scope| scope.keys().copied())
            .collect();
        known.sort_unstable();
        let near = hawser_syntax::nearest(&name.name, known).map(str::to_owned);
        let meant = near.as_deref().and_then(|near| {
            let mut scopes = self.scopes.iter_mut().rev();
            scopes.find_map(|scope| scope.get_mut(near))
        });
        if let Some(local) = meant {
            local.used = true;
        }
        let mut hint = near.as_deref().map(did_you_mean);
        if hint.is_none() {
            let is_value = |def| {
                matches!(
                    def,
                    Def::Const(_) | Def::Table(_) | Def::Param(_) | Def::Variant(..)
                )
            };
            let builtin = BUILTIN_CONSTANTS
                .iter()
                .map(|(name, _)| *name)
                .chain(["INF", "NONE"]);
            hint = self.ck.suggestion(name, is_value, builtin);
        }
        self.ck.unknown(name, "a variable or a constant", hint);
    }

    /// `A::b`: a variant of an enum.
    fn path(&mut self, scope: &'a Ident, name: &'a Ident, at: Span) -> Value {
        if let Some(Def::Enum(index)) = self.ck.lookup(scope) {
            let variants = self.ck.enums[index].variants;
            self.ck.answer(name.span, || {
                let variant =
                    |(variant, _): &(Ident, _)| member(&variant.name, DefKind::Variant, &scope.name);
                variants.iter().map(variant).collect()
            });
            if variants.iter().any(|(variant, _)| variant.name == name.name) {
                return self.name(name);
            }
            let hint = self
                .ck
                .nearest_member(&name.name, variants.iter().map(|(v, _)| v.name.as_str()));
            let mut diagnostic = Diagnostic::error(
                codes::UNKNOWN_MEMBER,
                name.span,
                format!("`{}` has no variant `{}`", scope.name, name.name),
            )
            .label("expected one of its variants");
            diagnostic.hint = hint;
            self.ck.report(diagnostic);
            return Value::Error;
        }
        self.error(
            codes::NOT_A_VALUE,
            at,
            "`::` must name a variant of an enum here",
            "expected a value",
        );
        Value::Error
    }

    fn unary(&mut self, op: UnOp, operand: &'a ast::Expr, want: Option<&Ty>, at: Span) -> Value {
        if op == UnOp::Not {
            return Value::Scalar(fold::unary(ir::UnOp::LogicalNot, self.condition(operand)));
        }
        let value = self.value(operand, want);
        match (op, value) {
            (_, Value::Error) => Value::Error,
            (UnOp::Neg, Value::Literal { value, .. }) => Value::Literal { value: -value, mask: false },
            (UnOp::BitNot, Value::Literal { value, .. }) => Value::Literal { value: !value, mask: true },
            (UnOp::Select, _) => {
                self.error(
                    codes::OPERATOR,
                    at,
                    "`select` is allowed in `deploy` only",
                    "expected a value",
                );
                Value::Error
            }
            (UnOp::Neg | UnOp::BitNot | UnOp::Not, value) => {
                let Some(expr) = self.scalar(value, operand.span) else {
                    return Value::Error;
                };
                if !matches!(expr.ty, Ty::Int { .. }) {
                    let found = self.ck.show(&expr.ty);
                    self.error(
                        codes::OPERATOR,
                        at,
                        format!("the operator does not take {found}"),
                        "expected an integer",
                    );
                    return Value::Error;
                }
                let op = if op == UnOp::Neg {
                    ir::UnOp::Neg
                } else {
                    ir::UnOp::Not
                };
                Value::Scalar(fold::unary(op, expr))
            }
        }
    }

    /// `a && b`, `a || b`. The statements that the right side needs run only if it is evaluated.
    pub(crate) fn logical(&mut self, and: bool, a: &'a ast::Expr, b: &'a ast::Expr) -> Value {
        let at = b.span;
        let a = self.condition(a);
        let (b, before) = self.separately(|body| body.condition(b));
        if before.is_empty() {
            self.warn_of_decided_operand(and, &a, &b, at);
            return Value::Scalar(if and { fold::and(a, b) } else { fold::or(a, b) });
        }
        Value::Place(self.logical_with(and, a, before, b))
    }

    /// Lowers `a && b` or `a || b` where b needs statements before it. They run only if b is evaluated.
    pub(crate) fn logical_with(&mut self, and: bool, a: Expr, before: Vec<ir::Stmt>, b: Expr) -> ir::Place {
        let result = self.temporary(Ty::Bool);
        self.push(StmtKind::Store(result.clone(), a));
        let test = crate::body::load(result.clone());
        let test = if and {
            test
        } else {
            fold::unary(ir::UnOp::LogicalNot, test)
        };
        let ((), then) = self.separately(|body| {
            body.out = before;
            body.push(StmtKind::Store(result.clone(), b));
        });
        self.push(StmtKind::If(test, then, Vec::new()));
        result
    }

    fn conditional(
        &mut self,
        condition: &'a ast::Expr,
        a: &'a ast::Expr,
        b: &'a ast::Expr,
        want: Option<&Ty>,
        at: Span,
    ) -> Value {
        self.ck.warn_of_same_ways(a.span, b.span);
        let condition = self.condition(condition);
        let (then, before_then) = self.separately(|body| body.value(a, want));
        let (otherwise, before_otherwise) = self.separately(|body| body.value(b, want));
        if matches!(then, Value::Error) || matches!(otherwise, Value::Error) {
            return Value::Error;
        }
        if let Some(ty) = aggregate_type(&then).or_else(|| aggregate_type(&otherwise)) {
            let result = self.temporary(ty.clone());
            let mut arm = |value, before, span| {
                self.separately(|body| {
                    body.out = before;
                    if let Some(place) = body.aggregate_value(value, &ty, span) {
                        body.push(StmtKind::Copy(result.clone(), place));
                    }
                })
                .1
            };
            let then = arm(then, before_then, a.span);
            let otherwise = arm(otherwise, before_otherwise, b.span);
            if !self.statements_allowed(at) {
                return Value::Error;
            }
            self.push(StmtKind::If(condition, then, otherwise));
            return Value::Place(result);
        }
        if before_then.is_empty() && before_otherwise.is_empty() && untyped(&then) && untyped(&otherwise) {
            return Value::Choice(Box::new(Choice { condition, then, otherwise }));
        }
        let Some(ty) = self.common_type(&then, &otherwise, want, at) else {
            return Value::Error;
        };
        let then = self.convert(then, &ty, How::Pass, a.span);
        let otherwise = self.convert(otherwise, &ty, How::Pass, b.span);
        if before_then.is_empty() && before_otherwise.is_empty() {
            return Value::Scalar(fold::select(condition, then, otherwise));
        }
        let result = self.temporary(ty);
        let mut arm = |value, before| {
            self.separately(|body| {
                body.out = before;
                body.push(StmtKind::Store(result.clone(), value));
            })
            .1
        };
        let then = arm(then, before_then);
        let otherwise = arm(otherwise, before_otherwise);
        self.push(StmtKind::If(condition, then, otherwise));
        Value::Place(result)
    }
}

/// True if an arm of a conditional leaves its type open.
fn untyped(arm: &Value) -> bool {
    matches!(arm, Value::Literal { .. } | Value::Infinite | Value::Choice(_))
}

/// Returns the type of a value that is not a scalar.
fn aggregate_type(value: &Value) -> Option<Ty> {
    match value {
        Value::Place(place) if !place.ty.is_scalar() => Some(place.ty.clone()),
        _ => None,
    }
}
