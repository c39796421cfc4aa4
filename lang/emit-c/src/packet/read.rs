//! `wire_read_X`: from bytes to fields. Every claim in a packet is checked against its actual contents.

use hawser_ir::{BlueprintId, Place, Ty, WireField};

use super::Image;
use super::format::{FLAGS, Fixed, Group, checksums, computed, flags, groups, header_words, options};
use crate::emitter::Emitter;
use crate::number::{compare, paren, wrap};
use crate::scope::Scope;

/// Ends, on a condition, a function that returns the reason why a packet is dropped.
pub(super) fn fail(s: &mut Scope, condition: &str, reason: &str) {
    s.out.open(&format!("if ({condition})"));
    s.out.line(&format!("return {reason};"));
    s.out.close("");
}

impl Emitter<'_> {
    /// Prints `wire_read_X`: reads a header and returns its length.
    pub(super) fn read_function(&mut self, id: BlueprintId, image: Image) {
        let mut s = self.wire_scope(id, image);
        let head = format!(
            "HW_PART uint32_t wire_read_{}{}(hw_run *run{}, const uint8_t *p, uint64_t len, uint64_t *used)",
            self.wire_name(id),
            image.suffix(),
            self.image_param(id, image, false)
        );
        s.out.open(&head);
        s.out.line("const hw_facts facts HW_UNUSED = {0, 0, 0};");
        s.out.line("uint64_t at = 0;");
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        for group in groups(&blueprint.header) {
            match group {
                Group::Run(fields, bytes) => {
                    fail(&mut s, &format!("len - at < {bytes}"), "HW_TRUNCATED");
                    self.read_run(&mut s, id, &fields, "p + at");
                    s.out.line(&format!("at += {bytes};"));
                }
                Group::Varying(field) => self.read_varying(&mut s, id, image, field),
            }
        }
        self.read_end(&mut s, id, image);
        s.out.line("return 0;");
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Reads the field that determines the header's length, and the options up to that length.
    fn read_end(&mut self, s: &mut Scope, id: BlueprintId, image: Image) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let words = header_words(blueprint).map(|field| field.offset);
        if let Some(offset) = words {
            let words = self.load(s, &self.wire_place(id, offset));
            s.out
                .line(&format!("const uint64_t end = (uint64_t){} * 4;", paren(&words)));
            fail(s, "end < at || end > len", "HW_LENGTH");
        }
        let limit = if words.is_some() { "end" } else { "len" };
        let Some((list, offset, cap)) = options(blueprint) else {
            s.out.line(&format!(
                "*used = {};",
                if words.is_some() { "end" } else { "at" }
            ));
            return;
        };
        let area_end = match &self.module.opt_list(list).len {
            None => limit.to_owned(),
            Some(len) => {
                let len = self.expr(s, len);
                s.out
                    .line(&format!("const uint64_t area = at + (uint64_t){};", paren(&len)));
                fail(s, &format!("area < at || area > {limit}"), "HW_LENGTH");
                "area".to_owned()
            }
        };
        let place = self.wire_place(id, offset);
        let argument = self.inner_image(s, &place);
        s.out.line(&format!(
            "const uint32_t error = {}(run{argument}, p + at, {area_end} - at);",
            self.options_reader(list, cap, image)
        ));
        fail(s, "error", "error");
        s.out.line(&format!(
            "*used = {};",
            if words.is_some() { "end" } else { area_end.as_str() }
        ));
    }

    /// Reads fields of fixed length, whose presence has been checked.
    pub(super) fn read_run(&mut self, s: &mut Scope, id: BlueprintId, fields: &[Fixed<'_>], from: &str) {
        let mut rest = fields;
        while let [Fixed { field, at, bits }, after @ ..] = rest {
            rest = after;
            if let Some(offset) = flags(&fields[fields.len() - after.len() - 1..])
                && s.blueprint.is_some()
            {
                let first = self.target(s, &self.wire_place(id, offset)).at.address();
                s.out
                    .line(&format!("hw_set_flags({first}, ({from})[{}]);", at / 8));
                rest = &after[FLAGS - 1..];
                continue;
            }
            if !self.sparse.needs(id, field) {
                continue;
            }
            match field {
                WireField::Bits { offset, ty, little, .. } => {
                    let place = Place { ty: ty.clone(), ..self.wire_place(id, *offset) };
                    let raw = bits_at(from, *at, *bits);
                    let value = match little {
                        true => wrap(&format!("hw_swapped({raw}, {bits})"), ty),
                        false => wrap(&raw, ty),
                    };
                    self.store(s, &place, &value);
                }
                WireField::Bytes { offset, len, .. } => {
                    let place = self.wire_place(id, *offset);
                    let target = self.target(s, &place);
                    let line = format!(
                        "memcpy({}, {}, {len});",
                        target.at.address(),
                        byte_at(from, at.div_ceil(8))
                    );
                    self.guarded(s, &target, |s| s.out.line(&line));
                }
                WireField::Varint { .. }
                | WireField::Opaque { .. }
                | WireField::Nested { .. }
                | WireField::Options { .. }
                | WireField::Repeat { .. } => debug_assert!(field.fixed_bits().is_some()),
            }
        }
    }

    /// Reads a field of varying length at `at`.
    pub(super) fn read_varying(&mut self, s: &mut Scope, id: BlueprintId, image: Image, field: &WireField) {
        match field {
            WireField::Varint { offset, .. } => {
                s.out.open("");
                s.out.line("uint64_t value;");
                fail(s, "!hw_varint_get(p, len, &at, &value)", "HW_TRUNCATED");
                let place = self.wire_place(id, *offset);
                self.store(s, &place, "value");
                s.out.close("");
            }
            WireField::Opaque { offset, cap, count_at, count_ty, .. } => {
                self.open_counted(s, id, (*count_at, count_ty), u64::from(*cap));
                fail(s, "count > len - at", "HW_TRUNCATED");
                if s.blueprint.is_some() && self.sparse.needs(id, field) {
                    let bytes = self.wire_place(id, *offset);
                    let to = self.target(s, &bytes).at.address();
                    s.out.line(&format!("memcpy({to}, p + at, count);"));
                }
                s.out.line("at += count;");
                s.out.close("");
            }
            WireField::Nested { blueprint, offset, when } => {
                let condition = when.as_ref().map_or(String::new(), |when| self.expr(s, when));
                s.out.open(&if when.is_some() {
                    format!("if ({condition})")
                } else {
                    String::new()
                });
                let place = self.wire_place(id, *offset);
                let argument = self.inner_image(s, &place);
                self.call_nested(s, *blueprint, image, &argument);
                s.out.close("");
            }
            WireField::Repeat { blueprint, offset, cap, count_at, count_ty, .. } => {
                self.open_counted(s, id, (*count_at, count_ty), u64::from(*cap));
                let list = self.wire_place(id, *offset);
                let list = s.blueprint.is_some().then(|| self.target(s, &list).at);
                s.out
                    .open("for (uint64_t i = HW_ZERO; HW_MORE(i < count); HW_NEXT(i))");
                let element = list.as_ref().map(|list| list.member("items[i]").address());
                let argument = element.map_or(String::new(), |element| format!(", {element}"));
                self.call_nested(s, *blueprint, image, &argument);
                s.out.close("");
                if let Some(list) = list {
                    s.out
                        .line(&format!("{} = (uint32_t)count;", list.member("len").lvalue()));
                }
                s.out.close("");
            }
            WireField::Bits { .. } | WireField::Bytes { .. } | WireField::Options { .. } => {}
        }
    }

    /// Opens a block in which `count` is the value of a count field, at most `cap`.
    fn open_counted(&mut self, s: &mut Scope, id: BlueprintId, (at, ty): (u32, &Ty), cap: u64) {
        let place = Place { ty: ty.clone(), ..self.wire_place(id, at) };
        let count = self.load(s, &place);
        s.out.open("");
        s.out
            .line(&format!("const uint64_t count = (uint64_t){};", paren(&count)));
        fail(s, &format!("count > {cap}"), "HW_FRAME");
    }

    fn call_nested(&mut self, s: &mut Scope, id: BlueprintId, image: Image, argument: &str) {
        s.out.line("uint64_t n;");
        let name = format!("wire_nested_{}{}", self.wire_name(id), image.suffix());
        s.out.line(&format!(
            "const uint32_t error = {name}(run{argument}, p + at, len - at, &n);"
        ));
        fail(s, "error", "error");
        s.out.line("at += n;");
    }

    /// Prints `wire_nested_X`, which reads a nested header. Its fills refer to itself alone.
    pub(super) fn nested_function(&mut self, id: BlueprintId, image: Image) {
        let mut s = self.wire_scope(id, image);
        let (name, suffix) = (self.wire_name(id), image.suffix());
        let head = format!(
            "HW_PART uint32_t wire_nested_{name}{suffix}(hw_run *run{}, const uint8_t *p, uint64_t len, uint64_t *used)",
            self.image_param(id, image, false)
        );
        s.out.open(&head);
        let argument = if image == Image::There { ", h" } else { "" };
        s.out.line(&format!(
            "const uint32_t error = wire_read_{name}{suffix}(run{argument}, p, len, used);"
        ));
        fail(&mut s, "error", "error");
        if !checksums(&self.module.blueprints[id.0 as usize]).is_empty() {
            let verified = self.verify_call(id, image, "(hw_facts){*used, *used, 0}");
            if let Some(call) = verified {
                s.out.line(&format!("const uint32_t wrong = {call};"));
                fail(&mut s, "wrong", "wrong");
            }
            s.out.line("hw_sum sum = {0, false};");
            s.out.line("hw_sum_add(&sum, p, *used);");
            s.out.line("return hw_sum_valid(sum) ? 0 : HW_CHECKSUM;");
        } else {
            let verified = self.verify_call(id, image, "(hw_facts){*used, *used, 0}");
            s.out
                .line(&format!("return {};", verified.as_deref().unwrap_or("0")));
        }
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Returns the call that compares a blueprint's computed fields; `None` if it has none.
    pub(super) fn verify_call(&self, id: BlueprintId, image: Image, facts: &str) -> Option<String> {
        if computed(&self.module.blueprints[id.0 as usize]).is_empty() {
            return None;
        }
        let argument = if image == Image::There { ", h" } else { "" };
        Some(format!(
            "wire_verify_{}{}(run{argument}, {facts})",
            self.wire_name(id),
            image.suffix()
        ))
    }

    /// Prints `wire_verify_X`, which compares every computed field with its expected value.
    pub(super) fn verify_function(&mut self, id: BlueprintId, image: Image) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let fields = computed(blueprint);
        if fields.is_empty() {
            return;
        }
        let mut s = self.wire_scope(id, image);
        let head = format!(
            "HW_PART uint32_t wire_verify_{}{}(hw_run *run{}, hw_facts facts)",
            self.wire_name(id),
            image.suffix(),
            self.image_param(id, image, true)
        );
        s.out.open(&head);
        for (field, expected) in fields {
            let constant = matches!(expected.kind, hawser_ir::ExprKind::Const(_));
            let place = Place { ty: field.ty.clone(), ..self.wire_place(id, field.offset) };
            let found = self.load(&mut s, &place);
            let value = self.expr(&mut s, expected);
            let value = wrap(&value, field.ty);
            let differ = compare(hawser_ir::CmpOp::Ne, &found, &value, field.ty);
            fail(&mut s, &differ, if constant { "HW_FRAME" } else { "HW_LENGTH" });
        }
        s.out.line("return 0;");
        s.out.close("");
        self.wire_function(&head, s);
    }
}

/// Returns a pointer to a byte behind another.
pub(super) fn byte_at(from: &str, at: u32) -> String {
    if at == 0 {
        from.to_owned()
    } else {
        format!("{from} + {at}")
    }
}

/// Returns the `bits` bits from bit `at` on, as a number.
pub(super) fn bits_at(from: &str, at: u32, bits: u32) -> String {
    let (first, last) = (at / 8, (at + bits).div_ceil(8));
    let byte = |i: u32| format!("({from})[{i}]");
    let spare = last * 8 - (at + bits);
    match last - first {
        _ if at.is_multiple_of(8) && spare == 0 && bits <= 64 => {
            format!("hw_wire_get({}, {})", byte_at(from, first), bits / 8)
        }
        1 => {
            let mask = (1u32 << bits) - 1;
            let shifted = if spare == 0 {
                byte(first)
            } else {
                format!("{} >> {spare}", byte(first))
            };
            format!("({shifted} & {mask:#x})")
        }
        bytes @ 2..=8 => {
            let mask = (1u64 << bits.min(63)) - 1;
            let whole = format!("hw_wire_get({}, {bytes})", byte_at(from, first));
            let shifted = if spare == 0 {
                whole
            } else {
                format!("{whole} >> {spare}")
            };
            format!("({shifted} & UINT64_C({mask:#x}))")
        }
        _ => format!("hw_wire_bits({}, {}, {bits})", byte_at(from, first), at % 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_from_as_few_bytes_as_hold_them() {
        for (at, bits, c) in [
            (0, 16, "hw_wire_get(p, 2)"),
            (32, 32, "hw_wire_get(p + 4, 4)"),
            (0, 4, "((p)[0] >> 4 & 0xf)"),
            (12, 4, "((p)[1] & 0xf)"),
            (15, 1, "((p)[1] & 0x1)"),
            (4, 12, "(hw_wire_get(p, 2) & UINT64_C(0xfff))"),
            (6, 10, "(hw_wire_get(p, 2) & UINT64_C(0x3ff))"),
            (4, 64, "hw_wire_bits(p, 4, 64)"),
            (2, 62, "(hw_wire_get(p, 8) & UINT64_C(0x3fffffffffffffff))"),
        ] {
            assert_eq!(bits_at("p", at, bits), c);
        }
    }
}
