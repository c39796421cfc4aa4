//! Calls: casts, built-in functions, helpers, pure externs, methods.

use hawser_ir::{Arg, Expr, ExprKind, FuncId, StmtKind, Ty};
use hawser_syntax::ast::{self, CallArg, Ident, Span, TypeArg};

use crate::body::{Body, BodyKind};
use crate::codes;
use crate::convert::{How, Value};
use crate::fold;
use crate::names::Def;
use crate::types::Type;
use crate::vocabulary::{self, Sort};

impl<'a> Body<'_, 'a> {
    /// Lowers a call in an expression.
    pub(crate) fn call(
        &mut self,
        at: Span,
        callee: &'a ast::Expr,
        types: &'a [TypeArg],
        args: &'a [CallArg],
        want: Option<&Ty>,
    ) -> Value {
        let args = self.unlabelled(args);
        let name = match &callee.kind {
            ast::ExprKind::Name(name) => name,
            ast::ExprKind::Field(object, method) => return self.query(object, method, &args, at),
            ast::ExprKind::Error => return Value::Error,
            _ => {
                self.error(
                    codes::NOT_A_VALUE,
                    callee.span,
                    "this is not a function",
                    "expected a function's name",
                );
                return Value::Error;
            }
        };
        if let Some(ty) = self.cast_type(name, types) {
            return match ty {
                Some(Ty::Id) => self.make_id(&args, at),
                Some(ty) => self.cast(ty, name, &args, at),
                None => Value::Error,
            };
        }
        if let Some(value) = self.builtin(name, &args, want, at) {
            return value;
        }
        match self.ck.lookup(name) {
            Some(Def::Func(index)) => match self.call_helper(index, name, &args, at) {
                Some(value) => value,
                None => {
                    self.error(
                        codes::NOT_A_VALUE,
                        at,
                        format!("`{}` returns nothing", name.name),
                        "expected a value",
                    );
                    Value::Error
                }
            },
            Some(Def::Extern(index)) => self.call_extern(index, name, &args, at),
            _ => {
                self.no_function(name);
                Value::Error
            }
        }
    }

    /// Reports a call of something that is not a function.
    pub(crate) fn no_function(&mut self, name: &Ident) {
        if vocabulary::word(&name.name, |sort| sort == Sort::Instruction).is_some() {
            self.error_hint(
                codes::INSTRUCTION_HERE,
                name.span,
                format!(
                    "`{}` is an instruction: it has no value, and takes effect when it is emitted",
                    name.name
                ),
                "expected a function",
                format!("write `emit {}(…);`", name.name),
            );
            return;
        }
        match self.ck.lookup(name) {
            Some(def) => self.error(
                codes::NOT_A_VALUE,
                name.span,
                format!("`{}` is {}", name.name, def.what()),
                "expected a function",
            ),
            None => {
                let callable = |def| matches!(def, Def::Func(_) | Def::Extern(_) | Def::Enum(_));
                let hint = self
                    .ck
                    .suggestion(name, callable, vocabulary::names(Sort::Function));
                self.ck.unknown(name, "a function", hint);
            }
        }
    }

    /// Returns the type to which a call by this name converts: `uint32(x)`, `seq<32>(x)`, `state_t(x)`.
    fn cast_type(&mut self, name: &'a Ident, types: &'a [TypeArg]) -> Option<Option<Ty>> {
        if name.name == "seq" {
            let bits = types.first().and_then(|arg| self.ck.constant_argument(arg));
            return match bits {
                Some(bits @ 2..=64) if types.len() == 1 => Some(Some(Ty::Seq { bits: bits as u8 })),
                _ => {
                    self.error(
                        codes::TYPE_ARGUMENTS,
                        name.span,
                        "wrong arguments for `seq`",
                        "expected `seq<W>(x)`",
                    );
                    Some(None)
                }
            };
        }
        if let Some((bits, signed)) = crate::types::integer_name(&name.name) {
            return Some(Some(Ty::Int { bits, signed }));
        }
        match name.name.as_str() {
            "bool" => Some(Some(Ty::Bool)),
            "duration_t" => Some(Some(Ty::Duration)),
            "time_t" => Some(Some(Ty::Time)),
            "varint_t" => Some(Some(Ty::uint(64))),
            "id_t" | "flow_id" | "buffer_id_t" => Some(Some(Ty::Id)),
            _ => match self.ck.lookup(name) {
                Some(Def::Enum(index)) => {
                    self.ck.enums[index].converted = true;
                    Some(self.ck.enum_type(index))
                }
                _ => None,
            },
        }
    }

    fn cast(&mut self, ty: Ty, name: &Ident, args: &[&'a ast::Expr], at: Span) -> Value {
        let [arg] = args else {
            self.argument_count(at, &name.name, "one value", args.len());
            return Value::Error;
        };
        let value = self.value(arg, Some(&ty));
        match value {
            Value::Error => Value::Error,
            Value::Literal { value, .. } => Value::Scalar(fold::constant(value as u64, ty)),
            Value::Infinite => Value::Scalar(self.convert(value, &ty, How::Pass, arg.span)),
            value => {
                let Some(expr) = self.scalar(value, arg.span) else {
                    return Value::Error;
                };
                if expr.ty == Ty::Addr {
                    self.error(
                        codes::MISMATCH,
                        arg.span,
                        "an address cannot be converted to a number",
                        "expected a number",
                    );
                    return Value::Error;
                }
                Value::Scalar(fold::cast(expr, &ty))
            }
        }
    }

    /// Calls a helper. An aggregate result is stored in a temporary. Returns `None` if the helper has no
    /// result.
    pub(crate) fn call_helper(
        &mut self,
        index: usize,
        name: &Ident,
        args: &[&'a ast::Expr],
        at: Span,
    ) -> Option<Value> {
        if !matches!(self.kind, BodyKind::Function(_)) {
            self.error(
                codes::NOT_CONSTANT,
                at,
                format!("`{}` is called outside a function", name.name),
                "expected an expression without calls of helpers",
            );
            return Some(Value::Error);
        }
        self.ck.funcs[index].used = true;
        let result = self.ck.funcs[index].result.clone();
        let Some(mut lowered) = self.call_arguments(index, name, args, at) else {
            return Some(Value::Error);
        };
        let func = FuncId(index as u32);
        match result {
            Type::Error => Some(Value::Error),
            Type::Void => {
                self.push(StmtKind::Call(func, lowered));
                None
            }
            Type::Value(ty) if self.ck.event_of(&ty).is_some() => {
                self.not_a_helper(name, at, "it makes events")
            }
            Type::Value(ty) if ty.is_scalar() => {
                Some(Value::Scalar(Expr { ty, kind: ExprKind::Call(func, lowered) }))
            }
            Type::Value(ty) => {
                let place = self.temporary(ty);
                lowered.push(Arg::Ref(place.clone()));
                self.push(StmtKind::Call(func, lowered));
                Some(Value::Place(place))
            }
            Type::InstrList | Type::Instr => self.not_a_helper(name, at, "it returns instructions"),
            Type::EventList | Type::Packet | Type::NoContext => {
                self.not_a_helper(name, at, "it makes events")
            }
        }
    }

    fn not_a_helper(&mut self, name: &Ident, at: Span, why: &str) -> Option<Value> {
        self.error_hint(
            codes::NOT_A_VALUE,
            at,
            format!("`{}` cannot be called: {why}", name.name),
            "expected a helper",
            "make it `void` and let it `emit`; both then may use it",
        );
        Some(Value::Error)
    }

    fn call_arguments(
        &mut self,
        index: usize,
        name: &Ident,
        args: &[&'a ast::Expr],
        at: Span,
    ) -> Option<Vec<Arg>> {
        let types = self.ck.funcs[index].param_types.clone();
        let expected = types.len();
        if args.len() != expected {
            let plural = if expected == 1 { "" } else { "s" };
            self.argument_count(
                at,
                &name.name,
                &format!("{expected} argument{plural}"),
                args.len(),
            );
            return None;
        }
        let mut lowered = Vec::new();
        let mut complete = true;
        for (ty, arg) in types.iter().zip(args) {
            match ty {
                Type::Value(ty) if ty.is_scalar() => lowered.push(Arg::Value(self.argument(arg, ty))),
                Type::Value(ty) => match self.aggregate(arg, ty) {
                    Some(place) => lowered.push(Arg::Ref(place)),
                    None => complete = false,
                },
                Type::Packet => self.packet_argument(arg),
                Type::Error => complete = false,
                Type::Void | Type::Instr | Type::InstrList | Type::EventList | Type::NoContext => {
                    self.error(
                        codes::NOT_A_VALUE,
                        arg.span,
                        format!(
                            "`{}` is a processor: it cannot be called with this argument",
                            name.name
                        ),
                        "expected a helper's argument",
                    );
                    complete = false;
                }
            }
        }
        complete.then_some(lowered)
    }

    /// Handles a packet as an argument. It is not passed, because a parser has only one packet, which helpers
    /// read, too.
    fn packet_argument(&mut self, arg: &'a ast::Expr) {
        let is_packet = match &arg.kind {
            ast::ExprKind::Name(name) => {
                matches!(
                    self.local(name).map(|l| &l.variable),
                    Some(crate::body::Variable::Packet)
                )
            }
            _ => false,
        };
        if !is_packet {
            self.error(
                codes::MISMATCH,
                arg.span,
                "this is not a packet",
                "expected the parser's `pkt_t`",
            );
        }
    }

    /// Lowers the arguments of an extern, 64 bits each.
    pub(crate) fn extern_arguments(
        &mut self,
        index: usize,
        name: &Ident,
        args: &[&'a ast::Expr],
        at: Span,
    ) -> Option<Vec<Expr>> {
        let types = self.ck.externs[index].param_types.clone();
        if types.len() != args.len() {
            self.argument_count(at, &name.name, &format!("{} arguments", types.len()), args.len());
            return None;
        }
        let mut lowered = Vec::new();
        for (ty, arg) in types.iter().zip(args) {
            match ty {
                Type::Value(ty) if ty.is_scalar() => lowered.push(self.argument(arg, ty)),
                _ => return None,
            }
        }
        Some(lowered)
    }

    fn call_extern(&mut self, index: usize, name: &Ident, args: &[&'a ast::Expr], at: Span) -> Value {
        let Some(lowered) = self.extern_arguments(index, name, args, at) else {
            return Value::Error;
        };
        match self.ck.externs[index].result.clone() {
            Type::Value(ty) => {
                let func = self.ck.extern_function(index);
                let args = lowered.into_iter().map(Arg::Value).collect();
                Value::Scalar(Expr { ty, kind: ExprKind::Call(func, args) })
            }
            Type::Instr => {
                self.no_function_but_instruction(name);
                Value::Error
            }
            _ => Value::Error,
        }
    }

    fn no_function_but_instruction(&mut self, name: &Ident) {
        self.error_hint(
            codes::INSTRUCTION_HERE,
            name.span,
            format!("`{}` is an instruction: its answer comes as an event", name.name),
            "expected a function",
            format!("write `emit {}(…) -> event;`", name.name),
        );
    }
}
