//! Methods: queries, which may stand anywhere, and operations, which change a container or a packet's cursor.
//! An operation stands alone: as a statement, or as the only value of one.

use hawser_ir as ir;
use hawser_ir::{ContainerOp, Expr, ExprKind, Index, Operand, OptListId, Place, Query, StmtKind, Ty};
use hawser_syntax::ast::{self, Ident, Span};

use crate::body::{Body, Variable};
use crate::codes;
use crate::convert::Value;

const OPERATIONS: &[&str] = &[
    "push_back",
    "pop_front",
    "pop",
    "clear",
    "put",
    "remove",
    "set",
    "unset",
    "slide",
    "add",
    "extract",
];

/// Methods of a list: name and form.
pub(crate) const LIST_METHODS: &[(&str, &str)] = &[
    ("at", "at(i)"),
    ("push_back", "push_back(x)"),
    ("pop_front", "pop_front()"),
    ("clear", "clear()"),
];

/// Methods of a sorted list: name and form.
pub(crate) const SORTED_METHODS: &[(&str, &str)] = &[
    ("at", "at(i)"),
    ("has", "has(key)"),
    (
        "first_from",
        "first_from(a, …) with at most as many values as `by` names",
    ),
    ("put", "put(x)"),
    ("remove", "remove(key)"),
    ("pop", "pop()"),
    ("clear", "clear()"),
];

/// Methods of a sliding window: name and form.
pub(crate) const WINDOW_METHODS: &[(&str, &str)] = &[
    ("set", "set(from, to)"),
    ("unset", "unset(from, to)"),
    ("slide", "slide(to)"),
    ("is_set", "is_set(x)"),
    ("first_set", "first_set(x)"),
    ("first_unset", "first_unset(x)"),
    ("from", "from(i)"),
    ("to", "to(i)"),
];

/// Methods of an option list: name and form.
pub(crate) const OPTION_METHODS: &[(&str, &str)] = &[("add", "add(member{…})"), ("clear", "clear()")];

impl<'a> Body<'_, 'a> {
    /// Lowers `object.method(args)` in an expression.
    pub(crate) fn query(
        &mut self,
        object: &'a ast::Expr,
        method: &'a Ident,
        args: &[&'a ast::Expr],
        at: Span,
    ) -> Value {
        if OPERATIONS.contains(&method.name.as_str()) {
            self.error_hint(
                codes::OPERATION_HERE,
                at,
                format!(
                    "`{}` changes a container and cannot be part of an expression",
                    method.name
                ),
                "it must be a statement, a whole right side, or the whole condition of an `if`",
                "store its result first: `bool ok = …;`",
            );
            return Value::Error;
        }
        if method.name == "valid" {
            return self.valid(object, args, at);
        }
        let place = match self.value(object, None) {
            Value::Place(place) => place,
            Value::Error => return Value::Error,
            other => {
                let found = self.describe(&other);
                return self.unknown_member(method, &found, None);
            }
        };
        self.ck.note_access(&place.ty, method);
        let scalar = |ty: Ty, query| Value::Scalar(Expr { ty, kind: ExprKind::Query(query) });
        match (place.ty.clone(), method.name.as_str(), args) {
            (Ty::List { elem, cap } | Ty::Sorted { elem, cap, .. }, "at", [position]) => {
                let at = position.span;
                let position = self.position(position);
                self.warn_of_position(&position, cap, at);
                Value::Place(self.element(&place, &elem, cap, Index::At(Box::new(position))))
            }
            (Ty::Sorted { key, .. }, "has", [value]) => {
                let value = self.argument(value, &key.ty);
                scalar(Ty::Bool, Query::HasKey(place, Box::new(value)))
            }
            (Ty::Sorted { by, .. }, "first_from", prefix)
                if !prefix.is_empty() && prefix.len() <= by.len() =>
            {
                let values = prefix
                    .iter()
                    .zip(&by)
                    .map(|(e, field)| self.argument(e, &field.ty))
                    .collect();
                scalar(Ty::uint(32), Query::FirstFrom(place, values))
            }
            (Ty::Window { elem, .. }, "is_set", [x]) => {
                let x = self.argument(x, &elem);
                scalar(Ty::Bool, Query::WindowIsSet(place, Box::new(x)))
            }
            (Ty::Window { elem, .. }, "first_set", [x]) => {
                let x = self.argument(x, &elem);
                scalar(*elem, Query::WindowFirstSet(place, Box::new(x)))
            }
            (Ty::Window { elem, .. }, "first_unset", [x]) => {
                let x = self.argument(x, &elem);
                scalar(*elem, Query::WindowFirstUnset(place, Box::new(x)))
            }
            (Ty::Window { elem, .. }, "from", [i]) => {
                let i = self.position(i);
                scalar(*elem, Query::WindowRunFrom(place, Box::new(i)))
            }
            (Ty::Window { elem, .. }, "to", [i]) => {
                let i = self.position(i);
                scalar(*elem, Query::WindowRunTo(place, Box::new(i)))
            }
            (Ty::List { .. } | Ty::Sorted { .. } | Ty::Window { .. } | Ty::Options { .. }, _, []) => {
                // `l.len()` is the same as `l.len`.
                self.container_field(place, method)
            }
            (ty, ..) => self.no_method(&ty, method, args.len(), at),
        }
    }

    fn no_method(&mut self, ty: &Ty, method: &Ident, args: usize, at: Span) -> Value {
        let known = match ty {
            Ty::List { .. } => LIST_METHODS,
            Ty::Sorted { .. } => SORTED_METHODS,
            Ty::Window { .. } => WINDOW_METHODS,
            Ty::Options { .. } => OPTION_METHODS,
            _ => &[],
        };
        if let Some((_, form)) = known.iter().find(|(name, _)| *name == method.name) {
            self.argument_count(at, &method.name, &format!("`{form}`"), args);
            return Value::Error;
        }
        let owner = self.ck.show(ty);
        let hint = self
            .ck
            .nearest_member(&method.name, known.iter().map(|(name, _)| *name));
        self.unknown_member(method, &owner, hint)
    }

    /// `opts[member].valid()`
    fn valid(&mut self, object: &'a ast::Expr, args: &[&'a ast::Expr], at: Span) -> Value {
        if !args.is_empty() {
            self.argument_count(at, "valid", "no arguments", args.len());
        }
        if let ast::ExprKind::Index(options, member) = &object.kind {
            match self.value(options, None) {
                Value::Error => return Value::Error,
                Value::Place(place) => {
                    if let Ty::Options { list, .. } = place.ty {
                        let Some((tag, _)) = self.option_member(list, member) else {
                            return Value::Error;
                        };
                        let query = Query::HasTag(place, tag.0);
                        return Value::Scalar(Expr { ty: Ty::Bool, kind: ExprKind::Query(query) });
                    }
                }
                Value::Entry(entry, list) => {
                    let Some((tag, _)) = self.option_member(list, member) else {
                        return Value::Error;
                    };
                    return Value::Scalar(self.entry_is(&entry, tag));
                }
                _ => {}
            }
        }
        self.error(
            codes::UNKNOWN_MEMBER,
            at,
            "`valid` tells whether an option is present",
            "expected `h.opts[member].valid()`",
        );
        Value::Error
    }

    /// Lowers an operation that stands alone. `result` receives its outcome: whether it succeeded, or the
    /// removed element. Returns `None` if the expression is not an operation.
    pub(crate) fn operation(&mut self, e: &'a ast::Expr, result: Option<&Place>) -> Option<()> {
        let ast::ExprKind::Call { callee, args, .. } = &e.kind else {
            return None;
        };
        let ast::ExprKind::Field(object, method) = &callee.kind else {
            return None;
        };
        if !OPERATIONS.contains(&method.name.as_str()) {
            return None;
        }
        if let ast::ExprKind::Name(name) = &object.kind {
            match self.local(name).map(|l| l.variable.clone()) {
                Some(Variable::Packet) => {
                    let args = self.unlabelled(args);
                    self.packet_operation(method, &args, result, e.span);
                    return Some(());
                }
                Some(Variable::InstructionList | Variable::EventList) => return None,
                _ => {}
            }
        }
        let args = self.unlabelled(args);
        let place = match self.value(object, None) {
            Value::Place(place) => place,
            Value::Error => return Some(()),
            other => {
                let found = self.describe(&other);
                self.unknown_member(method, &found, None);
                return Some(());
            }
        };
        self.ck.note_access(&place.ty, method);
        self.writable(object);
        if let Some((op, element)) = self.container_op(&place, method, &args, e.span) {
            self.finish_operation(op, element, result, e.span);
        }
        Some(())
    }

    /// Returns the operation, and the type of the element that it removes.
    fn container_op(
        &mut self,
        place: &Place,
        method: &'a Ident,
        args: &[&'a ast::Expr],
        at: Span,
    ) -> Option<(ContainerOp, Option<Ty>)> {
        let target = place.clone();
        let op = match (&place.ty, method.name.as_str(), args) {
            (Ty::List { elem, .. }, "push_back", [x]) => {
                ContainerOp::PushBack(target, self.operand(x, elem)?)
            }
            (Ty::Sorted { elem, .. }, "put", [x]) => ContainerOp::Put(target, self.operand(x, elem)?),
            (Ty::List { elem, .. }, "pop_front", []) | (Ty::Sorted { elem, .. }, "pop" | "pop_front", []) => {
                return Some((ContainerOp::PopFront(target, None), Some((**elem).clone())));
            }
            (Ty::List { .. } | Ty::Sorted { .. } | Ty::Options { .. }, "clear", []) => {
                ContainerOp::Clear(target)
            }
            (Ty::Sorted { key, .. }, "remove", [value]) => {
                ContainerOp::Remove(target, self.argument(value, &key.ty))
            }
            (Ty::Window { elem, .. }, "set", [from, to]) => {
                let (from, to) = (self.argument(from, elem), self.argument(to, elem));
                ContainerOp::WindowSet(target, from, to)
            }
            (Ty::Window { elem, .. }, "unset", [from, to]) => {
                let (from, to) = (self.argument(from, elem), self.argument(to, elem));
                ContainerOp::WindowUnset(target, from, to)
            }
            (Ty::Window { elem, .. }, "slide", [to]) => {
                ContainerOp::WindowSlide(target, self.argument(to, elem))
            }
            (Ty::Options { list, .. }, "add", [member]) => return self.option_add(target, *list, member),
            (ty, ..) => {
                let ty = ty.clone();
                self.no_method(&ty, method, args.len(), at);
                return None;
            }
        };
        Some((op, None))
    }

    fn finish_operation(&mut self, op: ContainerOp, element: Option<Ty>, result: Option<&Place>, at: Span) {
        match (op, result, element) {
            (ContainerOp::PopFront(list, _), Some(result), Some(element)) if result.ty == element => {
                let op = ContainerOp::PopFront(list, Some(result.clone()));
                self.push(StmtKind::Container { op, ok: None });
            }
            (op, Some(result), _) if result.ty == Ty::Bool => {
                self.push(StmtKind::Container { op, ok: Some(result.clone()) });
            }
            (op, None, _) => self.push(StmtKind::Container { op, ok: None }),
            (_, Some(result), element) => {
                let expected = element.map_or("bool".to_owned(), |ty| self.ck.show(&ty));
                let found = self.ck.show(&result.ty);
                self.error(
                    codes::MISMATCH,
                    at,
                    format!("the result cannot be stored as {found}"),
                    format!("the result is {expected}"),
                );
            }
        }
    }

    /// Lowers an operand that is put into a list.
    fn operand(&mut self, e: &'a ast::Expr, elem: &Ty) -> Option<Operand> {
        if elem.is_scalar() {
            return Some(Operand::Value(self.argument(e, elem)));
        }
        self.aggregate(e, elem).map(Operand::Ref)
    }

    fn option_add(
        &mut self,
        options: Place,
        list: OptListId,
        member: &'a ast::Expr,
    ) -> Option<(ContainerOp, Option<Ty>)> {
        let value = self.value(member, None);
        let Value::Place(place) = value else {
            if !matches!(value, Value::Error) {
                self.error(
                    codes::MISMATCH,
                    member.span,
                    "this is not an option",
                    "expected a member of the list: `mss{value: 5}`",
                );
            }
            return None;
        };
        let name = self.ck.show(&place.ty);
        let union = self.ck.opt_list_uses[list.0 as usize].union?;
        let Some(tag) = self.ck.unions[union].members.iter().position(|m| m.name == name) else {
            let owner = self.ck.unions[union].name.name.clone();
            self.error(
                codes::MISMATCH,
                member.span,
                format!("`{owner}` has no member `{name}`"),
                "expected a member of the list",
            );
            return None;
        };
        Some((
            ContainerOp::OptionAdd(options, ir::OptMember(tag as u32), place),
            None,
        ))
    }
}
