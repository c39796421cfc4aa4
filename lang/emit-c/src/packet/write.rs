//! `wire_write_X`: from fields to bytes. Data beyond the room is only counted.

use hawser_ir::{BlueprintId, Fill, WireField};

use super::Image;
use super::format::{Fixed, Group, bits, checksums, flags, groups, header_words, options, options_behind};
use super::measure::{WORD, comes_later, words_limit};
use super::read::byte_at;
use crate::emitter::Emitter;
use crate::number::paren;
use crate::scope::Scope;

impl Emitter<'_> {
    /// Prints `wire_write_X`, which writes a header's fields, then its options. The Internet checksum is left
    /// zero, and its position is the result.
    pub(super) fn write_function(&mut self, id: BlueprintId) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let mut s = self.begin_write(id, "wire_write");
        self.write_groups(&mut s, id, &blueprint.header);
        let options = self.write_options(&mut s, id, "out->at - start", "start");
        options.iter().for_each(|line| s.out.line(line));
        self.end_write(id, "wire_write", s);
    }

    /// Prints `wire_fields_X`, which writes the fields alone, for a header whose options are written first.
    pub(super) fn fields_function(&mut self, id: BlueprintId) {
        let module = self.module;
        let mut s = self.begin_write(id, "wire_fields");
        self.write_groups(&mut s, id, &module.blueprints[id.0 as usize].header);
        self.end_write(id, "wire_fields", s);
    }

    fn write_head(&mut self, id: BlueprintId, name: &str) -> String {
        format!(
            "HW_PART uint64_t {name}_{}(hw_run *run{}, hw_facts facts, hw_writer *out)",
            self.wire_name(id),
            self.image_param(id, Image::There, true)
        )
    }

    fn begin_write(&mut self, id: BlueprintId, name: &str) -> Scope {
        let mut s = self.wire_scope(id, Image::There);
        let head = self.write_head(id, name);
        s.out.open(&head);
        s.out.line("const uint64_t start HW_UNUSED = out->at;");
        s.out.line("uint64_t sum = 0;");
        s
    }

    fn end_write(&mut self, id: BlueprintId, name: &str, mut s: Scope) {
        s.out.line("return sum;");
        s.out.close("");
        let head = self.write_head(id, name);
        self.wire_function(&head, s);
    }

    /// Returns the statements that write a header's options, padded to words, behind `done` bytes of a header
    /// that begins at `start`.
    fn write_options(&mut self, s: &mut Scope, id: BlueprintId, done: &str, start: &str) -> Vec<String> {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let words = header_words(blueprint).map(|field| words_limit(field.bits));
        let mut lines = Vec::new();
        if let Some((list, offset, cap)) = options(blueprint) {
            let room = words.map_or("UINT64_MAX".to_owned(), |limit| {
                format!("hw_left({done}, {limit})")
            });
            let list_at = self.wire_place(id, offset);
            let argument = self.inner_image(s, &list_at);
            lines.push(format!(
                "{}(run{argument}, {room}, out);",
                self.options_writer(list, cap)
            ));
        }
        if words.is_some() {
            let written = if start == "0" {
                "out->at".to_owned()
            } else {
                format!("out->at - {start}")
            };
            let start = if start == "0" {
                String::new()
            } else {
                format!("{start} + ")
            };
            lines.push(format!(
                "hw_zeros_to(out, {start}hw_round_up({written}, {WORD}));"
            ));
        }
        lines
    }

    /// For a header of fixed fields followed by options, returns the length of the fields in bytes, and the
    /// statements that write the options.
    pub(super) fn options_write(&mut self, s: &mut Scope, id: BlueprintId) -> Option<(u32, Vec<String>)> {
        let bytes = options_behind(&self.module.blueprints[id.0 as usize])?;
        Some((bytes, self.write_options(s, id, &bytes.to_string(), "0")))
    }

    /// Writes fields in order; `sum` becomes the position of the Internet checksum.
    pub(super) fn write_groups(&mut self, s: &mut Scope, id: BlueprintId, fields: &[WireField]) {
        for group in groups(fields) {
            match group {
                Group::Run(run, bytes) => self.write_run(s, id, &run, bytes),
                Group::Varying(field) => self.write_varying(s, id, field),
            }
        }
    }

    fn write_run(&mut self, s: &mut Scope, id: BlueprintId, fields: &[Fixed<'_>], bytes: u32) {
        for Fixed { field, at, .. } in fields {
            let fill = bits(field).and_then(|field| field.fill);
            if matches!(fill, Some(Fill::Checksum16 { .. })) {
                s.out.line(&format!("sum = out->at + {};", at.div_ceil(8)));
            }
        }
        s.out.open("");
        s.out.line(&format!("uint8_t *p = hw_next(out, {bytes});"));
        s.out.open("if (p)");
        let mut rest = fields;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(whole_bytes(rest));
            self.write_chunk(s, id, chunk);
            rest = after;
        }
        s.out.close("");
        s.out.close("");
    }

    /// Writes together a group of fields that begins and ends at a byte.
    fn write_chunk(&mut self, s: &mut Scope, id: BlueprintId, chunk: &[Fixed<'_>]) {
        let [first, ..] = chunk else { return };
        if let Some(offset) = flags(chunk) {
            let from = self.seen_address(s, &self.wire_place(id, offset));
            s.out.line(&format!(
                "({})[0] = hw_flags({from});",
                byte_at("p", first.at / 8)
            ));
            return;
        }
        if let WireField::Bytes { offset, len, .. } = first.field {
            let place = self.wire_place(id, *offset);
            let from = self.seen_address(s, &place);
            s.out
                .line(&format!("memcpy({}, {from}, {len});", byte_at("p", first.at / 8)));
            return;
        }
        let bits: u32 = chunk.iter().map(|fixed| fixed.bits).sum();
        let whole = bits.next_multiple_of(8);
        if whole > 64 {
            for fixed in chunk {
                let value = self.wire_field_value(s, id, fixed.field);
                s.out.line(&format!(
                    "hw_wire_put_bits(p, {}, {value}, {});",
                    fixed.at, fixed.bits
                ));
            }
            return;
        }
        let mut parts = Vec::new();
        for fixed in chunk {
            let value = self.wire_field_value(s, id, fixed.field);
            let shift = whole - (fixed.at - first.at) - fixed.bits;
            if value != "0" {
                let low = if chunk.len() == 1 && shift == 0 {
                    value
                } else {
                    format!("hw_low({value}, {})", fixed.bits)
                };
                parts.push(if shift == 0 {
                    low
                } else {
                    format!("{low} << {shift}")
                });
            }
        }
        let value = if parts.is_empty() {
            "0".to_owned()
        } else {
            parts.join(" | ")
        };
        s.out.line(&format!(
            "hw_wire_put({}, {value}, {});",
            byte_at("p", first.at / 8),
            whole / 8
        ));
    }

    /// Returns the value to send in a field of fixed width, as a 64-bit number.
    fn wire_field_value(&mut self, s: &mut Scope, id: BlueprintId, field: &WireField) -> String {
        let Some(field) = bits(field) else {
            return "0".to_owned();
        };
        let value = match field.fill {
            fill if comes_later(fill) => return "0".to_owned(),
            Some(Fill::Value(expr)) => {
                let value = self.expr(s, expr);
                format!("(uint64_t){}", paren(&value))
            }
            Some(Fill::HeaderWords) => format!("(facts.header + {}) / {WORD}", WORD - 1),
            Some(Fill::Checksum16 { .. } | Fill::Crc32 { .. }) | None => {
                let place = hawser_ir::Place { ty: field.ty.clone(), ..self.wire_place(id, field.offset) };
                let value = self.load(s, &place);
                format!("(uint64_t){}", paren(&value))
            }
        };
        match field.little {
            true => format!("hw_swapped({value}, {})", field.bits),
            false => value,
        }
    }

    fn write_varying(&mut self, s: &mut Scope, id: BlueprintId, field: &WireField) {
        match field {
            WireField::Varint { offset, .. } => {
                let place = self.wire_place(id, *offset);
                let value = self.load(s, &place);
                s.out.line(&format!("hw_varint_put(out, {value});"));
            }
            WireField::Opaque { offset, cap, count_at, count_ty, .. } => {
                let count = self.repeated(s, id, *count_at, count_ty, *cap);
                let place = self.wire_place(id, *offset);
                let from = self.seen_address(s, &place);
                s.out.open("");
                s.out.line(&format!("uint8_t *p = hw_next(out, {count});"));
                s.out
                    .line(&format!("if (p)\n        memcpy(p, {from}, {count});"));
                s.out.close("");
            }
            WireField::Nested { blueprint, offset, when } => {
                let condition = when.as_ref().map(|when| self.expr(s, when));
                let place = self.wire_place(id, *offset);
                let argument = self.inner_image(s, &place);
                let name = self.wire_name(*blueprint);
                s.out
                    .open(&condition.map_or(String::new(), |condition| format!("if ({condition})")));
                s.out.line(&format!(
                    "wire_put_{name}(run{argument}, wire_measure_{name}(run{argument}), out);"
                ));
                s.out.close("");
            }
            WireField::Repeat { blueprint, offset, cap, count_at, count_ty, .. } => {
                let count = self.repeated(s, id, *count_at, count_ty, *cap);
                let list = self.wire_place(id, *offset);
                let element = self.target(s, &list).at.member("items[i]").address();
                let name = self.wire_name(*blueprint);
                s.out.open(&format!(
                    "for (uint64_t i = HW_ZERO; HW_MORE(i < {count}); HW_NEXT(i))"
                ));
                s.out.line(&format!(
                    "wire_put_{name}(run, {element}, wire_measure_{name}(run, {element}), out);"
                ));
                s.out.close("");
            }
            WireField::Bits { .. } | WireField::Bytes { .. } | WireField::Options { .. } => {}
        }
    }

    /// Prints `wire_put_X`, which writes a nested header of `n` bytes. Its fills refer to itself alone. Its
    /// checksum does too, and is therefore complete.
    pub(super) fn put_function(&mut self, id: BlueprintId) {
        let mut s = self.wire_scope(id, Image::There);
        let name = self.wire_name(id);
        let head = format!(
            "HW_PART void wire_put_{name}(hw_run *run{}, uint64_t n, hw_writer *out)",
            self.image_param(id, Image::There, true)
        );
        s.out.open(&head);
        let write = format!("wire_write_{name}(run, h, (hw_facts){{n, n, 0}}, out);");
        if checksums(&self.module.blueprints[id.0 as usize]).is_empty() {
            s.out.line(&write);
        } else {
            s.out.line("const uint64_t start = out->at;");
            s.out.line(&format!("const uint64_t at = {write}"));
            s.out.line("hw_sum sum = {0, false};");
            s.out.line("const hw_piece written = hw_written(out, start);");
            s.out.line("hw_sum_add(&sum, written.bytes, written.len);");
            s.out
                .line("const uint16_t value = (uint16_t)~hw_sum_fold(sum.total);");
            s.out.line("hw_patch(out, at, &value, 2);");
        }
        s.out.close("");
        self.wire_function(&head, s);
    }
}

/// Returns the number of these fields after which a byte boundary is reached; at least one.
fn whole_bytes(fields: &[Fixed<'_>]) -> usize {
    let ends = |fixed: &Fixed<'_>| (fixed.at + fixed.bits).is_multiple_of(8);
    fields.iter().position(ends).map_or(fields.len(), |last| last + 1)
}
