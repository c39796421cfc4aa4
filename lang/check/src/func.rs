//! Functions: signatures, then bodies.
//!
//! A function's number in the module is its position among the declarations. Functions of coalescing rules,
//! and the placeholders of pure externs, come after them.

use hawser_ir as ir;
use hawser_ir::facts::Exit;
use hawser_ir::{Base, ExternId, Func, FuncId, FuncParam, StmtKind, Ty};
use hawser_syntax::ast::{self, Ident};

use crate::body::{Body, BodyKind, Returns, Variable, region};
use crate::codes;
use crate::names::Def;
use crate::state::{Checker, ICMP, NET, OP, RecordKind, span};
use crate::types::Type;

impl<'a> Checker<'a> {
    /// Resolves all signatures, so that bodies can contain calls in any order.
    pub(crate) fn declare_functions(&mut self) {
        for index in 0..self.funcs.len() {
            let (ret, params) = (self.funcs[index].ret, self.funcs[index].params);
            let param_types = params
                .iter()
                .map(|param| self.parameter_type(&param.ty))
                .collect();
            let result = self.result_type(ret);
            self.funcs[index].param_types = param_types;
            self.funcs[index].result = result;
            let placeholder = Func {
                name: self.funcs[index].name.name.clone(),
                params: Vec::new(),
                ret: None,
                locals: Vec::new(),
                frame: 0,
                body: Vec::new(),
                span: span(self.funcs[index].span),
            };
            self.module.funcs.push(placeholder);
        }
        for index in 0..self.externs.len() {
            self.declare_extern(index);
        }
    }

    fn parameter_type(&mut self, ty: &'a ast::Type) -> Type {
        let resolved = self.resolve(ty);
        match resolved {
            Type::Void | Type::Instr | Type::InstrList | Type::EventList => {
                self.error_hint(
                    codes::TYPE_NOT_HERE,
                    ty.span,
                    "a parameter cannot be of this type",
                    "expected a type of values",
                    "a helper issues instructions by `emit`",
                );
                Type::Error
            }
            Type::Error | Type::Value(_) | Type::Packet | Type::NoContext => resolved,
        }
    }

    fn result_type(&mut self, ty: &'a ast::Type) -> Type {
        let resolved = self.resolve(ty);
        let reason = match &resolved {
            Type::Instr | Type::Packet | Type::NoContext => {
                "expected `list<instr_t>`, `list<event_t>`, or a value"
            }
            Type::Value(Ty::Struct(id)) => match self.record_of(*id).map(|r| self.records[r].kind) {
                Some(RecordKind::Context(_) | RecordKind::Scratchpad) => {
                    "a function cannot return a context: return its id"
                }
                None if *id != NET => "expected a type of values",
                Some(_) | None => return resolved,
            },
            Type::Error | Type::Void | Type::Value(_) | Type::InstrList | Type::EventList => return resolved,
        };
        self.error(
            codes::TYPE_NOT_HERE,
            ty.span,
            "a function cannot return this type",
            reason,
        );
        Type::Error
    }

    fn declare_extern(&mut self, index: usize) {
        let decl = &self.externs[index];
        let (name, ret, params, answer) = (decl.name, decl.ret, decl.params, decl.answer);
        let mut param_types = Vec::new();
        for param in params {
            let ty = self.parameter_type(&param.ty);
            if !matches!(&ty, Type::Error) && !matches!(&ty, Type::Value(ty) if ty.is_scalar()) {
                self.error(
                    codes::EXTERN,
                    param.ty.span,
                    "an extern can take numbers only",
                    "expected a scalar type",
                );
                param_types.push(Type::Error);
                continue;
            }
            param_types.push(ty);
        }
        let result = self.resolve(ret);
        let answer_event = answer.and_then(|answer| self.answer_event(answer));
        let result = match result {
            Type::Instr => {
                if answer.is_none() {
                    self.error(
                        codes::EXTERN,
                        name.span,
                        "an effectful extern needs an event as \
                             its answer",
                        "expected `-> event` after its parameters",
                    );
                }
                Type::Instr
            }
            Type::Value(ty) if ty.is_scalar() => {
                if let Some(answer) = answer {
                    self.error_hint(
                        codes::EXTERN,
                        answer.span,
                        "a pure extern cannot be answered by an event",
                        "it returns its value at once",
                        "return `instr_t` if it takes time",
                    );
                }
                Type::Value(ty)
            }
            Type::Error => Type::Error,
            _ => {
                self.error(
                    codes::EXTERN,
                    ret.span,
                    "an extern must return a number or be an instruction",
                    "expected a scalar type or `instr_t`",
                );
                Type::Error
            }
        };
        self.module.externs.push(ir::Extern {
            name: name.name.clone(),
            args: params.len() as u32,
            pure_: result != Type::Instr,
            answer: answer_event,
        });
        self.externs[index].param_types = param_types;
        self.externs[index].result = result;
    }

    fn answer_event(&mut self, name: &Ident) -> Option<ir::EventId> {
        if let Some(Def::Record(record)) = self.lookup(name)
            && let RecordKind::Event(index, _) = self.records[record].kind
        {
            return Some(ir::EventId(index));
        }
        let hint = self.suggestion(name, |def| matches!(def, Def::Record(_)), []);
        self.unknown(name, "an event", hint);
        None
    }

    /// Returns the placeholder function of a pure extern. It has the extern's parameters and result, and its
    /// body returns zero. A target that provides the extern calls its own implementation instead, by name.
    pub(crate) fn extern_function(&mut self, index: usize) -> FuncId {
        let name = self.externs[index].name;
        let ret = match &self.externs[index].result {
            Type::Value(ty) => ty.clone(),
            _ => Ty::uint(64),
        };
        let ext = ExternId(index as u32);
        self.extern_stand_in(name, ext, ret)
    }

    fn extern_stand_in(&mut self, name: &Ident, ext: ExternId, ret: Ty) -> FuncId {
        if let Some((func, _)) = self.extern_funcs.iter().find(|(_, id)| *id == ext) {
            return *func;
        }
        let mut offset = 0;
        let types = self.externs[ext.0 as usize].param_types.clone();
        let params = types
            .into_iter()
            .enumerate()
            .map(|(i, ty)| {
                let at = offset;
                offset += 8;
                let ty = match ty {
                    Type::Value(ty) => ty,
                    _ => Ty::uint(64),
                };
                FuncParam::Value { name: format!("a{i}"), ty, offset: at }
            })
            .collect();
        let zero = crate::fold::constant(0, ret.clone());
        let at = span(name.span);
        self.module.funcs.push(Func {
            name: name.name.clone(),
            params,
            ret: Some(ret),
            locals: Vec::new(),
            frame: offset,
            body: vec![ir::Stmt { span: at, kind: StmtKind::Return(Some(zero)) }],
            span: at,
        });
        let func = FuncId(self.module.funcs.len() as u32 - 1);
        self.extern_funcs.push((func, ext));
        func
    }

    /// Lowers all functions, and those of the coalescing rules.
    pub(crate) fn lower_functions(&mut self) {
        for index in 0..self.funcs.len() {
            self.lower_function(index);
        }
        for index in 0..self.coalesces.len() {
            self.lower_coalesce(index);
        }
    }

    fn lower_function(&mut self, index: usize) {
        let decl = &self.funcs[index];
        let (name, body, at) = (decl.name, decl.body, decl.span);
        let (params, types, result) = (decl.params, decl.param_types.clone(), decl.result.clone());
        // Parameters of processors and parsers are bound by type, and need not be used.
        let bound_by_type = types.iter().any(|ty| self.is_bound_by_type(ty));
        let makes_events = matches!(&result, Type::EventList)
            || matches!(&result, Type::Value(ty) if self.event_of(ty).is_some());
        let mut lower = Body::new(self, BodyKind::Function(Returns::Unknown));
        lower.at = at;
        let (mut func_params, mut refs) = (Vec::new(), 0u16);
        for (param, ty) in params.iter().zip(&types) {
            let (variable, func_param) = lower.parameter(param, ty, &mut refs);
            func_params.extend(func_param);
            let input = matches!(ty, Type::Value(Ty::Struct(id)) if [NET, OP, ICMP].contains(id));
            if let (Type::Value(Ty::Struct(OP)), Variable::Place(place)) = (ty, &variable) {
                lower.request = Some(place.clone());
            }
            if let Some(name) = &param.name {
                lower.bind_parameter(name, variable, !bound_by_type, makes_events && input);
            }
        }
        let (returns, ret) = lower.returns(&result, refs);
        if let Returns::Aggregate(ty, _) = &returns {
            func_params.push(FuncParam::Ref { name: "result".to_owned(), ty: ty.clone() });
        }
        lower.kind = BodyKind::Function(returns.clone());
        lower.scoped(|lower| lower.statements(&body.stmts));
        let parameters = std::mem::take(&mut lower.scopes);
        for scope in parameters {
            lower.report_unused(scope);
        }
        if matches!(
            returns,
            Returns::Scalar(_) | Returns::Aggregate(..) | Returns::Event(_)
        ) && !always_leaves(&lower.out)
        {
            lower.error_hint(
                codes::MISSING_RETURN,
                name.span,
                format!("`{}` may end without a value", name.name),
                "not every path returns",
                "end it with `return e;`",
            );
        }
        let (locals, frame, body) = (lower.locals, lower.frame, lower.out);
        let func = &mut self.module.funcs[index];
        func.params = func_params;
        func.ret = ret;
        func.locals = locals;
        func.frame = frame.next_multiple_of(8);
        func.body = body;
    }

    /// True if a parameter of this type marks a processor or a parser.
    fn is_bound_by_type(&self, ty: &Type) -> bool {
        match ty {
            Type::NoContext | Type::Packet => true,
            Type::Value(Ty::Struct(id)) => match self.record_of(*id).map(|r| self.records[r].kind) {
                None => true,
                Some(RecordKind::Event(..) | RecordKind::Scratchpad) => true,
                Some(
                    RecordKind::Struct
                    | RecordKind::Context(_)
                    | RecordKind::Signal(_)
                    | RecordKind::Opt
                    | RecordKind::Blueprint,
                ) => false,
            },
            Type::Error | Type::Void | Type::Value(_) | Type::Instr | Type::InstrList | Type::EventList => {
                false
            }
        }
    }

    fn lower_coalesce(&mut self, index: usize) {
        let decl = &self.coalesces[index];
        let (name, a, b, body, at) = (decl.blueprint, decl.a, decl.b, decl.body, decl.span);
        let Some(record) = self.blueprint_record(name) else {
            return;
        };
        let Some(blueprint) = self.blueprint_of(record) else {
            return;
        };
        let ty = Ty::Struct(Checker::struct_of(record));
        let mut lower = Body::new(self, BodyKind::Function(Returns::Scalar(Ty::Bool)));
        lower.at = at;
        lower.bind(a, Variable::Place(region(Base::Ref(0), ty.clone())), None);
        lower.bind(b, Variable::Place(region(Base::Ref(1), ty.clone())), None);
        lower.scoped(|lower| lower.statements(&body.stmts));
        if !always_leaves(&lower.out) {
            lower.error(
                codes::MISSING_RETURN,
                name.span,
                "the rule may end without a value",
                "not every path returns",
            );
        }
        let (locals, frame, body) = (lower.locals, lower.frame, lower.out);
        let param = |name: &Ident| FuncParam::Ref { name: name.name.clone(), ty: ty.clone() };
        let func = Func {
            name: format!("coalesce {}", name.name),
            params: vec![param(a), param(b)],
            ret: Some(Ty::Bool),
            locals,
            frame: frame.next_multiple_of(8),
            body,
            span: span(at),
        };
        self.module.funcs.push(func);
        let func = FuncId(self.module.funcs.len() as u32 - 1);
        if self.module.coalesce.iter().any(|c| c.blueprint == blueprint) {
            self.error_hint(
                codes::DEFINED_TWICE,
                at,
                format!("`{}` has two coalescing rules", name.name),
                "a blueprint can have one rule only",
                "join the conditions with `||`",
            );
        }
        self.module.coalesce.push(ir::Coalesce { blueprint, func });
    }

    /// Returns the blueprint that a name stands for.
    pub(crate) fn blueprint_record(&mut self, name: &Ident) -> Option<usize> {
        if let Some(Def::Record(record)) = self.lookup(name)
            && self.records[record].kind == RecordKind::Blueprint
        {
            return Some(record);
        }
        let hint = self.suggestion(name, |def| matches!(def, Def::Record(_)), []);
        self.unknown(name, "a `pkt_bp`", hint);
        None
    }

    /// Lowers every computed initial value once, so that unused ones are checked, too.
    pub(crate) fn initial_values(&mut self) {
        for record in 0..self.records.len() {
            if !self.records[record].computed.is_empty() {
                let place = region(Base::Local, Ty::Struct(Checker::struct_of(record)));
                let mut lower = Body::new(self, BodyKind::Function(Returns::Unknown));
                lower.computed_defaults(&place, record, &[]);
            }
        }
    }

    /// Lowers the invariants, which must hold after every chain.
    pub(crate) fn invariants(&mut self) {
        for record in 0..self.records.len() {
            let RecordKind::Context(context) = self.records[record].kind else {
                if let Some(first) = self.records[record].invariants.first() {
                    let at = first.span;
                    self.error(
                        codes::TYPE_NOT_HERE,
                        at,
                        "an invariant is allowed in contexts \
                             only",
                        "only contexts have them",
                    );
                }
                continue;
            };
            for condition in self.records[record].invariants.clone() {
                let this = region(Base::Keyed, Ty::Struct(Checker::struct_of(record)));
                let lowered = Body::over(self, BodyKind::Invariant, this).condition(condition);
                self.warn_of_constant(&lowered, condition.span);
                let index = self.assertion(condition.span);
                self.module.contexts[context as usize]
                    .invariants
                    .push((lowered, index));
            }
        }
    }
}

impl<'a> Body<'_, 'a> {
    /// Adds a parameter to the function and to the module; packets and `no_ctx` have no representation there.
    fn parameter(
        &mut self,
        param: &'a ast::Param,
        ty: &Type,
        refs: &mut u16,
    ) -> (Variable, Option<FuncParam>) {
        let name = param.name.as_ref().map_or("", |n| n.name.as_str());
        match ty {
            Type::Value(ty) if ty.is_scalar() => {
                let place = self.allocate(name, ty.clone());
                let (name, offset) = (name.to_owned(), place.offset);
                (
                    Variable::Place(place),
                    Some(FuncParam::Value { name, ty: ty.clone(), offset }),
                )
            }
            Type::Value(ty) => {
                let place = region(Base::Ref(*refs), ty.clone());
                *refs = refs.saturating_add(1);
                (
                    Variable::Place(place),
                    Some(FuncParam::Ref { name: name.to_owned(), ty: ty.clone() }),
                )
            }
            Type::Packet => (Variable::Packet, None),
            Type::NoContext => (Variable::NoContext, None),
            Type::Error | Type::Void | Type::Instr | Type::InstrList | Type::EventList => {
                (Variable::Error, None)
            }
        }
    }

    fn returns(&self, result: &Type, refs: u16) -> (Returns, Option<Ty>) {
        match result {
            Type::Void => (Returns::Nothing, None),
            Type::InstrList => (Returns::Instructions, None),
            Type::EventList => (Returns::Events, None),
            Type::Value(ty) if ty.is_scalar() => (Returns::Scalar(ty.clone()), Some(ty.clone())),
            Type::Value(ty) => match self.ck.event_of(ty) {
                Some(event) => (Returns::Event(event), None),
                None => (Returns::Aggregate(ty.clone(), refs), None),
            },
            Type::Error | Type::Instr | Type::Packet | Type::NoContext => (Returns::Unknown, None),
        }
    }
}

/// True if every path through the statements ends the function or the chain.
fn always_leaves(stmts: &[ir::Stmt]) -> bool {
    stmts.iter().any(|stmt| match &stmt.kind {
        StmtKind::If(_, then, otherwise) => always_leaves(then) && always_leaves(otherwise),
        other => matches!(other.effects().exit, Some(Exit::Function | Exit::Run)),
    })
}
