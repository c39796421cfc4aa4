//! Memory layout of events, contexts, blueprints and structures.
//!
//! Offsets come from [`hawser_ir::Layout`] alone, so that every reader agrees. Records are laid out on
//! demand, because a field's type may be a record that is declared later.

use std::collections::HashMap;
use std::mem::offset_of;

use hawser_ir::abi::{ContextHeader, EventHeader, Icmp, Net, Op};
use hawser_ir::{AccessRights, Field, OptList, OptListId, Struct, Ty};
use hawser_syntax::ast::{self, Ident, Span, TypeArg};

use crate::codes;
use crate::names::Def;
use crate::state::{
    Checker, DeclProgress, MAX_DEPTH, MAX_SIZE, MemberDecl, MemberType, OptListUse, RecordKind,
};
use crate::types::{Type, is_wire_only};

/// True if a record can be a header on the wire.
fn is_wire(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Blueprint | RecordKind::Opt | RecordKind::Struct)
}

impl<'a> Checker<'a> {
    pub(crate) fn lay_out_memory(&mut self) {
        for record in 0..self.records.len() {
            let at = self.records[record].span;
            self.lay_out(record, at);
        }
    }

    /// Lays out one record, which is needed at `at`. Returns false if the record contains itself.
    pub(crate) fn lay_out(&mut self, record: usize, at: Span) -> bool {
        match self.records[record].progress {
            DeclProgress::Ready => return true,
            DeclProgress::Waiting if self.depth < MAX_DEPTH => {}
            DeclProgress::Waiting | DeclProgress::Active => {
                let name = self.records[record].name.clone();
                self.error_hint(
                    codes::RECURSIVE_TYPE,
                    at,
                    format!("`{name}` contains itself, or nests too deeply"),
                    "expected a type of finite size",
                    "keep an id or an index instead of the value",
                );
                return false;
            }
        }
        self.records[record].progress = DeclProgress::Active;
        self.depth += 1;
        self.lay_out_fields(record);
        self.depth -= 1;
        self.records[record].progress = DeclProgress::Ready;
        true
    }

    fn lay_out_fields(&mut self, record: usize) {
        let members = std::mem::take(&mut self.records[record].members);
        let kind = self.records[record].kind;
        let mut fields: Vec<Field> = Vec::new();
        let mut computed = Vec::new();
        let mut timers: Vec<(usize, &'a Ident)> = Vec::new();
        let mut total = 0;
        let mut numbers: HashMap<&'a str, usize> = HashMap::new();
        for member in &members {
            let taken = numbers.contains_key(member.name.name.as_str());
            self.check_member_name(kind, member.name, taken);
            let Some(ty) = self.member_type(kind, member) else {
                continue;
            };
            total += u64::from(self.layout().size(&ty)) + 8;
            if total > MAX_SIZE {
                self.too_large(member.name.span);
                break;
            }
            let mut default = None;
            if let Some(init) = member.field.and_then(|f| f.init.as_ref()) {
                let is_wire_format = matches!(kind, RecordKind::Blueprint | RecordKind::Opt);
                if is_wire_format && !ty.is_scalar() {
                    // Not a fill; the wire format decides that.
                } else if self.is_constant(init, &members) {
                    default = self.constant_default(init, &ty);
                } else if !is_wire_format {
                    computed.push((fields.len(), init));
                }
            }
            if let MemberType::Timer(Some(event)) = member.ty {
                timers.push((fields.len(), event));
            }
            let access = member
                .field
                .map_or(AccessRights::default(), |f| self.access(f, &ty));
            if let (Some(range), Some(default)) = (access.modifiable, default) {
                self.check_default_range(range, default, &ty, member.name.span);
            }
            numbers.entry(&member.name.name).or_insert(fields.len());
            fields.push(Field { name: member.name.name.clone(), ty, offset: 0, default, access });
        }
        let header = match kind {
            RecordKind::Event(..) => size_of::<EventHeader>(),
            RecordKind::Context(_) => size_of::<ContextHeader>(),
            RecordKind::Struct
            | RecordKind::Scratchpad
            | RecordKind::Signal(_)
            | RecordKind::Opt
            | RecordKind::Blueprint => 0,
        };
        let header = header as u32;
        let size = match kind {
            RecordKind::Struct => self.layout().place_part(&mut fields),
            RecordKind::Context(_) | RecordKind::Scratchpad => {
                self.layout().place_closely(header, &mut fields)
            }
            RecordKind::Event(..) | RecordKind::Signal(_) | RecordKind::Opt | RecordKind::Blueprint => {
                self.layout().place(header, &mut fields)
            }
        };
        self.register_timers(kind, &fields, &timers);
        let id = Checker::struct_of(record).0 as usize;
        self.module.structs[id].fields = fields;
        self.module.structs[id].size = size;
        self.records[record].members = members;
        self.records[record].computed = computed;
        self.records[record].numbers = numbers;
    }

    fn check_member_name(&mut self, kind: RecordKind, name: &Ident, is_taken: bool) {
        let taken = match kind {
            RecordKind::Context(_) => &["self"][..],
            RecordKind::Event(..) => &["now", "rand", "hash", "self"],
            RecordKind::Struct
            | RecordKind::Scratchpad
            | RecordKind::Signal(_)
            | RecordKind::Opt
            | RecordKind::Blueprint => &[],
        };
        if taken.contains(&name.name.as_str()) {
            self.error_hint(
                codes::RESERVED_NAME,
                name.span,
                format!("`{}` is a built-in field", name.name),
                "every event has `now`, `rand` and `hash`; every context has `self`",
                "choose another name",
            );
        } else if is_taken {
            self.error_hint(
                codes::DEFINED_TWICE,
                name.span,
                format!("the field `{}` is declared twice", name.name),
                "expected a name that is free here",
                "rename one of them",
            );
        }
    }

    fn member_type(&mut self, kind: RecordKind, member: &MemberDecl<'a>) -> Option<Ty> {
        match member.ty {
            MemberType::Timer(event) => self.timer_type(kind, member.name, event),
            MemberType::Part(name) => self.part_type(name),
            MemberType::Written(ty) => {
                if let (Some(field), false) = (member.field, is_wire(kind)) {
                    self.no_wire_words(field);
                }
                if ty.name.name == "timer_t" && matches!(kind, RecordKind::Context(_)) {
                    return self.timer_type(kind, member.name, None);
                }
                if let Some(Def::OptList(list)) = self.lookup(&ty.name) {
                    return self.options_type(kind, list, ty.span);
                }
                let name = ty.name.name.as_str();
                if (is_wire_only(name) || name == "data_t") && !is_wire(kind) {
                    self.only_on_the_wire(ty.span);
                    return None;
                }
                let resolved = self.resolve_field(ty);
                self.storable(resolved, ty.span)
            }
        }
    }

    fn timer_type(&mut self, kind: RecordKind, name: &Ident, event: Option<&Ident>) -> Option<Ty> {
        if !matches!(kind, RecordKind::Context(_)) {
            self.error_hint(
                codes::TYPE_NOT_HERE,
                name.span,
                "a timer is allowed in contexts only",
                "expected a field of a context",
                "the timer's event carries the context to which the timer belongs",
            );
            return None;
        }
        if event.is_none() {
            self.error(
                codes::TIMER_EVENT,
                name.span,
                format!("the timer `{}` raises no event", name.name),
                format!("expected `timer_t {} -> some_event;`", name.name),
            );
        }
        Some(Ty::Timer)
    }

    fn register_timers(&mut self, kind: RecordKind, fields: &[Field], timers: &[(usize, &'a Ident)]) {
        let RecordKind::Context(context) = kind else {
            return;
        };
        for (field, event) in timers {
            let event_kind = match self.lookup(event) {
                Some(Def::Record(record)) => Some(self.records[record].kind),
                _ => None,
            };
            match event_kind {
                Some(RecordKind::Event(index, hawser_ir::EventKind::Timer)) => {
                    self.module.contexts[context as usize]
                        .timers
                        .push(hawser_ir::Timer {
                            name: fields[*field].name.clone(),
                            offset: fields[*field].offset,
                            event: hawser_ir::EventId(index),
                        });
                }
                Some(_) => self.error_hint(
                    codes::TIMER_EVENT,
                    event.span,
                    format!("`{}` is not the event of a timer", event.name),
                    "expected an event of kind TIMER_EVENT",
                    format!("declare it as `event {} : TIMER_EVENT {{ }}`", event.name),
                ),
                None => {
                    let is_record = |def| matches!(def, Def::Record(_));
                    let hint = self.suggestion(event, is_record, []);
                    self.unknown(event, "an event of kind TIMER_EVENT", hint);
                }
            }
        }
    }

    fn part_type(&mut self, name: &'a Ident) -> Option<Ty> {
        match self.named_type(name) {
            Type::Error => None,
            Type::Value(Ty::Struct(id))
                if self
                    .record_of(id)
                    .is_some_and(|r| self.records[r].kind == RecordKind::Struct) =>
            {
                Some(Ty::Struct(id))
            }
            _ => {
                self.error(
                    codes::TYPE_NOT_HERE,
                    name.span,
                    "a part must be a struct",
                    "expected a `struct`",
                );
                None
            }
        }
    }

    /// Reports `when`, `count` and `over`, which describe wire formats.
    fn no_wire_words(&mut self, field: &ast::Field) {
        let word = if field.when.is_some() {
            "when"
        } else if field.count.is_some() {
            "count"
        } else if field.over.is_some() {
            "over"
        } else {
            return;
        };
        self.error(
            codes::WIRE_FIELD,
            field.span,
            format!("`{word}` is allowed on fields of packets only"),
            "allowed in blueprints, options and structs nested in them",
        );
    }

    /// A blueprint's field whose type is an option list makes a list of its own.
    fn options_type(&mut self, kind: RecordKind, decl: usize, at: Span) -> Option<Ty> {
        if kind != RecordKind::Blueprint {
            self.error(
                codes::TYPE_NOT_HERE,
                at,
                "an option list is allowed in a `pkt_bp` only",
                "expected a type of values",
            );
            return None;
        }
        let (union, cap) = self.option_list_field(decl)?;
        let records = self.union_records(union)?;
        let largest = records
            .iter()
            .map(|r| self.module.structs[Checker::struct_of(*r).0 as usize].size)
            .max();
        let id = OptListId(self.member_size.len() as u32);
        self.member_size.push(largest.unwrap_or(0));
        let name = self.opt_lists[decl].name.name.clone();
        self.module.opt_lists.push(OptList {
            name,
            members: Vec::new(),
            len: None,
            select_bits: 8,
            unknown_len_at: None,
            pad: 0,
        });
        self.opt_list_uses.push(OptListUse { decl, union: Some(union) });
        let stride = u64::from(self.layout().option_stride(id));
        if !(1..=MAX_SIZE / stride.max(1)).contains(&u64::from(cap)) {
            self.too_large(at);
            return None;
        }
        Some(Ty::Options { list: id, cap })
    }

    /// Returns the union and N of an option list's `list<union, N>`.
    fn option_list_field(&mut self, decl: usize) -> Option<(usize, u32)> {
        let fields = self.opt_lists[decl].fields;
        let name = self.opt_lists[decl].name;
        let Some(list) = fields.iter().find(|f| f.ty.name.name == "list") else {
            self.error(
                codes::OPTION_LIST,
                name.span,
                "this option list has no field for its \
                     options",
                "expected a field `list<some_union, N> opts;`",
            );
            return None;
        };
        let [TypeArg::Type(union), cap] = &list.ty.args[..] else {
            self.type_error_list_bound(list.ty.span);
            return None;
        };
        let cap = self.constant_argument(cap)?;
        match self.lookup(&union.name) {
            Some(Def::Union(index)) => Some((index, u32::try_from(cap).unwrap_or(u32::MAX))),
            _ => {
                let hint = self.suggestion(&union.name, |def| matches!(def, Def::Union(_)), []);
                self.unknown(&union.name, "an `opt_union`", hint);
                None
            }
        }
    }

    fn type_error_list_bound(&mut self, at: Span) {
        self.error(
            codes::TYPE_ARGUMENTS,
            at,
            "wrong arguments for `list`",
            "expected `list<T, N>`: a list states the maximum number of elements that it holds",
        );
    }

    /// Returns the records of a union's members, laid out.
    pub(crate) fn union_records(&mut self, union: usize) -> Option<Vec<usize>> {
        if let Some(records) = &self.unions[union].records {
            return Some(records.clone());
        }
        let mut records = Vec::new();
        for member in self.unions[union].members {
            match self.lookup(member) {
                Some(Def::Record(record)) if self.records[record].kind == RecordKind::Opt => {
                    if self.lay_out(record, member.span) {
                        records.push(record);
                    }
                }
                _ => {
                    let opts = self.records.iter().filter(|r| r.kind == RecordKind::Opt);
                    let hint = self.nearest_member(&member.name, opts.map(|r| r.name.as_str()));
                    self.unknown(member, "an `opt_t`", hint);
                }
            }
        }
        let complete = records.len() == self.unions[union].members.len();
        if records.is_empty() && complete {
            let name = self.unions[union].name;
            self.error(
                codes::OPTION_LIST,
                name.span,
                "this option union has no members",
                "expected at least one `opt_t`",
            );
        }
        if !complete || records.is_empty() {
            return None;
        }
        self.unions[union].records = Some(records.clone());
        Some(records)
    }

    fn access(&mut self, field: &'a ast::Field, ty: &Ty) -> AccessRights {
        let mut access = AccessRights { observable: field.access.observable, modifiable: None };
        if let Some((min, max)) = &field.access.modifiable {
            access.observable = true;
            if !ty.is_scalar() {
                self.error(
                    codes::ACCESS,
                    field.span,
                    "a modifiable field must be a number",
                    "expected a scalar type",
                );
                return access;
            }
            let (low, high) = (self.constant_expr(min, ty), self.constant_expr(max, ty));
            if let (Some(low), Some(high)) = (low, high) {
                let signed = ty.width().is_some_and(|(_, signed)| signed);
                if if signed {
                    low as i64 > high as i64
                } else {
                    low > high
                } {
                    self.error(
                        codes::ACCESS,
                        min.span,
                        "this range is empty",
                        "expected `modifiable(min, max)` with min not above max",
                    );
                }
                access.modifiable = Some((low, high));
            }
        }
        access
    }
}

/// Returns the structures that every program has, at the offsets of the record ABI.
pub(crate) fn builtin_structs() -> Vec<Struct> {
    fn field(name: &str, ty: Ty, offset: usize) -> Field {
        Field {
            name: name.to_owned(),
            ty,
            offset: offset as u32,
            default: None,
            access: AccessRights::default(),
        }
    }
    let (u8_, u16_, u32_, u64_) = (Ty::uint(8), Ty::uint(16), Ty::uint(32), Ty::uint(64));
    let event = vec![
        field("now", Ty::Time, offset_of!(EventHeader, now)),
        field("rand", u64_.clone(), offset_of!(EventHeader, rand)),
        field("hash", u32_.clone(), offset_of!(EventHeader, hash)),
    ];
    let net = vec![
        field("src_ip", Ty::Ip, offset_of!(Net, src_ip)),
        field("dst_ip", Ty::Ip, offset_of!(Net, dst_ip)),
        field("tot_len", u32_.clone(), offset_of!(Net, tot_len)),
        field("flow_label", u32_.clone(), offset_of!(Net, flow_label)),
        field("hdr_len", u16_.clone(), offset_of!(Net, hdr_len)),
        field("segs", u16_.clone(), offset_of!(Net, segs)),
        field("seg_size", u16_.clone(), offset_of!(Net, seg_size)),
        field("protocol", u8_.clone(), offset_of!(Net, protocol)),
        field("ttl", u8_.clone(), offset_of!(Net, ttl)),
        field("ecn", u8_.clone(), offset_of!(Net, ecn)),
        field("dscp", u8_.clone(), offset_of!(Net, dscp)),
        field("prio", u8_.clone(), offset_of!(Net, prio)),
        field("version", u8_.clone(), offset_of!(Net, version)),
        field("path_mtu", u32_.clone(), offset_of!(Net, path_mtu)),
        field("src_port", u16_.clone(), offset_of!(Net, src_port)),
        field("dst_port", u16_.clone(), offset_of!(Net, dst_port)),
    ];
    let op = vec![
        field("self", Ty::Id, offset_of!(Op, self_id)),
        field("local_ip", Ty::Ip, offset_of!(Op, local_ip)),
        field("remote_ip", Ty::Ip, offset_of!(Op, remote_ip)),
        field("addr", Ty::Addr, offset_of!(Op, addr)),
        field("len", u64_.clone(), offset_of!(Op, len)),
        field("sub", u64_.clone(), offset_of!(Op, sub)),
        field("arg", u64_.clone(), offset_of!(Op, arg)),
        field("path_mtu", u32_.clone(), offset_of!(Op, path_mtu)),
        field("backlog", u32_.clone(), offset_of!(Op, backlog)),
        field("local_port", u16_.clone(), offset_of!(Op, local_port)),
        field("remote_port", u16_, offset_of!(Op, remote_port)),
        field("option", u32_.clone(), offset_of!(Op, option)),
        field("code", u32_.clone(), offset_of!(Op, code)),
        field("flags", u32_.clone(), offset_of!(Op, flags)),
        field("key", u32_.clone(), offset_of!(Op, key)),
        field("remote_key", u32_.clone(), offset_of!(Op, remote_key)),
        field("at", u64_.clone(), offset_of!(Op, at)),
        field("remote_at", u64_.clone(), offset_of!(Op, remote_at)),
        field("value", u64_.clone(), offset_of!(Op, value)),
        field("swap", u64_, offset_of!(Op, swap)),
        field("link_mtu", u32_.clone(), offset_of!(Op, link_mtu)),
        field("receive_limit", u32_.clone(), offset_of!(Op, receive_limit)),
    ];
    let icmp = vec![
        field("kind", u32_.clone(), offset_of!(Icmp, kind)),
        field("mtu", u32_, offset_of!(Icmp, mtu)),
        field("icmp_type", u8_.clone(), offset_of!(Icmp, icmp_type)),
        field("icmp_code", u8_, offset_of!(Icmp, icmp_code)),
    ];
    let structure =
        |name: &str, fields, size: usize| Struct { name: name.to_owned(), fields, size: size as u32 };
    vec![
        structure("event_t", event, size_of::<EventHeader>()),
        structure("IPheader", net, size_of::<Net>()),
        structure("op_t", op, size_of::<Op>()),
        structure("icmp_t", icmp, size_of::<Icmp>()),
    ]
}
