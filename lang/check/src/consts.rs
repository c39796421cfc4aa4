//! Constants, params and enums, which are evaluated on first use.

use hawser_ir as ir;
use hawser_ir::abi;
use hawser_ir::{ADDRESS_HALVES, EnumNames, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{Expr, ExprKind, Ident, Span};

use crate::body::Body;
use crate::codes;
use crate::names::Def;
use crate::state::{Checker, DeclProgress, MAX_DEPTH, MemberDecl};
use crate::types::Type;

impl<'a> Checker<'a> {
    /// Evaluates all constants, params and enums.
    pub(crate) fn constants(&mut self) {
        for index in 0..self.enums.len() {
            self.enum_type(index);
            let decl = &self.enums[index];
            let named = |(value, (name, _)): (&u64, &(Ident, _))| (*value, name.name.clone());
            let variants = decl.values.iter().zip(decl.variants).map(named).collect();
            self.module
                .enums
                .push(EnumNames { name: decl.name.name.clone(), variants });
        }
        for index in 0..self.consts.len() {
            self.const_value(index);
        }
        for index in 0..self.params.len() {
            self.param_value(index);
        }
        self.table_rows();
    }

    /// Returns the type and the value of a constant.
    pub(crate) fn const_value(&mut self, index: usize) -> Option<(Ty, u64)> {
        let decl = &self.consts[index];
        let (ty, value, name) = (decl.ty, decl.value, decl.name);
        match decl.progress {
            DeclProgress::Ready => return self.consts[index].result.clone(),
            DeclProgress::Waiting if self.depth < MAX_DEPTH => {}
            DeclProgress::Waiting | DeclProgress::Active => {
                self.circular(name.span, &name.name);
                return None;
            }
        }
        self.consts[index].progress = DeclProgress::Active;
        self.depth += 1;
        let result = self
            .scalar_type(ty)
            .and_then(|ty| Some((ty.clone(), self.constant_expr(value, &ty)?)));
        self.depth -= 1;
        self.consts[index].progress = DeclProgress::Ready;
        self.consts[index].result = result.clone();
        result
    }

    fn param_value(&mut self, index: usize) {
        let decl = &self.params[index];
        let (ty, value, name) = (decl.ty, decl.value, decl.name);
        self.params[index].at = self.module.params.len() as u32;
        if ty.name.name == "ip_addr_t" {
            return self.address_param(index, name, value);
        }
        let ty = self.scalar_type(ty);
        let default = ty
            .as_ref()
            .and_then(|ty| self.constant_expr(value, ty))
            .unwrap_or(0);
        let ty_or_word = ty.clone().unwrap_or(Ty::uint(64));
        self.module
            .params
            .push(ir::Param { name: name.name.clone(), ty: ty_or_word, default });
        self.params[index].result = ty.map(|ty| (ty, default));
        self.params[index].progress = DeclProgress::Ready;
    }

    /// `param ip_addr_t NAME = ipv6(high, low);`: two numbers, as which the address is carried.
    fn address_param(&mut self, index: usize, name: &Ident, value: &'a Expr) {
        let halves = self.address(value);
        if halves.is_none() && !matches!(value.kind, ExprKind::Error) {
            self.error(
                codes::NOT_CONSTANT,
                value.span,
                "this is no constant address",
                "expected `ipv4(n)`, `ipv6(high, low)` or `NONE`, of constants",
            );
        }
        let (high, low) = halves.flatten().unwrap_or_default();
        for (half, default) in ADDRESS_HALVES.into_iter().zip([high, low]) {
            let name = format!("{}{half}", name.name);
            self.module
                .params
                .push(ir::Param { name, ty: Ty::uint(64), default });
        }
        self.params[index].result = Some((Ty::Ip, 0));
        self.params[index].progress = DeclProgress::Ready;
    }

    /// Returns the halves of a constant address; `Some(None)` if its numbers are wrong.
    fn address(&mut self, value: &'a Expr) -> Option<Option<(u64, u64)>> {
        let (name, args) = match &value.kind {
            ExprKind::Name(name) if name.name == "NONE" => return Some(Some((0, 0))),
            ExprKind::Call { callee, args, .. } => match &callee.kind {
                ExprKind::Name(name) => (name.name.as_str(), &args[..]),
                _ => return None,
            },
            _ => return None,
        };
        match (name, args) {
            ("ipv4", [number]) => {
                let number = self.constant_expr(&number.value, &Ty::uint(32));
                Some(number.map(|number| (0, 0xffff_0000_0000 | number)))
            }
            ("ipv6", [high, low]) => {
                let high = self.constant_expr(&high.value, &Ty::uint(64));
                Some(high.zip(self.constant_expr(&low.value, &Ty::uint(64))))
            }
            _ => None,
        }
    }

    pub(crate) fn scalar_type(&mut self, ty: &'a hawser_syntax::ast::Type) -> Option<Ty> {
        match self.resolve(ty) {
            Type::Error => None,
            Type::Value(value) if value.is_scalar() && value != Ty::Addr => Some(value),
            _ => {
                self.error(
                    codes::TYPE_NOT_HERE,
                    ty.span,
                    "this constant is not a number",
                    "expected a scalar type: a constant is a single number",
                );
                None
            }
        }
    }

    /// Returns the type of an enum of which a variant is named, and marks the variant as used.
    pub(crate) fn named_variant(&mut self, index: usize, variant: usize) -> Option<Ty> {
        self.enums[index].used.insert(variant);
        self.enum_type(index)
    }

    pub(crate) fn enum_type(&mut self, index: usize) -> Option<Ty> {
        match self.enums[index].progress {
            DeclProgress::Ready => return self.enums[index].ty.clone(),
            DeclProgress::Active => {
                let at = self.enums[index]
                    .variants
                    .first()
                    .map_or(Span::default(), |(name, _)| name.span);
                self.circular(at, "an enum");
                return None;
            }
            DeclProgress::Waiting => {}
        }
        self.enums[index].progress = DeclProgress::Active;
        let ty = match self.enums[index].repr {
            None => Some(Ty::uint(32)),
            Some(repr) => match self.resolve(repr) {
                Type::Error => None,
                Type::Value(ty @ Ty::Int { .. }) => Some(ty),
                _ => {
                    self.error(
                        codes::TYPE_NOT_HERE,
                        repr.span,
                        "the type of this enum is not an integer",
                        "expected `uintN` or `intN`",
                    );
                    None
                }
            },
        };
        if let Some(ty) = &ty {
            self.enum_values(index, ty);
        }
        let width = ty.as_ref().and_then(Ty::width);
        let ty = width.map(|(bits, signed)| Ty::Enum { index: index as u32, bits, signed });
        self.enums[index].ty = ty.clone();
        self.enums[index].progress = DeclProgress::Ready;
        ty
    }

    /// Returns the variant with this value.
    pub(crate) fn variant_of(&self, index: u32, value: i128) -> Option<&str> {
        let decl = &self.enums[index as usize];
        let at = decl.values.iter().position(|known| i128::from(*known) == value)?;
        decl.variants.get(at).map(|(name, _)| name.name.as_str())
    }

    fn enum_values(&mut self, index: usize, ty: &Ty) {
        let mut next = 0u64;
        let mut values: Vec<u64> = Vec::new();
        for (name, value) in self.enums[index].variants {
            let value = match value {
                Some(value) => self.constant_expr(value, ty).unwrap_or(next),
                None => next,
            };
            if hawser_ir::number::reduce(value, ty) != value {
                self.error_hint(
                    codes::ENUM_VALUE,
                    name.span,
                    format!("`{}` does not fit", name.name),
                    format!("its value is {value}, the enum's type is {}", self.show(ty)),
                    "give the enum a wider type",
                );
            } else if let Some(other) = values.iter().position(|v| *v == value) {
                let (other_name, _) = &self.enums[index].variants[other];
                let (text, at) = (other_name.name.clone(), other_name.span);
                self.report(
                    Diagnostic::error(
                        codes::ENUM_VALUE,
                        name.span,
                        format!("`{}` has the same value as `{text}`", name.name),
                    )
                    .label(format!("both are {value}"))
                    .related(at, "the other one"),
                );
            }
            values.push(value);
            next = value.wrapping_add(1);
        }
        self.enums[index].values = values;
    }

    pub(crate) fn circular(&mut self, at: Span, what: &str) {
        self.error(
            codes::NOT_CONSTANT,
            at,
            format!("`{what}` depends on itself"),
            "expected a value that is known when the program is compiled",
        );
    }

    /// Evaluates a constant expression to its register value.
    pub(crate) fn constant_expr(&mut self, value: &'a Expr, ty: &Ty) -> Option<u64> {
        if let ExprKind::Int(n) = value.kind
            && hawser_ir::number::reduce(n, ty) == n
            && matches!(ty, Ty::Int { .. })
        {
            return Some(n);
        }
        let before = self.diagnostics.len();
        let mut body = Body::constant(self);
        let lowered = body.expr_as(value, ty);
        let (poisoned, pure_) = (body.poisoned, body.out.is_empty());
        if poisoned {
            return None;
        } else if !pure_ {
            // The expression needed statements: it makes an address or calls something.
        } else if let ir::ExprKind::Const(n) = lowered.kind {
            return (self.diagnostics.len() == before).then_some(n);
        }
        if self.diagnostics.len() == before {
            self.error_hint(
                codes::NOT_CONSTANT,
                value.span,
                "this value is not constant",
                "expected a value that is known when the program is compiled",
                "constants are made of literals, `const`s, enum variants and operators",
            );
        }
        None
    }

    /// Evaluates a name that stands for a number in a type.
    pub(crate) fn constant_name(&mut self, name: &'a Ident) -> Option<u64> {
        match self.lookup(name) {
            Some(Def::Const(index)) => {
                self.consts[index].used = true;
                self.const_value(index).map(|(_, value)| value)
            }
            Some(Def::Variant(index, variant)) => {
                self.named_variant(index, variant)?;
                self.enums[index].values.get(variant).copied()
            }
            Some(other) => {
                self.error(
                    codes::NOT_CONSTANT,
                    name.span,
                    format!("`{}` is {}", name.name, other.what()),
                    "expected a number or a constant",
                );
                None
            }
            None => {
                let hint = self.suggestion(name, |def| matches!(def, Def::Const(_)), []);
                self.unknown(name, "a number or a constant", hint);
                None
            }
        }
    }

    /// Evaluates a field's constant initial value; `None` for fields that are not scalars.
    pub(crate) fn constant_default(&mut self, value: &'a Expr, ty: &Ty) -> Option<u64> {
        if !ty.is_scalar() {
            if !matches!(&value.kind, ExprKind::Name(n) if n.name == "NONE") {
                self.error_hint(
                    codes::NOT_CONSTANT,
                    value.span,
                    "this field is not a scalar and cannot have an initial value",
                    "expected a scalar field, or `NONE`",
                    "set the field where the value is created",
                );
            }
            return None;
        }
        self.constant_expr(value, ty)
    }

    /// True if an initial value depends on no params and on no other fields.
    pub(crate) fn is_constant(&self, value: &Expr, fields: &[MemberDecl<'a>]) -> bool {
        match &value.kind {
            ExprKind::Int(_) | ExprKind::Duration(_) | ExprKind::Bool(_) => true,
            ExprKind::Error | ExprKind::Str(_) => true,
            ExprKind::Name(name) => {
                if fields.iter().any(|f| f.name.name == name.name) {
                    return false;
                }
                !matches!(self.lookup(name), Some(Def::Param(_))) && name.name != "this"
            }
            ExprKind::Unary(_, a) => self.is_constant(a, fields),
            ExprKind::Binary(_, a, b) => self.is_constant(a, fields) && self.is_constant(b, fields),
            ExprKind::In(a, set) => {
                self.is_constant(a, fields) && set.iter().all(|e| self.is_constant(e, fields))
            }
            ExprKind::Conditional(a, b, c) => [a, b, c].iter().all(|e| self.is_constant(e, fields)),
            ExprKind::Call { args, .. } => args.iter().all(|a| self.is_constant(&a.value, fields)),
            ExprKind::Path(..) => true,
            ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::Struct { .. } | ExprKind::Fields(_) => {
                false
            }
        }
    }
}

/// Returns a constant that every program has: `ICMP_…`, `OPT_…` and errno names (with Linux's values).
pub(crate) fn builtin_constant(name: &str) -> Option<(Ty, u64)> {
    let named = BUILTIN_CONSTANTS.iter().find(|(known, _)| *known == name);
    named.map(|(_, value)| (Ty::uint(32), u64::from(*value)))
}

/// The names and values of [`builtin_constant`].
pub(crate) const BUILTIN_CONSTANTS: &[(&str, u32)] = &[
    ("ICMP_UNREACHABLE", abi::ICMP_UNREACHABLE),
    ("ICMP_REFUSED", abi::ICMP_REFUSED),
    ("ICMP_TOO_BIG", abi::ICMP_TOO_BIG),
    ("ICMP_OTHER", abi::ICMP_OTHER),
    ("OPT_NODELAY", abi::OPT_NODELAY),
    ("OPT_CORK", abi::OPT_CORK),
    ("OPT_QUICK_ACK", abi::OPT_QUICK_ACK),
    ("OPT_KEEPALIVE", abi::OPT_KEEPALIVE),
    ("OPT_KEEPALIVE_INTERVAL", abi::OPT_KEEPALIVE_INTERVAL),
    ("OPT_KEEPALIVE_COUNT", abi::OPT_KEEPALIVE_COUNT),
    ("OPT_USER_TIMEOUT", abi::OPT_USER_TIMEOUT),
    ("OPT_LINGER", abi::OPT_LINGER),
    ("OPT_RECEIVE_BUFFER", abi::OPT_RECEIVE_BUFFER),
    ("OPT_SEND_BUFFER", abi::OPT_SEND_BUFFER),
    ("OPT_MAX_SEGMENT", abi::OPT_MAX_SEGMENT),
    ("OPT_REUSE_PORT", abi::OPT_REUSE_PORT),
    ("OPT_TOS", abi::OPT_TOS),
    ("OPT_FAST_OPEN", abi::OPT_FAST_OPEN),
    ("OPT_OPEN_REPEATS", abi::OPT_OPEN_REPEATS),
    ("OPT_TTL", abi::OPT_TTL),
    ("OPT_NOT_SENT", abi::OPT_NOT_SENT),
    ("OPT_PRIORITY", abi::OPT_PRIORITY),
    ("OPT_PAIR_DOMAIN", abi::OPT_PAIR_DOMAIN),
    ("OPT_PAIR_ACCESS", abi::OPT_PAIR_ACCESS),
    ("OPT_PAIR_PEER", abi::OPT_PAIR_PEER),
    ("OPT_PAIR_EXPECTED", abi::OPT_PAIR_EXPECTED),
    ("OPT_PAIR_FIRST", abi::OPT_PAIR_FIRST),
    ("OPT_PAIR_MTU", abi::OPT_PAIR_MTU),
    ("OPT_PAIR_RETRIES", abi::OPT_PAIR_RETRIES),
    ("OPT_PAIR_RNR_RETRIES", abi::OPT_PAIR_RNR_RETRIES),
    ("OPT_PAIR_RNR_TIMER", abi::OPT_PAIR_RNR_TIMER),
    ("OPT_PAIR_TIMEOUT", abi::OPT_PAIR_TIMEOUT),
    ("OPT_PAIR_READS", abi::OPT_PAIR_READS),
    ("OPT_PAIR_DATAGRAMS", abi::OPT_PAIR_DATAGRAMS),
    ("WORK_SEND", abi::WORK_SEND),
    ("WORK_WRITE", abi::WORK_WRITE),
    ("WORK_READ", abi::WORK_READ),
    ("WORK_COMPARE_SWAP", abi::WORK_COMPARE_SWAP),
    ("WORK_FETCH_ADD", abi::WORK_FETCH_ADD),
    ("WORK_RECEIVE", abi::WORK_RECEIVE),
    ("WORK_DATAGRAM", abi::WORK_DATAGRAM),
    ("WORK_SOURCE", abi::WORK_SOURCE),
    ("WORK_SIGNALED", abi::WORK_SIGNALED),
    ("WORK_IMMEDIATE", abi::WORK_IMMEDIATE),
    ("WORK_INVALIDATE", abi::WORK_INVALIDATE),
    ("WORK_SOLICITED", abi::WORK_SOLICITED),
    ("WORK_FENCE", abi::WORK_FENCE),
    ("ACCESS_LOCAL_WRITE", abi::ACCESS_LOCAL_WRITE),
    ("ACCESS_REMOTE_WRITE", abi::ACCESS_REMOTE_WRITE),
    ("ACCESS_REMOTE_READ", abi::ACCESS_REMOTE_READ),
    ("ACCESS_REMOTE_ATOMIC", abi::ACCESS_REMOTE_ATOMIC),
    ("EPERM", 1),
    ("EINTR", 4),
    ("EIO", 5),
    ("EAGAIN", 11),
    ("EWOULDBLOCK", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EINVAL", 22),
    ("EMFILE", 24),
    ("EPIPE", 32),
    ("EPROTO", 71),
    ("EBADMSG", 74),
    ("EOVERFLOW", 75),
    ("ENOTSOCK", 88),
    ("EMSGSIZE", 90),
    ("ENOPROTOOPT", 92),
    ("EOPNOTSUPP", 95),
    ("EADDRINUSE", 98),
    ("EADDRNOTAVAIL", 99),
    ("ENETDOWN", 100),
    ("ENETUNREACH", 101),
    ("ENETRESET", 102),
    ("ECONNABORTED", 103),
    ("ECONNRESET", 104),
    ("ENOBUFS", 105),
    ("EISCONN", 106),
    ("ENOTCONN", 107),
    ("ESHUTDOWN", 108),
    ("ETIMEDOUT", 110),
    ("ECONNREFUSED", 111),
    ("EHOSTDOWN", 112),
    ("EHOSTUNREACH", 113),
    ("EALREADY", 114),
    ("EINPROGRESS", 115),
    ("ECANCELED", 125),
];
