//! Built-in functions: `min`, `mul_div`, `keyed_hash`, `data` and others.

use hawser_ir as ir;
use hawser_ir::{Builtin, Expr, ExprKind, IdPart, Place, StmtKind, Ty, WireFact};
use hawser_syntax::ast::{self, Ident, Span};

use crate::body::{Body, BodyKind};
use crate::codes;
use crate::convert::{How, Value};
use crate::field::{data_len, first_id};
use crate::fold;
use crate::state::EVENT;
use crate::vocabulary::Word;

/// A built-in function whose parameters and result have the same types in each call.
#[derive(Debug)]
pub struct Fixed {
    pub word: Word,
    /// The types of its parameters.
    pub takes: &'static [Ty],
    /// The type of its result.
    pub gives: Ty,
    /// Its parameters in the words of an error message.
    expected: &'static str,
    node: FixedNode,
}

/// The node that a call becomes.
#[derive(Debug)]
enum FixedNode {
    Expr(Builtin),
    /// A statement that sets a place to the result.
    Stmt(fn(Place, Vec<Expr>) -> Option<StmtKind>),
}

const WORD: Ty = Ty::Int { bits: 64, signed: false };

/// The functions with fixed types.
pub const FIXED: &[Fixed] = &[
    Fixed {
        word: Word::function("cbrt", "cbrt(x)", "The whole part of the cube root."),
        takes: &[WORD],
        gives: WORD,
        expected: "one value",
        node: FixedNode::Expr(Builtin::Cbrt),
    },
    Fixed {
        word: Word::function("sqrt", "sqrt(x)", "The whole part of the square root."),
        takes: &[WORD],
        gives: WORD,
        expected: "one value",
        node: FixedNode::Expr(Builtin::Sqrt),
    },
    Fixed {
        word: Word::function(
            "varint_len",
            "varint_len(x)",
            "How many bytes x takes as a `varint_t`: 1, 2, 4 or 8.",
        ),
        takes: &[WORD],
        gives: WORD,
        expected: "one value",
        node: FixedNode::Expr(Builtin::VarintLen),
    },
    Fixed {
        word: Word::function("ipv4", "ipv4(n)", "An IPv4 address."),
        takes: &[Ty::Int { bits: 32, signed: false }],
        gives: Ty::Ip,
        expected: "one `uint32`",
        node: FixedNode::Stmt(|to, operands| {
            let [number] = operands.try_into().ok()?;
            Some(StmtKind::MakeIpv4(to, number))
        }),
    },
    Fixed {
        word: Word::function(
            "ipv6",
            "ipv6(high, low)",
            "The address whose first and last eight bytes are these numbers.",
        ),
        takes: &[WORD, WORD],
        gives: Ty::Ip,
        expected: "two `uint64`",
        node: FixedNode::Stmt(|to, operands| {
            let [high, low] = operands.try_into().ok()?;
            Some(StmtKind::MakeIpv6(to, high, low))
        }),
    },
];

impl<'a> Body<'_, 'a> {
    /// Lowers a call of a built-in function; `None` if the name is not one of them.
    pub(crate) fn builtin(
        &mut self,
        name: &'a Ident,
        args: &[&'a ast::Expr],
        want: Option<&Ty>,
        at: Span,
    ) -> Option<Value> {
        Some(match name.name.as_str() {
            "min" => self.two_alike(Builtin::Min, name, args, want, at),
            "max" => self.two_alike(Builtin::Max, name, args, want, at),
            "abs_diff" => self.two_alike(Builtin::AbsDiff, name, args, want, at),
            "sat_sub" => self.two_alike(Builtin::SatSub, name, args, want, at),
            "mul_div" => self.mul_div(args, want, at),
            "unwrap" => self.unwrap(args, at),
            "clz" => self.leading_zeros(args, at),
            "keyed_hash" => self.keyed_hash(args, at),
            "len" => self.length(args, at),
            "data" => self.data(args, at),
            "get_flow_id" => self.get_flow_id(args, at),
            "set_flow_id" => {
                self.error(
                    codes::NOT_A_VALUE,
                    at,
                    "`set_flow_id` has no value",
                    "write it as a statement of its own",
                );
                Value::Error
            }
            name => {
                let fixed = FIXED.iter().find(|function| function.word.name == name)?;
                self.fixed(fixed, args, at)
            }
        })
    }

    /// Lowers a function whose types are the same in each call.
    fn fixed(&mut self, function: &Fixed, args: &[&'a ast::Expr], at: Span) -> Value {
        if args.len() != function.takes.len() {
            self.argument_count(at, function.word.name, function.expected, args.len());
            return Value::Error;
        }
        let operands = args.iter().zip(function.takes);
        let operands = operands.map(|(arg, ty)| self.argument(arg, ty)).collect();
        match function.node {
            FixedNode::Expr(builtin) => {
                Value::Scalar(fold::builtin(builtin, operands, function.gives.clone()))
            }
            FixedNode::Stmt(node) => {
                if !self.statements_allowed(at) {
                    return Value::Error;
                }
                let place = self.temporary(function.gives.clone());
                let Some(node) = node(place.clone(), operands) else {
                    return Value::Error;
                };
                self.push(node);
                Value::Place(place)
            }
        }
    }

    fn two_alike(
        &mut self,
        which: Builtin,
        name: &Ident,
        args: &[&'a ast::Expr],
        want: Option<&Ty>,
        at: Span,
    ) -> Value {
        let [a, b] = args else {
            self.argument_count(at, &name.name, "two values", args.len());
            return Value::Error;
        };
        let (left, right) = (self.value(a, want), self.value(b, want));
        if matches!(left, Value::Error) || matches!(right, Value::Error) {
            return Value::Error;
        }
        let Some(ty) = self.common_type(&left, &right, want, at) else {
            return Value::Error;
        };
        let (left, right) = (
            self.convert(left, &ty, How::Pass, a.span),
            self.convert(right, &ty, How::Pass, b.span),
        );
        let allowed = match which {
            Builtin::SatSub => !matches!(ty, Ty::Int { signed: true, .. } | Ty::Seq { .. }),
            _ => true,
        };
        if !allowed || !matches!(ty, Ty::Int { .. } | Ty::Seq { .. } | Ty::Duration | Ty::Time) {
            let found = self.ck.show(&ty);
            self.error(
                codes::OPERATOR,
                at,
                format!("`{}` does not take {found}", name.name),
                if which == Builtin::SatSub {
                    "expected unsigned numbers or times"
                } else {
                    "expected numbers or times"
                },
            );
            return Value::Error;
        }
        let result = match (which, &ty) {
            (Builtin::AbsDiff, Ty::Seq { bits } | Ty::Int { bits, .. }) => Ty::uint(*bits),
            (Builtin::AbsDiff | Builtin::SatSub, Ty::Time) => Ty::Duration,
            _ => ty.clone(),
        };
        let value = fold::builtin(which, vec![left, right], ty);
        Value::Scalar(fold::cast(value, &result))
    }

    /// `mul_div(a, b, c)`: the result has the type of `a`, or the widest of the three integer types.
    fn mul_div(&mut self, args: &[&'a ast::Expr], want: Option<&Ty>, at: Span) -> Value {
        let [a, b, c] = args else {
            self.argument_count(at, "mul_div", "three values", args.len());
            return Value::Error;
        };
        let values = [self.value(a, want), self.value(b, None), self.value(c, None)];
        if values.iter().any(|v| matches!(v, Value::Error)) {
            return Value::Error;
        }
        let mut ty: Option<Ty> = None;
        let mut scalars = Vec::new();
        for (value, arg) in values.into_iter().zip(args) {
            if matches!(value, Value::Literal { .. } | Value::Infinite | Value::Choice(_)) {
                scalars.push((Err(value), arg.span));
                continue;
            }
            let Some(expr) = self.scalar(value, arg.span) else {
                return Value::Error;
            };
            // Times are plain numbers of nanoseconds here; a duration times a ratio stays a duration.
            let number = match expr.ty {
                Ty::Duration | Ty::Time => Ty::uint(64),
                ref other => other.clone(),
            };
            let wider = match &ty {
                None => Some(number.clone()),
                Some(ty) => crate::ops::compared_type(ty, &number),
            };
            if !matches!(wider, Some(Ty::Int { .. })) {
                let found = self.ck.show(&expr.ty);
                self.error(
                    codes::OPERATOR,
                    arg.span,
                    format!("`mul_div` does not take {found} here"),
                    "expected integers of one signedness, or durations",
                );
                return Value::Error;
            }
            ty = wider;
            scalars.push((Ok(expr), arg.span));
        }
        let ty = ty.unwrap_or(Ty::uint(64));
        let is_duration = matches!(&scalars[0].0, Ok(Expr { ty: Ty::Duration, .. }));
        let operands = scalars
            .into_iter()
            .map(|(value, span)| match value {
                Ok(expr) => fold::cast(expr, &ty),
                Err(literal) => self.convert(literal, &ty, How::Pass, span),
            })
            .collect();
        let value = fold::builtin(Builtin::MulDiv, operands, ty);
        Value::Scalar(if is_duration {
            fold::cast(value, &Ty::Duration)
        } else {
            value
        })
    }

    fn unwrap(&mut self, args: &[&'a ast::Expr], at: Span) -> Value {
        let [seq, reference] = args else {
            self.argument_count(
                at,
                "unwrap",
                "a sequence number and the 64-bit value that it is near to",
                args.len(),
            );
            return Value::Error;
        };
        let value = self.value(seq, None);
        let reference = self.argument(reference, &Ty::uint(64));
        let Some(seq_value) = self.scalar(value, seq.span) else {
            return Value::Error;
        };
        if !matches!(seq_value.ty, Ty::Seq { .. }) {
            let found = self.ck.show(&seq_value.ty);
            self.error(
                codes::MISMATCH,
                seq.span,
                format!("`unwrap` of {found}"),
                "expected `seq<W>`",
            );
            return Value::Error;
        }
        Value::Scalar(fold::builtin(
            Builtin::Unwrap,
            vec![seq_value, reference],
            Ty::uint(64),
        ))
    }

    fn leading_zeros(&mut self, args: &[&'a ast::Expr], at: Span) -> Value {
        let [arg] = args else {
            self.argument_count(at, "clz", "one value", args.len());
            return Value::Error;
        };
        let value = self.value(arg, None);
        match self.scalar(value, arg.span) {
            Some(expr) if matches!(expr.ty, Ty::Int { .. }) => {
                let ty = expr.ty.clone();
                Value::Scalar(fold::builtin(Builtin::Clz, vec![expr], ty))
            }
            Some(expr) => {
                let found = self.ck.show(&expr.ty);
                self.error(
                    codes::OPERATOR,
                    at,
                    format!("`clz` does not take {found}"),
                    "expected an integer",
                );
                Value::Error
            }
            None => Value::Error,
        }
    }

    fn keyed_hash(&mut self, args: &[&'a ast::Expr], at: Span) -> Value {
        let [k0, k1, rest @ ..] = args else {
            self.argument_count(at, "keyed_hash", "two keys and what is hashed", args.len());
            return Value::Error;
        };
        let keys = [self.argument(k0, &Ty::uint(64)), self.argument(k1, &Ty::uint(64))];
        let Some(parts) = self.id_parts(rest) else {
            return Value::Error;
        };
        Value::Scalar(Expr { ty: Ty::uint(64), kind: ExprKind::KeyedHash(Box::new(keys), parts) })
    }

    /// Lowers the parts of an id or of a hashed tuple.
    pub(crate) fn id_parts(&mut self, args: &[&'a ast::Expr]) -> Option<Vec<IdPart>> {
        let mut parts = Vec::new();
        for arg in args {
            match self.value(arg, None) {
                Value::Error => return None,
                Value::Literal { .. } | Value::Infinite | Value::None | Value::Choice(_) => {
                    self.error_hint(
                        codes::LITERAL,
                        arg.span,
                        "a number in a tuple needs a width",
                        "expected a value of a type with a known number of bytes",
                        "give it a type: `uint8(6)`",
                    );
                    return None;
                }
                Value::Place(place) if matches!(place.ty, Ty::Ip | Ty::Id | Ty::Bytes { .. }) => {
                    parts.push(IdPart::Bytes(place));
                }
                value => {
                    let expr = self.scalar(value, arg.span)?;
                    let bits = expr.ty.width().map_or(64, |(bits, _)| bits);
                    parts.push(IdPart::Scalar(expr, bits.div_ceil(8)));
                }
            }
        }
        Some(parts)
    }

    /// Lowers `len(data)`, `len(this)` in a fill, and `len(list)`.
    fn length(&mut self, args: &[&'a ast::Expr], at: Span) -> Value {
        let [arg] = args else {
            self.argument_count(at, "len", "one value", args.len());
            return Value::Error;
        };
        let wire = |fact| Value::Scalar(Expr { ty: Ty::uint(32), kind: ExprKind::Wire(fact) });
        if matches!(self.kind, BodyKind::Wire)
            && matches!(&arg.kind, ast::ExprKind::Name(name) if name.name == "this")
        {
            return wire(WireFact::TotalLen);
        }
        match self.value(arg, None) {
            Value::Error => Value::Error,
            Value::Table(table) => self.table_len(table),
            Value::Place(place) => match place.ty {
                Ty::Data if matches!(self.kind, BodyKind::Wire) => wire(WireFact::DataLen),
                Ty::Data => Value::Scalar(data_len(&place)),
                Ty::Array { len, .. } => Value::Scalar(fold::constant(u64::from(len), Ty::uint(32))),
                Ty::List { .. } | Ty::Sorted { .. } | Ty::Window { .. } | Ty::Options { .. } => {
                    Value::Scalar(Expr { ty: Ty::uint(32), kind: ExprKind::Query(ir::Query::Len(place)) })
                }
                _ => self.no_length(arg.span),
            },
            _ => self.no_length(arg.span),
        }
    }

    fn no_length(&mut self, at: Span) -> Value {
        self.error(
            codes::MISMATCH,
            at,
            "this has no length",
            "expected a `data_t`, a list, or `this` in a fill",
        );
        Value::Error
    }

    fn get_flow_id(&mut self, args: &[&'a ast::Expr], at: Span) -> Value {
        let [event] = args else {
            self.argument_count(at, "get_flow_id", "the event", args.len());
            return Value::Error;
        };
        match self.aggregate(event, &Ty::Struct(EVENT)) {
            Some(place) => Value::Place(first_id(&place)),
            None => Value::Error,
        }
    }

    /// Lowers `data(uid, off, len, seg_size)` into a temporary. If it is stored, it goes directly to its
    /// place instead.
    fn data(&mut self, args: &[&'a ast::Expr], at: Span) -> Value {
        if !self.statements_allowed(at) {
            return Value::Error;
        }
        let place = self.temporary(Ty::Data);
        if self.make_data(&place, args, at) {
            Value::Place(place)
        } else {
            Value::Error
        }
    }

    /// Lowers `data(…)` into a place.
    pub(crate) fn make_data(&mut self, dst: &Place, args: &[&'a ast::Expr], at: Span) -> bool {
        let (uid, off, len, seg_size) = match args {
            [uid, off, len] => (uid, off, len, None),
            [uid, off, len, seg_size] => (uid, off, len, Some(seg_size)),
            _ => {
                self.argument_count(
                    at,
                    "data",
                    "`data(uid, off, len)` or `data(uid, off, len, seg_size)`",
                    args.len(),
                );
                return false;
            }
        };
        let uid = self.keyed_id(uid);
        let off = self.argument(off, &Ty::uint(64));
        let len = self.expr_as(len, &Ty::uint(32));
        let seg_size = match seg_size {
            Some(size) => self.argument(size, &Ty::uint(32)),
            None => fold::constant(0, Ty::uint(32)),
        };
        let Some(uid) = uid else { return false };
        self.push(StmtKind::MakeData { dst: dst.clone(), uid, off, len, seg_size });
        true
    }
}
