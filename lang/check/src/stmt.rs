//! Statements.

use hawser_ir as ir;
use hawser_ir::{Place, StmtKind as Ir, Ty};
use hawser_syntax::ast::{self, BinOp, Block, Expr, ExprKind, Ident, Span, Stmt, StmtKind};

use crate::body::{Body, BodyKind, MAX_NESTING, Returns, Variable, load, place_calls};
use crate::codes;
use crate::convert::{How, Value};
use crate::fold;
use crate::names::Def;
use crate::vocabulary::{self, Sort};

impl<'a> Body<'_, 'a> {
    /// Lowers the statements of a block, in a scope of their own.
    pub(crate) fn block(&mut self, block: &'a Block) {
        self.scoped(|body| body.statements(&block.stmts));
    }

    pub(crate) fn statements(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            self.statement(stmt);
        }
        self.warn_of_dead_code(stmts);
        self.warn_of_lost_value(stmts);
    }

    fn statement(&mut self, stmt: &'a Stmt) {
        if self.nesting >= MAX_NESTING {
            self.too_deep(stmt.span);
            return;
        }
        let outer = std::mem::replace(&mut self.at, stmt.span);
        self.nesting += 1;
        match &stmt.kind {
            StmtKind::Declare { ty, vars } => self.declare(ty, vars),
            StmtKind::Assign { place, op, value } => self.assign(place, *op, value),
            StmtKind::Expr(e) => self.expression(e),
            StmtKind::Emit { instr, answer } => self.emit(instr, answer.as_ref()),
            StmtKind::If { cond, then, otherwise } => self.branch(cond, then, otherwise.as_deref()),
            StmtKind::Match { value, arms } => self.match_(value, arms, stmt.span),
            StmtKind::ForEach { var, list, max, body } => self.for_each(var, list, max.as_ref(), body),
            StmtKind::ForRange { var, from, to, max, body } => {
                self.for_range(var, [from, to], max.as_ref(), body)
            }
            StmtKind::Break => self.leave_loop(stmt.span, Ir::Break),
            StmtKind::Continue => self.leave_loop(stmt.span, Ir::Continue),
            StmtKind::Return(value) => self.give_back(value.as_ref(), stmt.span),
            StmtKind::Done => self.push(Ir::Done),
            StmtKind::Refuse(code) => {
                let code = self.argument(code, &Ty::uint(32));
                self.push(Ir::Refuse(code));
            }
            StmtKind::Assert(e) => {
                let condition = self.condition(e);
                self.ck.warn_of_numbers(&condition, e.span);
                let index = self.ck.assertion(e.span);
                self.push(Ir::Assert(condition, index));
            }
            StmtKind::Block(block) => self.block(block),
            StmtKind::Error => {}
        }
        self.nesting -= 1;
        self.at = outer;
    }

    fn assign(&mut self, target: &'a Expr, op: Option<BinOp>, value: &'a Expr) {
        if let ExprKind::Name(name) = &target.kind
            && matches!(
                self.local(name).map(|l| &l.variable),
                Some(Variable::Instruction(_))
            )
        {
            self.error_hint(
                codes::INSTRUCTION_VARIABLE,
                target.span,
                format!("the instruction `{}` is set twice", name.name),
                "an instruction is set once, where it is declared",
                "declare another variable, or `emit` it",
            );
            return;
        }
        if let ExprKind::Field(_, name) = &target.kind {
            self.ck.written = Some(name.span);
        }
        let place = match self.value(target, None) {
            Value::Place(place) => place,
            Value::Error => {
                self.value(value, None);
                return;
            }
            Value::Literal { .. }
            | Value::Infinite
            | Value::None
            | Value::Choice(_)
            | Value::Scalar(_)
            | Value::Table(_)
            | Value::Entry(..) => {
                self.error(
                    codes::NOT_ASSIGNABLE,
                    target.span,
                    "this cannot be assigned to",
                    "expected a variable or a field",
                );
                return;
            }
        };
        if !self.writable(target) {
            return;
        }
        self.warn_of_fill(target);
        match op {
            None => {
                self.warn_of_own_value(target, value);
                self.store(&place, value);
            }
            Some(op) => self.update(place, op, target.span, value),
        }
    }

    /// `place op= value`
    fn update(&mut self, place: Place, op: BinOp, target_at: Span, value: &'a Expr) {
        let ty = place.ty.clone();
        if !ty.is_scalar() || ty == Ty::Timer {
            let found = self.ck.show(&ty);
            self.error(
                codes::OPERATOR,
                target_at,
                format!("{found} does not take operators"),
                "expected a number",
            );
            return;
        }
        let (right, before) = self.separately(|lowering| lowering.value(value, Some(&ty)));
        // The place is read and written, so its indices are evaluated once, before the value.
        let place = match place_calls(&place) || right.calls() || !before.is_empty() {
            true => self.frozen(place),
            false => place,
        };
        self.out.extend(before);
        if matches!(right, Value::Error) {
            return;
        }
        let at = Span { end: value.span.end, ..target_at };
        let result = self.arithmetic(
            op,
            Value::Place(place.clone()),
            right,
            Some(&ty),
            [target_at, value.span, at],
        );
        if matches!(result, Value::Error) {
            return;
        }
        let result = self.convert(result, &ty, How::Assign, at);
        self.push(Ir::Store(place, result));
    }

    /// `place = value`, for every type.
    pub(crate) fn store(&mut self, place: &Place, value: &'a Expr) {
        if self.operation(value, Some(place)).is_some() {
            return;
        }
        if let (ExprKind::Fields(sources), Ty::Struct(id)) = (&value.kind, &place.ty) {
            self.copy_by_name(place, *id, sources);
            return;
        }
        match &place.ty {
            Ty::Timer => self.error_hint(
                codes::NOT_ASSIGNABLE,
                value.span,
                "a timer cannot be assigned",
                "expected an instruction",
                "`emit timer_start(c.rtx, d);`, `emit timer_stop(c.rtx);`",
            ),
            ty if ty.is_scalar() => {
                let value = self.expr_as(value, ty);
                self.push(Ir::Store(place.clone(), value));
            }
            _ => self.store_aggregate(place, value),
        }
    }

    fn store_aggregate(&mut self, place: &Place, value: &'a Expr) {
        if self.ck.context_of(&place.ty).is_some() {
            self.error(
                codes::NOT_ASSIGNABLE,
                value.span,
                "a context cannot be assigned as a whole",
                "expected its fields one by one",
            );
            return;
        }
        if matches!(&value.kind, ExprKind::Name(name) if name.name == "NONE")
            && matches!(place.ty, Ty::Id | Ty::Ip | Ty::Bytes { .. })
        {
            self.push(Ir::Init(place.clone()));
            return;
        }
        if let (Ty::Data, ExprKind::Call { callee, args, .. }) = (&place.ty, &value.kind)
            && matches!(&callee.kind, ExprKind::Name(name) if name.name == "data")
        {
            let args = self.unlabelled(args);
            self.make_data(place, &args, value.span);
            return;
        }
        if let Some(from) = self.aggregate(value, &place.ty) {
            self.push(Ir::Copy(place.clone(), from));
        }
    }

    /// Returns true if the variable under a place may be written, and reports an error otherwise.
    pub(crate) fn writable(&mut self, target: &Expr) -> bool {
        let mut root = target;
        loop {
            root = match &root.kind {
                ExprKind::Field(base, _) | ExprKind::Index(base, _) => base,
                ExprKind::Name(name) => {
                    let read_only = self.local(name).is_some_and(|local| local.read_only);
                    if read_only {
                        self.error_hint(
                            codes::NOT_ASSIGNABLE,
                            target.span,
                            format!("`{}` is the parser's input", name.name),
                            "a parser cannot change its input",
                            "copy it into a variable of your own",
                        );
                    }
                    return !read_only;
                }
                _ => return true,
            };
        }
    }

    /// Lowers a call that stands alone.
    fn expression(&mut self, e: &'a Expr) {
        if matches!(e.kind, ExprKind::Error) || self.operation(e, None).is_some() {
            return;
        }
        let ExprKind::Call { callee, args, .. } = &e.kind else {
            self.value(e, None);
            self.error(
                codes::NO_EFFECT,
                e.span,
                "this has no effect",
                "expected a call or an assignment",
            );
            return;
        };
        match &callee.kind {
            ExprKind::Name(name) if name.name == "set_flow_id" => {
                let args = self.unlabelled(args);
                self.set_flow_id(&args, e.span);
            }
            ExprKind::Name(name) => match self.ck.lookup(name) {
                Some(Def::Func(index)) => {
                    let args = self.unlabelled(args);
                    if let Some(Value::Scalar(expr)) = self.call_helper(index, name, &args, e.span)
                        && let ir::ExprKind::Call(func, args) = expr.kind
                    {
                        self.push(Ir::Call(func, args));
                    }
                }
                Some(Def::Extern(_)) => {
                    self.no_function(name);
                }
                _ if vocabulary::word(&name.name, |sort| sort == Sort::Function).is_some() => {
                    self.value(e, None);
                    self.error(
                        codes::NO_EFFECT,
                        e.span,
                        "the value is not used",
                        "expected a statement with an effect",
                    );
                }
                _ => self.no_function(name),
            },
            ExprKind::Field(object, method) => self.list_method(e, object, method, args),
            _ => {
                self.value(e, None);
            }
        }
    }

    /// Lowers `out.add(…)`, or a query whose value is ignored.
    fn list_method(&mut self, e: &'a Expr, object: &'a Expr, method: &'a Ident, args: &'a [ast::CallArg]) {
        if let ExprKind::Name(name) = &object.kind {
            let list = self.local(name).map(|l| l.variable.clone());
            if let Some(list @ (Variable::InstructionList | Variable::EventList)) = list {
                let args = self.unlabelled(args);
                let [arg] = args[..] else {
                    self.argument_count(e.span, &method.name, "one value", args.len());
                    return;
                };
                if method.name != "add" {
                    self.unknown_member(method, &name.name, Some("a list of results has `add`".into()));
                } else if matches!(list, Variable::EventList) {
                    self.add_event(arg);
                } else {
                    self.emit(arg, None);
                }
                return;
            }
        }
        if !matches!(self.value(e, None), Value::Error) {
            self.error(
                codes::NO_EFFECT,
                e.span,
                "the value is not used",
                "expected a statement with an effect",
            );
        }
    }

    fn branch(&mut self, cond: &'a Expr, then: &'a Block, written: Option<&'a Stmt>) {
        let condition = self.if_condition(cond);
        self.ck.warn_of_numbers(&condition, cond.span);
        self.warn_of_repeated_branch(cond, written);
        if let Some(stmt) = written.filter(|stmt| !matches!(stmt.kind, StmtKind::If { .. })) {
            self.ck.warn_of_same_ways(then.span, stmt.span);
        }
        let ((), then) = self.separately(|body| body.block(then));
        let ((), otherwise) = self.separately(|body| {
            if let Some(stmt) = written {
                body.scoped(|body| body.statement(stmt));
            }
        });
        self.warn_of_decided_branch((&condition, cond.span), &otherwise, written);
        self.push(Ir::If(condition, then, otherwise));
    }

    /// Lowers the condition of an `if`. An operation may be the whole condition, or be negated as a whole.
    fn if_condition(&mut self, cond: &'a Expr) -> ir::Expr {
        let (inner, negated) = match &cond.kind {
            ExprKind::Unary(ast::UnOp::Not, inner) => (&**inner, true),
            _ => (cond, false),
        };
        let is_method = matches!(&inner.kind, ExprKind::Call { callee, .. } if matches!(callee.kind, ExprKind::Field(..)));
        if is_method {
            let (result, before) = self.separately(|body| {
                let ok = body.temporary(Ty::Bool);
                body.operation(inner, Some(&ok)).map(|()| ok)
            });
            if let Some(ok) = result {
                self.out.extend(before);
                let ok = load(ok);
                return if negated {
                    fold::unary(ir::UnOp::LogicalNot, ok)
                } else {
                    ok
                };
            }
        }
        self.condition(cond)
    }

    fn give_back(&mut self, value: Option<&'a Expr>, at: Span) {
        let BodyKind::Function(returns) = self.kind.clone() else {
            return;
        };
        match (returns, value) {
            (Returns::Unknown, _) => {}
            (Returns::Nothing, None) => self.push(Ir::Return(None)),
            (Returns::Nothing, Some(value)) => {
                self.value(value, None);
                self.error_hint(
                    codes::RETURN,
                    value.span,
                    "a `void` function cannot return a value",
                    "expected `return;`",
                    "give the function a result type",
                );
            }
            (Returns::Scalar(ty), Some(value)) => {
                let value = self.argument(value, &ty);
                self.push(Ir::Return(Some(value)));
            }
            (Returns::Aggregate(ty, index), Some(value)) => {
                if let Some(from) = self.aggregate(value, &ty) {
                    let result = crate::body::region(ir::Base::Ref(index), ty);
                    self.push(Ir::Copy(result, from));
                }
                self.push(Ir::Return(None));
            }
            (Returns::Instructions | Returns::Events, Some(value)) => self.return_list(value),
            (Returns::Event(event), Some(value)) => {
                let body = self.ck.module.events[event.0 as usize].body;
                if let Some(from) = self.aggregate(value, &Ty::Struct(body)) {
                    self.push(Ir::PushEvent { event, from });
                }
                self.push(Ir::Return(None));
            }
            (Returns::Instructions | Returns::Events, None) => self.error_hint(
                codes::BARE_RETURN,
                at,
                "`return` needs a value in a function that returns a list",
                "expected the list",
                "write `return out;`, or make the function `void` and use `emit`",
            ),
            (Returns::Scalar(_) | Returns::Aggregate(..) | Returns::Event(_), None) => {
                self.error(
                    codes::BARE_RETURN,
                    at,
                    "this function returns a value",
                    "expected `return e;`",
                );
            }
        }
    }

    /// `return out;`: the instructions have been issued where they were added.
    fn return_list(&mut self, value: &'a Expr) {
        let wanted = matches!(self.kind, BodyKind::Function(Returns::Instructions));
        let list = match &value.kind {
            ExprKind::Name(name) => self.local(name).map(|l| l.variable.clone()),
            ExprKind::Error => return,
            _ => None,
        };
        match list {
            Some(Variable::InstructionList) if wanted => {}
            Some(Variable::EventList) if !wanted => {}
            Some(Variable::Error) => {}
            _ => {
                let expected = if wanted { "list<instr_t>" } else { "list<event_t>" };
                self.error(
                    codes::RETURN,
                    value.span,
                    "this is not the list",
                    format!("expected a `{expected}` variable"),
                );
            }
        }
        self.push(Ir::Return(None));
    }
}
