//! Expressions: one function per node.
//!
//! Most of them become one C expression. If a call changes something, or a value needs statements of its own,
//! the operands before it are kept in variables. This preserves the language's order: left to right, and the
//! right side of `&&` only if needed.

use hawser_ir::{
    Arg, Base, BinOp, Builtin, CmpOp, Expr, ExprKind, FuncId, FuncParam, IdPart, Place, Ty, UnOp, WireFact,
};

use crate::emitter::Emitter;
use crate::number::{self, bare, constant, paren};
use crate::scope::{Ending, FoundContext, Instance, ParamBinding, Scope};
use crate::types::scalar;

impl Emitter<'_> {
    /// Returns the value of an expression. The statements that this prints are evaluated at once; the value
    /// is valid until something changes.
    pub(crate) fn expr(&mut self, s: &mut Scope, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Const(value) => constant(*value, &e.ty),
            ExprKind::Param(index) => self.param(*index, &e.ty),
            ExprKind::Table(table, index) => {
                let value = self.expr(s, index);
                let value = number::cast(&value, &index.ty, &Ty::uint(64));
                format!("{}({value})", self.table_function(*table))
            }
            ExprKind::Load(place) => self.load(s, place),
            ExprKind::Cast(inner) => {
                let value = self.expr(s, inner);
                number::cast(&value, &inner.ty, &e.ty)
            }
            ExprKind::Binary(op, a, b) => self.binary(s, *op, a, b, &e.ty),
            ExprKind::Compare(op, a, b) => self.compare(s, *op, a, b),
            ExprKind::Unary(op, a) => self.unary(s, *op, a, &e.ty),
            ExprKind::And(a, b) => self.short_circuit(s, "&&", a, b),
            ExprKind::Or(a, b) => self.short_circuit(s, "||", a, b),
            ExprKind::Select(condition, a, b) => self.select(s, condition, a, b, &e.ty),
            ExprKind::Builtin(function, args) => self.builtin(s, *function, args, &e.ty),
            ExprKind::SameBytes(a, b) => self.same_bytes(s, a, b),
            ExprKind::IsZero(place) => self.is_zero(s, place),
            ExprKind::Query(query) => self.query(s, query, &e.ty),
            ExprKind::KeyedHash(keys, parts) => self.keyed_hash(s, keys, parts),
            ExprKind::Call(func, args) => self.call_value(s, *func, args, &e.ty),
            ExprKind::RuleArg(index) => self.rule_arg(s, *index, &e.ty),
            ExprKind::Wanted(signal) => format!("HW_UNLIKELY(run->wanted & {:#x}u)", signal.bit()),
            ExprKind::Wire(fact) => self.wire_fact(s, *fact, &e.ty),
        }
    }

    /// Returns a value beside another operand of the same type, so that small constants need no suffix.
    fn operand(&mut self, s: &mut Scope, e: &Expr, beside: &Expr) -> String {
        match (&e.kind, &beside.kind) {
            (ExprKind::Const(value), other) if !matches!(other, ExprKind::Const(_)) => bare(*value, &e.ty),
            _ => self.expr(s, e),
        }
    }

    /// Returns a value to be stored in an object of the expression's own type.
    pub(crate) fn assigned(&mut self, s: &mut Scope, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Const(value) => bare(*value, &e.ty),
            _ => self.expr(s, e),
        }
    }

    /// Returns the value of an expression that is evaluated in the very next statement. An outermost call can
    /// stand in that statement itself.
    pub(crate) fn at_once(&mut self, s: &mut Scope, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Cast(inner) => {
                let value = self.at_once(s, inner);
                number::cast(&value, &inner.ty, &e.ty)
            }
            ExprKind::Call(func, args) if !self.summaries[func.0 as usize].halts => {
                let call = self.call(s, *func, args);
                format!("{call})")
            }
            _ => self.assigned(s, e),
        }
    }

    /// Returns several values, evaluated in order.
    pub(crate) fn values<'e>(
        &mut self,
        s: &mut Scope,
        exprs: impl IntoIterator<Item = &'e Expr>,
    ) -> Vec<String> {
        let exprs: Vec<&Expr> = exprs.into_iter().collect();
        let mut values = Vec::new();
        for (i, e) in exprs.iter().enumerate() {
            let later_changes = exprs[i + 1..].iter().any(|later| !self.plain(later));
            let value = self.expr(s, e);
            values.push(self.hold(s, e, value, later_changes));
        }
        values
    }

    /// Keeps a value in a variable if later code could change it.
    fn hold(&mut self, s: &mut Scope, e: &Expr, value: String, later_changes: bool) -> String {
        let constant = matches!(e.kind, ExprKind::Const(_) | ExprKind::Param(_));
        if later_changes && !constant {
            s.keep(scalar(&e.ty), &value)
        } else {
            value
        }
    }

    fn pair(&mut self, s: &mut Scope, a: &Expr, b: &Expr) -> (String, String) {
        let left = self.operand(s, a, b);
        let later_changes = !self.plain(b);
        let left = self.hold(s, a, left, later_changes);
        let right = self.operand(s, b, a);
        (left, right)
    }

    fn param(&mut self, index: u32, ty: &Ty) -> String {
        let value = format!("HW_AT(run->params)[{index}]");
        if scalar(ty) == "uint64_t" && hawser_ir::number::ScalarShape::from_type(ty).bits == 64 {
            value
        } else {
            number::wrap(&value, ty)
        }
    }

    fn binary(&mut self, s: &mut Scope, op: BinOp, a: &Expr, b: &Expr, ty: &Ty) -> String {
        let known = match b.kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        };
        let shift = matches!(op, BinOp::Shl | BinOp::Shr);
        let (left, right) = if shift {
            let values = self.values(s, [a, b]);
            (values[0].clone(), values[1].clone())
        } else {
            self.pair(s, a, b)
        };
        number::binary(op, &left, &right, ty, known)
    }

    fn compare(&mut self, s: &mut Scope, op: CmpOp, a: &Expr, b: &Expr) -> String {
        let (left, right) = self.pair(s, a, b);
        number::compare(op, &left, &right, &a.ty)
    }

    fn unary(&mut self, s: &mut Scope, op: UnOp, a: &Expr, ty: &Ty) -> String {
        let value = self.expr(s, a);
        number::unary(op, &value, ty)
    }

    /// `&&` and `||`. If the right side has effects, it becomes a branch.
    fn short_circuit(&mut self, s: &mut Scope, op: &str, a: &Expr, b: &Expr) -> String {
        let left = self.expr(s, a);
        if self.plain(b) {
            let right = self.expr(s, b);
            return format!("{} {op} {}", paren(&left), paren(&right));
        }
        let name = s.names.take("t");
        s.out.line(&format!("bool {name} = {left};"));
        s.out.open(&if op == "&&" {
            format!("if ({name})")
        } else {
            format!("if (!{name})")
        });
        let right = self.expr(s, b);
        s.out.line(&format!("{name} = {right};"));
        s.out.close("");
        name
    }

    fn select(&mut self, s: &mut Scope, condition: &Expr, a: &Expr, b: &Expr, ty: &Ty) -> String {
        let test = self.expr(s, condition);
        if self.plain(a) && self.plain(b) {
            let (left, right) = (self.expr(s, a), self.expr(s, b));
            return format!("{} ? {} : {}", paren(&test), paren(&left), paren(&right));
        }
        let name = s.names.take("t");
        s.out.line(&format!("{} {name} = 0;", scalar(ty)));
        s.out.open(&format!("if ({})", number::bare_condition(&test)));
        let left = self.expr(s, a);
        s.out.line(&format!("{name} = {left};"));
        s.out.otherwise();
        let right = self.expr(s, b);
        s.out.line(&format!("{name} = {right};"));
        s.out.close("");
        name
    }

    fn builtin(&mut self, s: &mut Scope, function: Builtin, args: &[Expr], ty: &Ty) -> String {
        let values = self.values(s, args);
        let operand = args.first().map_or(ty, |a| &a.ty);
        number::builtin(function, &values, operand, ty)
    }

    fn same_bytes(&mut self, s: &mut Scope, a: &Place, b: &Place) -> String {
        let size = self.layout().size(&a.ty);
        let (left, right) = (self.seen_address(s, a), self.seen_address(s, b));
        format!("hw_same({left}, {right}, {size})")
    }

    fn is_zero(&mut self, s: &mut Scope, place: &Place) -> String {
        let size = self.layout().size(&place.ty);
        let at = self.seen_address(s, place);
        format!("hw_is_zero({at}, {size})")
    }

    fn rule_arg(&mut self, s: &Scope, index: u16, ty: &Ty) -> String {
        let in_reach = usize::from(index) < hawser_ir::abi::MAX_RULE_ARGS;
        match &s.rule_args {
            Some(args) if in_reach => number::wrap(&format!("{args}[{index}]"), ty),
            Some(_) | None => constant(0, ty),
        }
    }

    fn wire_fact(&mut self, s: &Scope, fact: WireFact, ty: &Ty) -> String {
        let text = match &s.facts {
            Some(facts) => match fact {
                WireFact::TotalLen => format!("{facts}.total"),
                WireFact::HeaderLen => format!("{facts}.header"),
                WireFact::DataLen => format!("{facts}.data"),
            },
            None => crate::packet::cursor_fact(fact),
        };
        number::wrap(&text, ty)
    }

    /// SipHash-2-4 of the packed parts.
    fn keyed_hash(&mut self, s: &mut Scope, keys: &[Expr; 2], parts: &[IdPart]) -> String {
        let mut keep = Vec::new();
        for key in keys {
            let value = self.expr(s, key);
            keep.push(s.keep("uint64_t", &value));
        }
        let room: u32 = parts.iter().map(|part| self.packed_size(part)).sum();
        let bytes = s.names.take("packed");
        let len = s.names.take("packed_len");
        if self.is_ebpf() {
            let at = self.framed("uint8_t", room);
            s.out.line(&format!("uint8_t *const {bytes} = {at};"));
        } else {
            s.out.line(&format!("uint8_t {bytes}[{}];", room.max(1)));
        }
        s.out.line(&format!("size_t {len} = 0;"));
        self.pack(s, parts, &bytes, &len, room);
        s.keep(
            "uint64_t",
            &format!("hw_siphash({}, {}, {bytes}, {len})", keep[0], keep[1]),
        )
    }

    /// Returns the maximum packed size of a part of a tuple, in bytes.
    fn packed_size(&self, part: &IdPart) -> u32 {
        match part {
            IdPart::Scalar(_, bytes) => u32::from(*bytes).min(8),
            IdPart::Bytes(place) if place.ty == Ty::Id => hawser_ir::abi::Id::MAX as u32,
            IdPart::Bytes(place) => self.layout().size(&place.ty),
        }
    }

    /// Appends the packed parts of a tuple to an array, as far as there is room.
    pub(crate) fn pack(&mut self, s: &mut Scope, parts: &[IdPart], bytes: &str, len: &str, room: u32) {
        for part in parts {
            let call = match part {
                IdPart::Scalar(e, count) => {
                    let value = self.expr(s, e);
                    let value = if hawser_ir::number::ScalarShape::from_type(&e.ty).signed {
                        format!("(uint64_t){}", paren(&value))
                    } else {
                        value
                    };
                    format!("hw_pack({bytes}, {len}, {room}, {value}, {})", (*count).min(8))
                }
                IdPart::Bytes(place) => {
                    let at = self.seen_address(s, place);
                    if place.ty == Ty::Id {
                        format!("hw_pack_id({bytes}, {len}, {room}, {at})")
                    } else {
                        let size = self.layout().size(&place.ty);
                        format!("hw_pack_bytes({bytes}, {len}, {room}, {at}, {size})")
                    }
                }
            };
            s.out.line(&format!("{len} = {call};"));
        }
    }

    fn call_value(&mut self, s: &mut Scope, func: FuncId, args: &[Arg], ty: &Ty) -> String {
        let summary = &self.summaries[func.0 as usize];
        let (halts, changes) = (summary.halts, summary.changes());
        let call = self.call(s, func, args);
        if halts {
            let name = s.names.take("t");
            s.out.line(&format!("{} {name};", scalar(ty)));
            self.halting_call(s, &format!("{call}, &{name})"));
            name
        } else if changes {
            s.keep(scalar(ty), &format!("{call})"))
        } else {
            format!("{call})")
        }
    }

    /// Prints a call for its effects.
    pub(crate) fn call_stmt(&mut self, s: &mut Scope, func: FuncId, args: &[Arg]) {
        let halts = self.summaries[func.0 as usize].halts;
        let has_result = self.func(func).ret.is_some();
        let result = self.func(func).ret.clone();
        let call = self.call(s, func, args);
        if halts && has_result {
            let name = s.names.take("t");
            s.out
                .line(&format!("{} {name};", result.as_ref().map_or("uint64_t", scalar)));
            self.halting_call(s, &format!("{call}, &{name})"));
        } else if halts {
            self.halting_call(s, &format!("{call})"));
        } else {
            s.out.line(&format!("{call});"));
        }
    }

    /// Prints a call that returns whether the run has ended.
    fn halting_call(&mut self, s: &mut Scope, call: &str) {
        s.out.open(&format!("if ({call})"));
        s.halt();
        s.out.close("");
    }

    /// Returns a call without its closing parenthesis.
    fn call(&mut self, s: &mut Scope, func: FuncId, args: &[Arg]) -> String {
        let writes = self.summaries[func.0 as usize].writes.clone();
        let params = self.func(func).params.clone();
        let (mut kinds, mut texts) = (Vec::new(), Vec::new());
        for (i, (arg, param)) in args.iter().zip(&params).enumerate() {
            let later_changes = args[i + 1..].iter().any(|later| match later {
                Arg::Value(e) => !self.plain(e),
                Arg::Ref(place) => !self.plain_place(place),
            });
            match arg {
                Arg::Value(e) => {
                    let value = self.expr(s, e);
                    let value = self.hold(s, e, value, later_changes);
                    let ty = match param {
                        FuncParam::Value { ty, .. } | FuncParam::Ref { ty, .. } => ty,
                    };
                    texts.push(number::cast(&value, &e.ty, ty));
                }
                Arg::Ref(place) => {
                    let written = writes.get(kinds.len()).copied().unwrap_or(false);
                    let ty = match param {
                        FuncParam::Value { ty, .. } | FuncParam::Ref { ty, .. } => ty.clone(),
                    };
                    let (text, kind) = self.reference(s, place, &ty, written, later_changes);
                    texts.push(text);
                    kinds.push(kind);
                }
            }
        }
        let name = self.instance(Instance { func, refs: kinds, found: s.found, slot: s.slot });
        let args: String = texts.iter().map(|text| format!(", {text}")).collect();
        format!("{name}(run{args}")
    }

    /// Returns a place as an argument: a pointer to the parameter's type, and the facts about the place that
    /// the callee depends on.
    pub(crate) fn reference(
        &mut self,
        s: &mut Scope,
        place: &Place,
        ty: &Ty,
        written: bool,
        keep: bool,
    ) -> (String, ParamBinding) {
        let place = &Place { ty: ty.clone(), ..place.clone() };
        let pointed = self.pointed(ty);
        let (text, kind, constant) = if !written {
            (self.seen_address(s, place), ParamBinding::Plain, "const ")
        } else {
            let target = self.target(s, place);
            let view = matches!(place.base, Base::Ref(n) if s.refs.get(usize::from(n)).is_some_and(|r| r.kind == ParamBinding::View));
            if target.nowhere && view {
                (self.seen_address(s, place), ParamBinding::View, "const ")
            } else if target.nowhere {
                (
                    "HW_NONE".into(),
                    if place.base == Base::Fresh {
                        ParamBinding::Unmade
                    } else {
                        ParamBinding::Maybe
                    },
                    "",
                )
            } else if let Some(guard) = &target.guard {
                let address = target.at.address();
                let text = if address == *guard {
                    address
                } else {
                    format!("{guard} ? {address} : HW_NONE")
                };
                let unmade = place.steps.is_empty() && self.kind_of(s, place) == ParamBinding::Unmade;
                (
                    text,
                    if unmade {
                        ParamBinding::Unmade
                    } else {
                        ParamBinding::Maybe
                    },
                    "",
                )
            } else {
                (target.at.address(), self.kind_of(s, place), "")
            }
        };
        let text = if keep && !place.steps.is_empty() {
            let name = s.names.take("place");
            s.out
                .line(&format!("{constant}{pointed} *const {name} = {text};"));
            name
        } else {
            text
        };
        (text, kind)
    }

    /// Returns the facts about an existing place that a callee depends on.
    fn kind_of(&self, s: &Scope, place: &Place) -> ParamBinding {
        match place.base {
            Base::Fresh => ParamBinding::Fresh,
            Base::Ref(n) => s.refs.get(usize::from(n)).map_or(ParamBinding::Plain, |r| r.kind),
            Base::Local | Base::Event | Base::Keyed | Base::Global(_) | Base::Scratch | Base::Blueprint => {
                ParamBinding::Plain
            }
        }
    }

    /// Passes back the result of a function at its end.
    pub(crate) fn give_back(&mut self, s: &mut Scope, value: Option<&Expr>) {
        let text = value.map(|e| {
            let text = self.at_once(s, e);
            match &s.ret {
                Some(ty) => number::cast(&text, &e.ty, ty),
                None => text,
            }
        });
        match (s.ending.clone(), text) {
            (Ending::Plain, Some(text)) if s.ret.is_some() => s.out.line(&format!("return {text};")),
            (Ending::Plain, _) if s.ret.is_some() => s.out.line("return 0;"),
            (Ending::Plain, _) => s.out.line("return;"),
            (Ending::Halting, text) => {
                if let (Some(text), true) = (text, s.ret.is_some()) {
                    s.out.line(&format!("*result = {text};"));
                }
                s.out.line("return false;");
            }
        }
    }

    /// Returns an expression for the result of the lookup: no context, one of a known type, or any.
    pub(crate) fn subject(&self, s: &Scope) -> &'static str {
        match s.found {
            FoundContext::Context(_) => "0",
            FoundContext::Any | FoundContext::Nothing => "run->subject",
        }
    }
}
