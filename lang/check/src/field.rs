//! Places: `a.b`, `l[i]`, `opts[member]`, `sorted[key]`, and the built-in fields.

use std::mem::offset_of;

use hawser_ir as ir;
use hawser_ir::abi::{ContextHeader, Data, EventHeader};
use hawser_ir::{
    BinOp, CmpOp, Expr, ExprKind, Index, LIST_HEADER, OPTION_TAG, OptListId, OptMember, Place, Query, Step,
    StmtKind, Ty, WireFact,
};
use hawser_syntax::ast::{self, Ident, Span};
use hawser_syntax::{Diagnostic, Hint};

use crate::body::{Body, Variable, inside, load};
use crate::codes;
use crate::convert::{How, Value};
use crate::fold;
use crate::index::{DefKind, Member, member};
use crate::state::{Checker, EVENT, OP, RecordKind};

impl<'a> Body<'_, 'a> {
    /// `base.name`
    pub(crate) fn field(&mut self, base: &'a ast::Expr, name: &'a Ident, at: Span) -> Value {
        if let ast::ExprKind::Name(variable) = &base.kind {
            let is_packet = matches!(self.local(variable).map(|l| &l.variable), Some(Variable::Packet));
            if is_packet {
                return self.packet_field(name);
            }
        }
        match self.value(base, None) {
            Value::Error => Value::Error,
            Value::Place(place) => self.place_field(place, name, at),
            Value::Table(table) if name.name == "len" => self.table_len(table),
            other => {
                let found = self.describe(&other);
                self.error(
                    codes::UNKNOWN_MEMBER,
                    name.span,
                    format!("{found} has no fields"),
                    "expected a structure before the dot",
                );
                Value::Error
            }
        }
    }

    /// `p.len`: the number of bytes that remain behind the parser's cursor.
    fn packet_field(&mut self, name: &Ident) -> Value {
        self.ck.note_member_of(name, packet_members);
        if name.name == "len" {
            let rest = ExprKind::Wire(WireFact::DataLen);
            return Value::Scalar(Expr { ty: Ty::uint(32), kind: rest });
        }
        self.no_member(name, "pkt_t", ["len", "extract"])
    }

    fn place_field(&mut self, place: Place, name: &Ident, at: Span) -> Value {
        self.ck.note_access(&place.ty, name);
        match place.ty.clone() {
            Ty::Struct(id) => self.struct_field(place, id, name),
            Ty::Data => match data_field(&name.name) {
                Some((offset, ty)) => Value::Place(inside(&place, offset, ty)),
                None => self.no_member(name, "data_t", ["uid", "off", "addr", "len", "seg_size"]),
            },
            Ty::Timer => match name.name.as_str() {
                "armed" => {
                    let deadline = Expr { ty: Ty::Timer, kind: ExprKind::Load(place) };
                    Value::Scalar(fold::compare(CmpOp::Ne, deadline, fold::constant(0, Ty::Timer)))
                }
                _ => self.no_member(name, "timer_t", ["armed"]),
            },
            Ty::Ip => match name.name.as_str() {
                "is_v4" => self.is_ipv4(place, at),
                "high" => Value::Scalar(half(&self.repeatable(place), 0)),
                "low" => Value::Scalar(half(&self.repeatable(place), 8)),
                _ => self.no_member(name, "ip_addr_t", ["is_v4", "high", "low"]),
            },
            Ty::Array { len, .. } => match name.name.as_str() {
                "len" => Value::Scalar(fold::constant(u64::from(len), Ty::uint(32))),
                _ => {
                    let owner = self.ck.show(&place.ty);
                    self.no_member(name, &owner, ["len"])
                }
            },
            Ty::List { .. } | Ty::Sorted { .. } | Ty::Window { .. } | Ty::Options { .. } => {
                self.container_field(place, name)
            }
            ty => {
                let found = self.ck.show(&ty);
                self.no_member(name, &found, [])
            }
        }
    }

    pub(crate) fn struct_field(&mut self, place: Place, id: ir::StructId, name: &Ident) -> Value {
        if let Some(field) = self.ck.field_named(id, &name.name) {
            let (offset, ty) = (field.offset, field.ty.clone());
            self.ck.note_read(id, name);
            self.ck.module.reads_sub |= id == OP && name.name == "sub";
            return Value::Place(inside(&place, offset, ty));
        }
        let builtin: &[&str] = match self.ck.kind_of(&place.ty) {
            Some(RecordKind::Event(..)) => {
                let header = &self.ck.module.structs[EVENT.0 as usize].fields;
                if let Some(field) = header.iter().find(|f| f.name == name.name) {
                    let (offset, ty) = (field.offset, field.ty.clone());
                    return Value::Place(inside(&place, offset, ty));
                }
                &["now", "rand", "hash"]
            }
            Some(RecordKind::Context(_)) => {
                if name.name == "self" {
                    let offset = offset_of!(ContextHeader, id) as u32;
                    return Value::Place(inside(&place, offset, Ty::Id));
                }
                &["self"]
            }
            Some(
                RecordKind::Struct
                | RecordKind::Scratchpad
                | RecordKind::Signal(_)
                | RecordKind::Opt
                | RecordKind::Blueprint,
            )
            | None => &[],
        };
        if self.ck.is_declared(id, &name.name) {
            // Its type is wrong, which has been reported there.
            self.poisoned = true;
            return Value::Error;
        }
        let structure = &self.ck.module.structs[id.0 as usize];
        let known: Vec<String> = structure.fields.iter().map(|f| f.name.clone()).collect();
        let owner = structure.name.clone();
        let known = known.iter().map(String::as_str).chain(builtin.iter().copied());
        let hint = self.ck.nearest_member(&name.name, known);
        self.unknown_member(name, &owner, hint)
    }

    fn no_member<const N: usize>(&mut self, name: &Ident, owner: &str, known: [&str; N]) -> Value {
        let hint = self.ck.nearest_member(&name.name, known);
        self.unknown_member(name, owner, hint)
    }

    pub(crate) fn unknown_member(&mut self, name: &Ident, owner: &str, hint: Option<Hint>) -> Value {
        if !name.name.is_empty() {
            let mut diagnostic = Diagnostic::error(
                codes::UNKNOWN_MEMBER,
                name.span,
                format!("`{owner}` has no member `{}`", name.name),
            )
            .label(format!("expected a member of `{owner}`"));
            diagnostic.hint = hint;
            self.ck.report(diagnostic);
        }
        Value::Error
    }

    /// IPv4 addresses are IPv4-mapped: their first twelve bytes are those of `::ffff:0.0.0.0`.
    fn is_ipv4(&mut self, place: Place, at: Span) -> Value {
        if !self.statements_allowed(at) {
            return Value::Error;
        }
        let any = self.temporary(Ty::Ip);
        self.push(StmtKind::MakeIpv4(any.clone(), fold::constant(0, Ty::uint(32))));
        let prefix = |place: &Place| inside(place, 0, Ty::Bytes { len: 12 });
        Value::Scalar(Expr { ty: Ty::Bool, kind: ExprKind::SameBytes(prefix(&place), prefix(&any)) })
    }

    /// `len`, `full`, `head`: the properties of a container.
    pub(crate) fn container_field(&mut self, place: Place, name: &Ident) -> Value {
        let query = |ty: Ty, query| Value::Scalar(Expr { ty, kind: ExprKind::Query(query) });
        match (&place.ty, name.name.as_str()) {
            (Ty::List { .. } | Ty::Sorted { .. } | Ty::Options { .. }, "len") => {
                query(Ty::uint(32), Query::Len(place))
            }
            (Ty::List { cap, .. } | Ty::Sorted { cap, .. } | Ty::Options { cap, .. }, "full") => {
                let cap = fold::constant(u64::from(*cap), Ty::uint(32));
                let len = Expr { ty: Ty::uint(32), kind: ExprKind::Query(Query::Len(place)) };
                Value::Scalar(fold::compare(CmpOp::Eq, len, cap))
            }
            (Ty::Window { .. }, "len" | "runs") => query(Ty::uint(32), Query::Len(place)),
            (Ty::Window { elem, .. }, "head") => query((**elem).clone(), Query::WindowHead(place)),
            (Ty::Window { .. }, _) => {
                let owner = self.ck.show(&place.ty);
                self.no_member(name, &owner, ["head", "len", "runs"])
            }
            _ => {
                let owner = self.ck.show(&place.ty);
                self.no_member(name, &owner, ["len", "full"])
            }
        }
    }

    /// `base[index]`
    pub(crate) fn index(&mut self, base: &'a ast::Expr, index: &'a ast::Expr, at: Span) -> Value {
        match self.value(base, None) {
            Value::Error => Value::Error,
            Value::Entry(entry, list) => match self.option_member(list, index) {
                Some((_, ty)) => Value::Place(inside(&entry, OPTION_TAG, ty)),
                None => Value::Error,
            },
            Value::Place(place) => match place.ty.clone() {
                Ty::List { elem, cap } => {
                    let position = self.position(index);
                    self.warn_of_position(&position, cap, index.span);
                    Value::Place(self.element(&place, &elem, cap, Index::At(Box::new(position))))
                }
                Ty::Array { elem, len } => {
                    let position = self.position(index);
                    self.warn_beyond(&position, u64::from(len), "array", index.span);
                    Value::Place(self.item(&place, &elem, len, position))
                }
                Ty::Sorted { elem, cap, key, .. } => {
                    let value = self.argument(index, &key.ty);
                    Value::Place(self.element(&place, &elem, cap, Index::Key(Box::new(value), key)))
                }
                Ty::Options { list, cap } => match self.option_member(list, index) {
                    Some((tag, ty)) => Value::Place(self.option_entry(&place, list, cap, tag, ty)),
                    None => Value::Error,
                },
                ty => {
                    let found = self.ck.show(&ty);
                    self.error(
                        codes::NOT_INDEXED,
                        at,
                        format!("{found} cannot be indexed"),
                        "expected a list, an array, a sorted list or an option list",
                    );
                    Value::Error
                }
            },
            Value::Table(table) => self.table_value(table, index),
            other => {
                let found = self.describe(&other);
                self.error(
                    codes::NOT_INDEXED,
                    at,
                    format!("{found} cannot be indexed"),
                    "expected a list",
                );
                Value::Error
            }
        }
    }

    /// Lowers a position in a list.
    pub(crate) fn position(&mut self, index: &'a ast::Expr) -> Expr {
        let value = self.value(index, Some(&Ty::uint(32)));
        if let Value::Literal { .. } | Value::Choice(_) = value {
            return self.convert(value, &Ty::uint(32), How::Pass, index.span);
        }
        match self.scalar(value, index.span) {
            Some(expr) if matches!(expr.ty, Ty::Int { .. }) => expr,
            Some(expr) => {
                let found = self.ck.show(&expr.ty);
                let message = format!("{found} cannot be a position");
                match &expr.ty {
                    Ty::Enum { bits, signed, .. } => {
                        let number = self.ck.show(&Ty::Int { bits: *bits, signed: *signed });
                        let hint = format!("write `{number}(…)`, the number of the variant");
                        self.error_hint(codes::MISMATCH, index.span, message, "expected an integer", hint);
                    }
                    _ => self.error(codes::MISMATCH, index.span, message, "expected an integer"),
                }
                self.nothing(&Ty::uint(32))
            }
            None => self.nothing(&Ty::uint(32)),
        }
    }

    /// Returns the place of an element of a list.
    pub(crate) fn element(&self, list: &Place, elem: &Ty, cap: u32, index: Index) -> Place {
        let stride = self.ck.layout().stride(elem);
        let step = Step { index, stride, header: LIST_HEADER, cap, offset: 0 };
        let mut place = Place { ty: elem.clone(), ..list.clone() };
        place.steps.push(step);
        place
    }

    /// Returns the place of an element of an array.
    pub(crate) fn item(&self, array: &Place, elem: &Ty, len: u32, position: Expr) -> Place {
        let stride = self.ck.layout().stride(elem);
        let index = Index::Item(Box::new(position));
        let mut place = Place { ty: elem.clone(), ..array.clone() };
        place
            .steps
            .push(Step { index, stride, header: 0, cap: len, offset: 0 });
        place
    }

    fn option_entry(&self, options: &Place, list: OptListId, cap: u32, tag: OptMember, ty: Ty) -> Place {
        let stride = self.ck.layout().option_stride(list);
        let index = Index::Tag(tag.0);
        let mut place = Place { ty, ..options.clone() };
        place
            .steps
            .push(Step { index, stride, header: LIST_HEADER, cap, offset: OPTION_TAG });
        place
    }

    /// Returns the member of an option list that an index names: its tag and type.
    pub(crate) fn option_member(&mut self, list: OptListId, index: &'a ast::Expr) -> Option<(OptMember, Ty)> {
        match &index.kind {
            ast::ExprKind::Name(name) => self.option_member_named(list, name),
            ast::ExprKind::Error => None,
            _ => {
                self.error(
                    codes::NOT_INDEXED,
                    index.span,
                    "an option is chosen by the name of its member",
                    "expected the name of an `opt_t`",
                );
                None
            }
        }
    }

    pub(crate) fn option_member_named(&mut self, list: OptListId, name: &Ident) -> Option<(OptMember, Ty)> {
        let union = self.ck.opt_list_uses[list.0 as usize].union?;
        let members = self.ck.unions[union].members;
        self.ck.answer(name.span, || {
            let options = members.iter();
            options
                .map(|option| member(&option.name, DefKind::Option, "opt_t"))
                .collect()
        });
        self.ck.lookup(name);
        let Some(tag) = members.iter().position(|member| member.name == name.name) else {
            let owner = self.ck.unions[union].name.name.clone();
            let hint = self
                .ck
                .nearest_member(&name.name, members.iter().map(|m| m.name.as_str()));
            self.unknown_member(name, &owner, hint);
            return None;
        };
        let record = *self.ck.union_records(union)?.get(tag)?;
        Some((OptMember(tag as u32), Ty::Struct(Checker::struct_of(record))))
    }

    /// Compares an option list entry's tag.
    pub(crate) fn entry_is(&self, entry: &Place, tag: OptMember) -> Expr {
        let found = load(inside(entry, 0, Ty::uint(64)));
        fold::compare(CmpOp::Eq, found, fold::constant(u64::from(tag.0), Ty::uint(64)))
    }
}

/// The fields of a `data_t`.
pub(crate) const DATA_FIELDS: &[(&str, usize, Ty)] = &[
    ("uid", offset_of!(Data, uid), Ty::Id),
    ("off", offset_of!(Data, off), Ty::Int { bits: 64, signed: false }),
    ("addr", offset_of!(Data, addr), Ty::Addr),
    ("len", offset_of!(Data, len), Ty::Int { bits: 32, signed: false }),
    (
        "seg_size",
        offset_of!(Data, seg_size),
        Ty::Int { bits: 32, signed: false },
    ),
];

/// Returns eight bytes of an address, starting at `from`, as a number in network order.
fn half(address: &Place, from: u32) -> Expr {
    let word = Ty::uint(64);
    let byte = |at| fold::cast(load(inside(address, from + at, Ty::uint(8))), &word);
    let shift = |value| fold::binary(BinOp::Shl, value, fold::constant(8, word.clone()), word.clone());
    (1..8).fold(byte(0), |above, at| {
        fold::binary(BinOp::Or, shift(above), byte(at), word.clone())
    })
}

fn data_field(name: &str) -> Option<(u32, Ty)> {
    let (_, offset, ty) = DATA_FIELDS.iter().find(|(known, ..)| *known == name)?;
    Some((*offset as u32, ty.clone()))
}

/// The members of a parser's packet.
pub(crate) fn packet_members() -> Vec<Member> {
    vec![
        member("len", DefKind::Field, "uint32"),
        member("extract", DefKind::Method, "extract(header)"),
    ]
}

/// Returns the `len` of a `data_t`.
pub(crate) fn data_len(place: &Place) -> Expr {
    load(inside(place, offset_of!(Data, len) as u32, Ty::uint(32)))
}

/// Returns the first id of an event.
pub(crate) fn first_id(event: &Place) -> Place {
    inside(event, offset_of!(EventHeader, id) as u32, Ty::Id)
}
