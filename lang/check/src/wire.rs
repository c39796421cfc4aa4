//! Wire formats: a record's form on the wire, derived from its fields in order.
//!
//! Blueprints, options and structures nested in them share one description, [`ir::Blueprint`], which is made
//! on first use.

use hawser_ir as ir;
use hawser_ir::{Base, Blueprint, BlueprintId, Fill, Ty, WireField};
use hawser_syntax::ast::{self, ExprKind, Ident, Span};

use crate::body::{Body, BodyKind, region};
use crate::codes;
use crate::state::{Checker, MAX_SIZE, MemberType, RecordKind};
use crate::types::is_little;

/// The maximum header length in bytes: a field of four bits counts at most 15 words of 4 bytes.
const MAX_HEADER_WORDS_LEN: u32 = 60;

/// A wire format while its fields are being read.
#[derive(Default)]
struct Format {
    header: Vec<WireField>,
    trailer: Vec<WireField>,
    options: Option<WireField>,
    options_len: u32,
    data_at: Option<u32>,
    /// The number of bits in the current, incomplete byte.
    bits: u32,
    fixed_len: u32,
    max_len: u32,
    has_header_words: bool,
    /// Bit position and width of fixed fields by name, to which a checksum's mask refers.
    spans: Vec<(String, u32, u32)>,
    /// Checksums, whose masks are resolved at the end.
    masks: Vec<(bool, usize, Vec<Ident>)>,
    failed: bool,
}

impl Format {
    fn push(&mut self, field: WireField) {
        if self.data_at.is_some() {
            self.trailer.push(field)
        } else {
            self.header.push(field)
        }
    }

    fn grow(&mut self, fixed: u32, max: u32) {
        if self.data_at.is_none() {
            self.fixed_len = self.fixed_len.saturating_add(fixed);
            self.max_len = self.max_len.saturating_add(max);
        }
    }
}

impl<'a> Checker<'a> {
    /// Resolves every blueprint of the program, and checks the program's declarations of the network header.
    pub(crate) fn wire_formats(&mut self) {
        for record in 0..self.records.len() {
            if self.records[record].kind == RecordKind::Blueprint {
                self.blueprint_of(record);
            }
        }
        self.check_net_headers();
    }

    /// Returns the wire format of a record, or `None` if it is wrong.
    pub(crate) fn blueprint_of(&mut self, record: usize) -> Option<BlueprintId> {
        if let Some(known) = self.records[record].blueprint {
            return (known != BlueprintId(u32::MAX)).then_some(known);
        }
        // The format is marked as broken until it is complete. A record that contains itself finds this mark.
        self.records[record].blueprint = Some(BlueprintId(u32::MAX));
        let blueprint = self.read_format(record)?;
        let id = BlueprintId(self.module.blueprints.len() as u32);
        self.module.blueprints.push(blueprint);
        self.records[record].blueprint = Some(id);
        Some(id)
    }

    fn read_format(&mut self, record: usize) -> Option<Blueprint> {
        let mut format = Format::default();
        let members = self.records[record].members.clone();
        for member in &members {
            let id = Checker::struct_of(record);
            let fields = &self.module.structs[id.0 as usize].fields;
            // A missing field has a wrong type, which has been reported.
            let memory = fields
                .iter()
                .find(|f| f.name == member.name.name)
                .map(|f| (f.offset, f.ty.clone()));
            match (member.field, member.ty, memory) {
                (Some(field), MemberType::Written(_), Some((offset, ty))) => {
                    self.wire_field(record, &mut format, field, offset, &ty);
                }
                _ => format.failed = true,
            }
        }
        let name_at = self.records[record].span;
        self.whole_bytes(&mut format, name_at);
        self.resolve_masks(record, &mut format);
        let is_crc =
            |field: &WireField| matches!(field, WireField::Bits { fill: Some(Fill::Crc32 { .. }), .. });
        if let Some(at) = format.trailer.iter().position(is_crc)
            && at + 1 < format.trailer.len()
        {
            self.error(
                codes::FILL,
                name_at,
                "a trailer has fields after its `crc32_t`",
                "expected the `crc32_t` last: it covers all preceding bytes",
            );
            format.failed = true;
        }
        self.note_wire(record, &format.spans);
        if format.max_len > MAX_SIZE as u32 {
            self.too_large(name_at);
            return None;
        }
        if let Some(options) = format.options.take() {
            let room = if format.has_header_words {
                MAX_HEADER_WORDS_LEN.saturating_sub(format.fixed_len)
            } else {
                format.options_len
            };
            format.max_len = format.max_len.saturating_add(room);
            format.header.push(options);
        }
        if format.has_header_words && (format.fixed_len % 4 != 0 || format.fixed_len > MAX_HEADER_WORDS_LEN) {
            self.error(
                codes::HEADER_LENGTH,
                name_at,
                format!(
                    "a header of {} bytes cannot state its length in 4-byte words",
                    format.fixed_len
                ),
                format!("expected a multiple of 4, at most {MAX_HEADER_WORDS_LEN}"),
            );
            return None;
        }
        (!format.failed).then(|| Blueprint {
            name: self.records[record].name.clone(),
            body: Checker::struct_of(record),
            header: format.header,
            data_at: format.data_at,
            trailer: format.trailer,
            fixed_len: format.fixed_len,
            max_len: format.max_len,
        })
    }

    fn wire_field(
        &mut self,
        record: usize,
        format: &mut Format,
        field: &'a ast::Field,
        offset: u32,
        ty: &Ty,
    ) {
        self.check_modifiers(format, field, ty);
        match ty {
            Ty::Bool | Ty::Int { .. } | Ty::Enum { .. } | Ty::Seq { .. } => {
                self.bits_field(record, format, field, offset, ty)
            }
            Ty::Varint => {
                self.whole_bytes(format, field.span);
                self.no_fill(field);
                format.push(WireField::Varint { name: field.name.name.clone(), offset });
                format.grow(1, 8);
            }
            Ty::Bytes { len } if field.count.is_some() => {
                self.opaque_field(record, format, field, offset, *len);
            }
            Ty::Ip | Ty::Bytes { .. } => {
                self.whole_bytes(format, field.span);
                self.no_fill(field);
                let len = self.layout().size(ty);
                format.push(WireField::Bytes { name: field.name.name.clone(), offset, len });
                format.grow(len, len);
            }
            Ty::Data => {
                self.whole_bytes(format, field.span);
                self.no_fill(field);
                if format.data_at.is_some() {
                    self.error(
                        codes::WIRE_TWICE,
                        field.span,
                        "this packet has a second `data_t`",
                        "a packet carries one payload",
                    );
                }
                format.data_at.get_or_insert(offset);
            }
            Ty::Struct(id) => self.nested_field(record, format, field, offset, *id),
            Ty::List { elem, cap } => self.repeated_field(record, format, field, offset, elem, *cap),
            Ty::Options { list, cap } => {
                self.whole_bytes(format, field.span);
                if format.options.is_some() {
                    self.error(
                        codes::WIRE_TWICE,
                        field.span,
                        "this header has a second option \
                             list",
                        "a header ends with one option list",
                    );
                }
                match self.fill_option_list(*list, record, field.span) {
                    Some(max_len) => {
                        format.options_len = max_len.saturating_mul(*cap).saturating_add(3);
                        format.options = Some(WireField::Options { list: *list, offset, cap: *cap });
                    }
                    None => format.failed = true,
                }
            }
            Ty::Duration
            | Ty::Time
            | Ty::Id
            | Ty::Addr
            | Ty::Timer
            | Ty::Array { .. }
            | Ty::Sorted { .. }
            | Ty::Window { .. } => {
                let found = self.show(ty);
                self.error(
                    codes::WIRE_FIELD,
                    field.ty.span,
                    format!("{found} cannot be sent in a packet"),
                    "expected `uintN`, `seq<W>`, `bytes<N>`, a struct, …",
                );
                format.failed = true;
            }
        }
    }

    /// Checks that `when`, `count` and `over` stand only at fields of the kind to which each applies.
    fn check_modifiers(&mut self, format: &mut Format, field: &ast::Field, ty: &Ty) {
        if field.when.is_some() && !matches!(ty, Ty::Struct(_)) {
            self.error_hint(
                codes::WIRE_FIELD,
                field.span,
                "`when` is not allowed on a single field",
                "a header is present or absent as a whole",
                "put the field into a `pkt_bp` of its own, and nest it here",
            );
            format.failed = true;
        }
        if field.count.is_some() && !matches!(ty, Ty::List { .. } | Ty::Bytes { .. }) {
            self.error(
                codes::WIRE_FIELD,
                field.span,
                "`count` is allowed on lists and bytes only",
                "expected a `list<T, N>` or `bytes<N>`",
            );
            format.failed = true;
        }
        if field.over.is_some() && !matches!(field.ty.name.name.as_str(), "checksum16_t" | "crc32_t") {
            self.error(
                codes::WIRE_FIELD,
                field.span,
                "`over` is allowed on checksums only",
                "expected `checksum16_t` or `crc32_t`",
            );
        }
    }

    fn no_fill(&mut self, field: &ast::Field) {
        if let Some(init) = &field.init {
            self.error(
                codes::FILL,
                init.span,
                "a fill is allowed on numbers of fixed width only",
                "expected `uintN`, `bool` or `seq<W>`",
            );
        }
    }

    fn bits_field(
        &mut self,
        record: usize,
        format: &mut Format,
        field: &'a ast::Field,
        offset: u32,
        ty: &Ty,
    ) {
        let name = field.name.name.clone();
        let little = is_little(&field.ty.name.name);
        if little {
            self.whole_bytes(format, field.span);
        }
        let (bits, fill) = match field.ty.name.name.as_str() {
            "hdrlen4_t" => {
                if format.has_header_words {
                    self.error(
                        codes::WIRE_TWICE,
                        field.span,
                        "this header has a second header \
                             length",
                        "a header has one header length",
                    );
                }
                format.has_header_words = true;
                (4, Some(Fill::HeaderWords))
            }
            "checksum16_t" => {
                let (pseudo, mask) = self.covered(field, "pseudo", true);
                if !mask.is_empty() {
                    self.error(
                        codes::FILL,
                        mask[0].span,
                        "an Internet checksum cannot have a \
                             mask",
                        "only `crc32_t` masks fields",
                    );
                }
                (16, Some(Fill::Checksum16 { pseudo }))
            }
            "crc32_t" => {
                let (invariant, mask) = self.covered(field, "invariant", false);
                let in_trailer = format.data_at.is_some();
                let at = if in_trailer {
                    format.trailer.len()
                } else {
                    format.header.len()
                };
                format.masks.push((in_trailer, at, mask));
                let masked = Vec::new();
                (32, Some(Fill::Crc32 { masked, invariant }))
            }
            _ => {
                // A struct's initial values count as well, as far as they are constant.
                let computed = |(_, value): &(usize, &ast::Expr)| field.init.as_ref() == Some(*value);
                let in_memory_only = self.records[record].computed.iter().any(computed);
                let init = field.init.as_ref().filter(|_| !in_memory_only);
                let fill = init.map(|init| Fill::Value(self.wire_expr(record, init, ty)));
                (ty.width().map_or(8, |(bits, _)| bits), fill)
            }
        };
        if !matches!(fill, None | Some(Fill::Value(_))) {
            self.no_fill(field);
        }
        let width = u32::from(bits);
        if format.data_at.is_none() {
            format
                .spans
                .push((name.clone(), format.fixed_len * 8 + format.bits, width));
        }
        format.push(WireField::Bits { name, offset, ty: ty.clone(), bits, little, fill });
        let total = format.bits + width;
        format.bits = total % 8;
        format.grow(total / 8, total / 8);
    }

    /// Lowers an expression over the blueprint's fields and the packet's lengths.
    pub(crate) fn wire_expr(&mut self, record: usize, e: &'a ast::Expr, ty: &Ty) -> ir::Expr {
        let this = region(Base::Blueprint, Ty::Struct(Checker::struct_of(record)));
        Body::over(self, BodyKind::Wire, this).expr_as(e, ty)
    }

    /// Returns the range that a checksum covers. The flag is true if it also covers `beside`, the name of an
    /// additional range. The list has the masked fields.
    fn covered(&mut self, field: &'a ast::Field, beside: &str, by_default: bool) -> (bool, Vec<Ident>) {
        let Some(terms) = &field.over else {
            return (by_default, Vec::new());
        };
        let mut covers_more = false;
        let mut this = false;
        let mut mask = Vec::new();
        for term in terms {
            match term.name.name.as_str() {
                "this" => this = true,
                name if name == beside => covers_more = true,
                _ => self.error(
                    codes::FILL,
                    term.name.span,
                    format!("`{}` is not covered", term.name.name),
                    format!("expected `{beside}` or `this`"),
                ),
            }
            mask.extend(term.mask.iter().cloned());
        }
        if !this {
            self.error(
                codes::FILL,
                field.span,
                "this checksum does not cover its packet",
                format!("expected `over (this)` or `over ({beside}, this)`"),
            );
        }
        (covers_more, mask)
    }

    fn resolve_masks(&mut self, record: usize, format: &mut Format) {
        for (in_trailer, at, names) in std::mem::take(&mut format.masks) {
            let mut spans = Vec::new();
            for name in &names {
                self.note_field(Checker::struct_of(record), name);
                if let Some((_, start, bits)) = format.spans.iter().find(|(field, ..)| *field == name.name) {
                    spans.push((*start, *bits));
                } else {
                    let known: Vec<&str> = format.spans.iter().map(|(field, ..)| field.as_str()).collect();
                    let hint = self.nearest_member(&name.name, known);
                    self.unknown(name, "a field of this header", hint);
                }
            }
            let fields = if in_trailer {
                &mut format.trailer
            } else {
                &mut format.header
            };
            if let Some(WireField::Bits { fill: Some(Fill::Crc32 { masked, .. }), .. }) = fields.get_mut(at) {
                *masked = spans;
            }
        }
    }

    fn nested_field(
        &mut self,
        record: usize,
        format: &mut Format,
        field: &'a ast::Field,
        offset: u32,
        id: ir::StructId,
    ) {
        self.whole_bytes(format, field.span);
        self.no_fill(field);
        let Some(blueprint) = self.record_of(id).and_then(|inner| self.blueprint_of(inner)) else {
            format.failed = true;
            return;
        };
        let inner = &self.module.blueprints[blueprint.0 as usize];
        let (fixed, max, carries) = (inner.fixed_len, inner.max_len, inner.data_at.is_some());
        if carries {
            self.error_hint(
                codes::WIRE_FIELD,
                field.span,
                "a nested header cannot have a payload of its own",
                "only options and frames may contain a `data_t`",
                "move the `data_t` to the outer blueprint",
            );
        }
        let when = field.when.as_ref().map(|when| {
            let this = region(Base::Blueprint, Ty::Struct(Checker::struct_of(record)));
            Body::over(self, BodyKind::Wire, this).condition(when)
        });
        format.grow(if when.is_some() { 0 } else { fixed }, max);
        format.push(WireField::Nested { blueprint, offset, when });
    }

    fn repeated_field(
        &mut self,
        record: usize,
        format: &mut Format,
        field: &'a ast::Field,
        offset: u32,
        elem: &Ty,
        cap: u32,
    ) {
        self.whole_bytes(format, field.span);
        self.no_fill(field);
        let Ty::Struct(id) = elem else {
            let found = self.show(elem);
            self.error_hint(
                codes::WIRE_FIELD,
                field.ty.span,
                format!("a list of {found} cannot be sent in a packet"),
                "expected a list of structures",
                "put the number into a `struct` with one field",
            );
            format.failed = true;
            return;
        };
        let blueprint = self.record_of(*id).and_then(|inner| self.blueprint_of(inner));
        let count = self.counting_field(record, field);
        let (Some((count_at, count_ty)), Some(blueprint)) = (count, blueprint) else {
            format.failed = true;
            return;
        };
        let stride = self.layout().stride(elem);
        let max = self.module.blueprints[blueprint.0 as usize]
            .max_len
            .saturating_mul(cap);
        format.grow(0, max);
        format.push(WireField::Repeat { blueprint, offset, cap, stride, count_at, count_ty });
    }

    /// `bytes<N> name count(field);`
    fn opaque_field(
        &mut self,
        record: usize,
        format: &mut Format,
        field: &'a ast::Field,
        offset: u32,
        cap: u32,
    ) {
        self.whole_bytes(format, field.span);
        self.no_fill(field);
        let Some((count_at, count_ty)) = self.counting_field(record, field) else {
            format.failed = true;
            return;
        };
        let in_header =
            |field: &WireField| matches!(field, WireField::Bits { offset, .. } if *offset == count_at);
        if format.data_at.is_some() && !format.header.iter().any(in_header) {
            self.error_hint(
                codes::WIRE_FIELD,
                field.span,
                "a field after the payload counts bytes there",
                "expected a count of fixed width before the `data_t`",
                "the parser finds the end of the payload from the packet's end",
            );
            format.failed = true;
            return;
        }
        format.grow(0, cap);
        format.push(WireField::Opaque { name: field.name.name.clone(), offset, cap, count_at, count_ty });
    }

    /// Returns the place and the type of the field that counts the contents of this one.
    fn counting_field(&mut self, record: usize, field: &ast::Field) -> Option<(u32, Ty)> {
        let count = match field.count.as_ref().map(|e| &e.kind) {
            Some(ExprKind::Name(name)) => name,
            Some(ExprKind::Error) => return None,
            Some(_) | None => {
                self.error(
                    codes::WIRE_FIELD,
                    field.span,
                    "this list has no count",
                    "expected `count(field)`, naming an earlier field",
                );
                return None;
            }
        };
        self.note_field(Checker::struct_of(record), count);
        // The field must come earlier on the wire, regardless of the order in memory.
        let members = &self.records[record].members;
        let before = members
            .iter()
            .take_while(|member| member.name.name != field.name.name);
        let is_before = before.into_iter().any(|member| member.name.name == count.name);
        let fields = &self.module.structs[Checker::struct_of(record).0 as usize].fields;
        let counting = fields.iter().find(|f| f.name == count.name && is_before);
        let is_number = |ty: &Ty| matches!(ty, Ty::Int { signed: false, .. } | Ty::Varint);
        match counting.filter(|f| is_number(&f.ty)) {
            Some(counting) => Some((counting.offset, counting.ty.clone())),
            None => {
                self.error(
                    codes::WIRE_FIELD,
                    count.span,
                    format!("`{}` cannot be the count of this field", count.name),
                    "expected an unsigned field before it",
                );
                None
            }
        }
    }

    /// Reports a field of whole bytes that does not begin at a byte boundary.
    fn whole_bytes(&mut self, format: &mut Format, at: Span) {
        if format.bits != 0 {
            self.error_hint(
                codes::NOT_WHOLE_BYTES,
                at,
                "the fields before this one end inside a byte",
                format!("{} bits are missing", 8 - format.bits),
                format!("add a field `uint{} reserved;`", 8 - format.bits),
            );
            format.bits = 0;
            format.failed = true;
        }
    }
}
