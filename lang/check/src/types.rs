//! Resolution of written types.

use hawser_ir::{FieldRef, StructId, Ty};
use hawser_syntax::Diagnostic;
use hawser_syntax::ast::{self, Ident, Span, TypeArg};

use crate::codes;
use crate::names::Def;
use crate::state::{Checker, EVENT, ICMP, MAX_SIZE, NET, OP, RecordKind};
use crate::vocabulary::{Sort, names};

/// A type of the language.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// An error that has been reported.
    Error,
    Void,
    /// A value in memory. `event_t`, `IPheader`, `op_t` and `icmp_t` are built-in structures.
    Value(Ty),
    /// `instr_t`
    Instr,
    /// `list<instr_t>`
    InstrList,
    /// `list<event_t>`
    EventList,
    /// `pkt_t`
    Packet,
    /// `no_ctx`
    NoContext,
}

impl<'a> Checker<'a> {
    /// Resolves the type of a value. An unknown type is reported once and silent from then on.
    pub(crate) fn resolve(&mut self, ty: &'a ast::Type) -> Type {
        match is_wire_only(&ty.name.name) {
            true => self.only_on_the_wire(ty.span),
            false => self.resolve_field(ty),
        }
    }

    /// Reports a type that only a field on the wire may have.
    pub(crate) fn only_on_the_wire(&mut self, at: Span) -> Type {
        self.report(
            Diagnostic::error(
                codes::TYPE_NOT_HERE,
                at,
                "this type is allowed in wire formats only",
            )
            .label("expected a type of values")
            .hint("a `pkt_bp`, an `opt_t`, or a struct nested in one may have it"),
        );
        Type::Error
    }

    /// Resolves the type of a field, which may be one that only the wire has.
    pub(crate) fn resolve_field(&mut self, ty: &'a ast::Type) -> Type {
        let name = ty.name.name.as_str();
        if name.is_empty() {
            return Type::Error;
        }
        if let Some(value) = plain_type(name) {
            return self.without_arguments(ty, value);
        }
        match name {
            "seq" => self.seq_type(ty),
            "bytes" => self.bytes_type(ty),
            "array" => self.array_type(ty),
            "list" => self.list_type(ty),
            "sorted_list" => self.sorted_type(ty),
            "sliding_wnd" => self.window_type(ty),
            "timer_t" => {
                self.error_hint(
                    codes::TYPE_NOT_HERE,
                    ty.span,
                    "a timer is allowed in contexts only",
                    "this type is not allowed here",
                    "declare it in the context: `timer_t name -> event;`",
                );
                Type::Error
            }
            _ => {
                let resolved = self.named_type(&ty.name);
                self.without_arguments(ty, resolved)
            }
        }
    }

    /// Resolves a type that the program declares.
    pub(crate) fn named_type(&mut self, name: &Ident) -> Type {
        match self.lookup(name) {
            Some(Def::Record(record)) => {
                if !self.lay_out(record, name.span) {
                    return Type::Error;
                }
                Type::Value(Ty::Struct(Checker::struct_of(record)))
            }
            Some(Def::Enum(index)) => self.enum_type(index).map_or(Type::Error, Type::Value),
            Some(other) => {
                self.error(
                    codes::UNKNOWN_TYPE,
                    name.span,
                    format!("`{}` is {}", name.name, other.what()),
                    "expected a type",
                );
                Type::Error
            }
            None => {
                let is_type = |def| matches!(def, Def::Record(_) | Def::Enum(_));
                let hint = self.suggestion(name, is_type, names(Sort::Type));
                let mut diagnostic = Diagnostic::error(
                    codes::UNKNOWN_TYPE,
                    name.span,
                    format!("unknown type `{}`", name.name),
                )
                .label("expected a type");
                diagnostic.hint = hint;
                self.report(diagnostic);
                Type::Error
            }
        }
    }

    fn without_arguments(&mut self, ty: &ast::Type, resolved: Type) -> Type {
        if ty.args.is_empty() {
            return resolved;
        }
        self.type_arguments(ty, "this type takes no arguments")
    }

    fn type_arguments(&mut self, ty: &ast::Type, expected: &str) -> Type {
        self.error(
            codes::TYPE_ARGUMENTS,
            ty.span,
            format!("wrong arguments for `{}`", ty.name.name),
            expected.to_owned(),
        );
        Type::Error
    }

    fn seq_type(&mut self, ty: &'a ast::Type) -> Type {
        let [width] = &ty.args[..] else {
            return self.type_arguments(ty, "expected `seq<W>`");
        };
        match self.constant_argument(width) {
            None => Type::Error,
            Some(bits @ 2..=64) => Type::Value(Ty::Seq { bits: bits as u8 }),
            Some(_) => self.type_arguments(ty, "expected a width from 2 to 64"),
        }
    }

    fn bytes_type(&mut self, ty: &'a ast::Type) -> Type {
        let [len] = &ty.args[..] else {
            return self.type_arguments(ty, "expected `bytes<N>`");
        };
        match self.constant_argument(len) {
            None => Type::Error,
            Some(len) if (1..=MAX_SIZE).contains(&len) => Type::Value(Ty::Bytes { len: len as u32 }),
            Some(_) => self.too_large(ty.span),
        }
    }

    fn list_type(&mut self, ty: &'a ast::Type) -> Type {
        if let [TypeArg::Type(elem)] = &ty.args[..] {
            match elem.name.name.as_str() {
                "instr_t" => return Type::InstrList,
                "event_t" => return Type::EventList,
                _ => {}
            }
        }
        let [TypeArg::Type(elem), cap] = &ty.args[..] else {
            return self.type_arguments(
                ty,
                "expected `list<T, N>`: a list states the maximum number of elements that it holds",
            );
        };
        let (Some(elem), Some(cap)) = (self.element_type(elem), self.constant_argument(cap)) else {
            return Type::Error;
        };
        if !self.fits(&elem, cap) {
            return self.too_large(ty.span);
        }
        Type::Value(Ty::List { elem: Box::new(elem), cap: cap as u32 })
    }

    fn array_type(&mut self, ty: &'a ast::Type) -> Type {
        let [TypeArg::Type(written), len] = &ty.args[..] else {
            return self.type_arguments(ty, "expected `array<T, N>`");
        };
        let (Some(elem), Some(len)) = (self.element_type(written), self.constant_argument(len)) else {
            return Type::Error;
        };
        let record = match elem {
            Ty::Struct(id) => self.record_of(id),
            _ => None,
        };
        if record.is_some_and(|record| self.has_defaults(record, 0) || self.has_computed_defaults(record, 0))
        {
            self.error_hint(
                codes::TYPE_NOT_HERE,
                written.span,
                "an array of structures with initial values",
                "the elements of an array are zero at first",
                "remove the initial values, or keep the structures in a `list<T, N>`",
            );
            return Type::Error;
        }
        if !self.fits(&elem, len) {
            return self.too_large(ty.span);
        }
        Type::Value(Ty::Array { elem: Box::new(elem), len: len as u32 })
    }

    fn sorted_type(&mut self, ty: &'a ast::Type) -> Type {
        let [TypeArg::Type(elem), cap, rest @ ..] = &ty.args[..] else {
            return self.type_arguments(ty, "expected `sorted_list<T, N, by (a, b), key k>`");
        };
        let (Some(elem), Some(cap)) = (self.element_type(elem), self.constant_argument(cap)) else {
            return Type::Error;
        };
        let mut by = None;
        let mut key = None;
        for arg in rest {
            match arg {
                TypeArg::By(fields) if by.is_none() => {
                    by = fields
                        .iter()
                        .map(|f| self.element_field(&elem, f))
                        .collect::<Option<Vec<_>>>();
                    if by.is_none() {
                        return Type::Error;
                    }
                }
                TypeArg::Key(field) if key.is_none() => {
                    key = self.element_field(&elem, field);
                    if key.is_none() {
                        return Type::Error;
                    }
                }
                TypeArg::By(_) | TypeArg::Key(_) | TypeArg::Type(_) | TypeArg::Value(_) => {
                    return self.type_arguments(ty, "expected `by (a, b)` and `key k` after the bound");
                }
            }
        }
        let Some(key) = key else {
            return self.type_arguments(ty, "expected `key k`: the field that distinguishes elements");
        };
        if !self.fits(&elem, cap) {
            return self.too_large(ty.span);
        }
        let by = by.unwrap_or_else(|| vec![key.clone()]);
        Type::Value(Ty::Sorted { elem: Box::new(elem), cap: cap as u32, by, key })
    }

    fn window_type(&mut self, ty: &'a ast::Type) -> Type {
        let (runs, elem) = match &ty.args[..] {
            [runs] => (runs, Some(Ty::uint(64))),
            [runs, TypeArg::Type(elem)] => (runs, self.element_type(elem)),
            _ => return self.type_arguments(ty, "expected `sliding_wnd<N, T>`: at most N runs of positions"),
        };
        let (Some(runs), Some(elem)) = (self.constant_argument(runs), elem) else {
            return Type::Error;
        };
        if !matches!(elem, Ty::Int { signed: false, .. } | Ty::Seq { .. }) {
            return self.type_arguments(ty, "positions are of an unsigned type or `seq<W>`");
        }
        if !(1..=MAX_SIZE / 16 - 1).contains(&runs) {
            return self.too_large(ty.span);
        }
        Type::Value(Ty::Window { runs: runs as u32, elem: Box::new(elem) })
    }

    /// Resolves the type of a list's elements, which may be any type that a structure's field may have.
    fn element_type(&mut self, elem: &'a ast::Type) -> Option<Ty> {
        let resolved = self.resolve(elem);
        self.storable(resolved, elem.span)
    }

    /// Checks that a type may be stored in memory beyond the run of a function.
    pub(crate) fn storable(&mut self, ty: Type, at: Span) -> Option<Ty> {
        let reason = match ty {
            Type::Error => return None,
            Type::Value(Ty::Struct(id)) => match self.record_of(id).map(|r| self.records[r].kind) {
                None => "allowed in signatures and local variables only",
                Some(RecordKind::Struct | RecordKind::Opt | RecordKind::Blueprint) => {
                    return Some(Ty::Struct(id));
                }
                Some(RecordKind::Event(..)) => "an event cannot be stored: `raise` it, or store its fields",
                Some(RecordKind::Context(_)) => "a context cannot be stored in another value: store its id",
                Some(RecordKind::Scratchpad | RecordKind::Signal(_)) => "expected a type of values",
            },
            Type::Value(ty) => return Some(ty),
            Type::Void => "expected a type of values",
            Type::Instr | Type::InstrList | Type::EventList | Type::Packet | Type::NoContext => {
                "allowed in signatures and local variables only"
            }
        };
        self.error(codes::TYPE_NOT_HERE, at, "this type cannot be stored", reason);
        None
    }

    fn element_field(&mut self, elem: &Ty, name: &Ident) -> Option<FieldRef> {
        self.note_access(elem, name);
        let fields = match elem {
            Ty::Struct(id) => &self.module.structs[id.0 as usize].fields[..],
            _ => &[],
        };
        if let Some(field) = fields.iter().find(|f| f.name == name.name)
            && field.ty.is_scalar()
        {
            return Some(FieldRef { offset: field.offset, ty: Box::new(field.ty.clone()) });
        }
        let scalars = fields
            .iter()
            .filter(|f| f.ty.is_scalar())
            .map(|f| f.name.as_str());
        let hint = self.nearest_member(&name.name, scalars);
        let mut diagnostic = Diagnostic::error(
            codes::UNKNOWN_MEMBER,
            name.span,
            format!("the elements have no scalar field `{}`", name.name),
        )
        .label("expected a field of the element type");
        diagnostic.hint = hint;
        self.report(diagnostic);
        None
    }

    /// Evaluates a type's argument as a number.
    pub(crate) fn constant_argument(&mut self, arg: &'a TypeArg) -> Option<u64> {
        match arg {
            TypeArg::Value(value) => self.constant_expr(value, &Ty::uint(64)),
            TypeArg::Type(ty) if ty.args.is_empty() => self.constant_name(&ty.name),
            TypeArg::Type(ty) => {
                self.type_arguments(ty, "expected a number");
                None
            }
            TypeArg::By(names) => {
                if let Some(first) = names.first() {
                    self.unknown(first, "a number", None);
                }
                None
            }
            TypeArg::Key(name) => {
                self.unknown(name, "a number", None);
                None
            }
        }
    }

    /// True if `count` is at least one and the elements fit into memory.
    pub(crate) fn fits(&self, elem: &Ty, count: u64) -> bool {
        let stride = u64::from(self.layout().stride(elem)).max(1);
        count >= 1
            && count
                .checked_mul(stride)
                .is_some_and(|bytes| bytes + 64 <= MAX_SIZE)
    }

    pub(crate) fn too_large(&mut self, at: Span) -> Type {
        self.error(
            codes::TOO_LARGE,
            at,
            "the size is out of range",
            format!("expected at least one element and at most {MAX_SIZE} bytes in all"),
        );
        Type::Error
    }

    /// Formats a type as the program writes it, for messages.
    pub(crate) fn show(&self, ty: &Ty) -> String {
        match ty {
            Ty::Bool => "bool".to_owned(),
            Ty::Int { bits, signed: false } => format!("uint{bits}"),
            Ty::Int { bits, signed: true } => format!("int{bits}"),
            Ty::Enum { index, .. } => self.enums[*index as usize].name.name.clone(),
            Ty::Seq { bits } => format!("seq<{bits}>"),
            Ty::Duration => "duration_t".to_owned(),
            Ty::Time => "time_t".to_owned(),
            Ty::Varint => "varint_t".to_owned(),
            Ty::Ip => "ip_addr_t".to_owned(),
            Ty::Id => "id_t".to_owned(),
            Ty::Addr => "addr_t".to_owned(),
            Ty::Timer => "timer_t".to_owned(),
            Ty::Data => "data_t".to_owned(),
            Ty::Bytes { len } => format!("bytes<{len}>"),
            Ty::Struct(StructId(id)) => self.module.structs[*id as usize].name.clone(),
            Ty::Array { elem, len } => format!("array<{}, {len}>", self.show(elem)),
            Ty::List { elem, cap } => format!("list<{}, {cap}>", self.show(elem)),
            Ty::Sorted { elem, cap, .. } => format!("sorted_list<{}, {cap}>", self.show(elem)),
            Ty::Window { runs, elem } => format!("sliding_wnd<{runs}, {}>", self.show(elem)),
            Ty::Options { list, .. } => self.module.opt_lists[list.0 as usize].name.clone(),
        }
    }
}

/// Resolves built-in types without arguments.
fn plain_type(name: &str) -> Option<Type> {
    if let Some((bits, signed)) = integer_name(name) {
        return Some(Type::Value(Ty::Int { bits, signed }));
    }
    Some(match name {
        "bool" => Type::Value(Ty::Bool),
        "duration_t" => Type::Value(Ty::Duration),
        "time_t" => Type::Value(Ty::Time),
        "varint_t" => Type::Value(Ty::Varint),
        "ip_addr_t" => Type::Value(Ty::Ip),
        "id_t" | "flow_id" | "buffer_id_t" => Type::Value(Ty::Id),
        "addr_t" => Type::Value(Ty::Addr),
        "data_t" => Type::Value(Ty::Data),
        "checksum16_t" | "le_uint16" => Type::Value(Ty::uint(16)),
        "crc32_t" | "le_uint32" => Type::Value(Ty::uint(32)),
        "le_uint64" => Type::Value(Ty::uint(64)),
        // Four bits on the wire, but wide in memory, so that `off * 4 - 20` has room.
        "hdrlen4_t" => Type::Value(Ty::uint(32)),
        "event_t" => Type::Value(Ty::Struct(EVENT)),
        "IPheader" => Type::Value(Ty::Struct(NET)),
        "op_t" => Type::Value(Ty::Struct(OP)),
        "icmp_t" => Type::Value(Ty::Struct(ICMP)),
        "instr_t" => Type::Instr,
        "pkt_t" => Type::Packet,
        "no_ctx" => Type::NoContext,
        "void" => Type::Void,
        _ => return None,
    })
}

/// True for a form on the wire, whose values are plain numbers in memory.
pub(crate) fn is_wire_only(name: &str) -> bool {
    is_little(name) || matches!(name, "checksum16_t" | "crc32_t" | "hdrlen4_t")
}

/// True for an integer whose least significant byte comes first on the wire.
pub(crate) fn is_little(name: &str) -> bool {
    matches!(name, "le_uint16" | "le_uint32" | "le_uint64")
}

/// Returns the width and signedness of `uintN` (1 to 64) or `intN` (2 to 64).
pub(crate) fn integer_name(name: &str) -> Option<(u8, bool)> {
    let (digits, signed) = match name.strip_prefix("uint") {
        Some(digits) => (digits, false),
        None => (name.strip_prefix("int")?, true),
    };
    if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let bits: u8 = digits.parse().ok()?;
    ((if signed { 2 } else { 1 })..=64)
        .contains(&bits)
        .then_some((bits, signed))
}
