//! `wire_measure_X`: the length in bytes of a header before it is written.

use hawser_ir::{BlueprintId, Fill, Place, WireField};

use super::Image;
use super::format::{Group, groups, header_words, options, static_len};
use crate::emitter::Emitter;
use crate::number::paren;
use crate::scope::Scope;

/// The size in bytes of the words in which `hdrlen4_t` counts.
pub(super) const WORD: u32 = 4;

/// Returns the maximum length in bytes of a header whose length is stored in a field of this many bits.
pub(super) fn words_limit(bits: u8) -> u64 {
    ((1u64 << bits.min(16)) - 1) * u64::from(WORD)
}

impl Emitter<'_> {
    /// Prints `wire_measure_X`.
    pub(super) fn measure_function(&mut self, id: BlueprintId) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let mut s = self.wire_scope(id, Image::There);
        let head = format!(
            "HW_PART uint64_t wire_measure_{}(hw_run *run{})",
            self.wire_name(id),
            self.image_param(id, Image::There, true)
        );
        s.out.open(&head);
        match static_len(blueprint) {
            Some(len) => s.out.line(&format!("return {len};")),
            None => self.measure_fields(&mut s, id),
        }
        s.out.close("");
        self.wire_function(&head, s);
    }

    fn measure_fields(&mut self, s: &mut Scope, id: BlueprintId) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        s.out.line("const hw_facts facts HW_UNUSED = {0, 0, 0};");
        s.out.line("uint64_t at = 0;");
        for group in groups(&blueprint.header) {
            match group {
                Group::Run(_, bytes) => s.out.line(&format!("at += {bytes};")),
                Group::Varying(field) => self.measure_varying(s, id, field),
            }
        }
        let words = header_words(blueprint).map(|field| words_limit(field.bits));
        if let Some((list, offset, cap)) = options(blueprint) {
            let room = words.map_or("UINT64_MAX".to_owned(), |limit| format!("hw_left(at, {limit})"));
            let list_at = self.wire_place(id, offset);
            let argument = self.inner_image(s, &list_at);
            s.out.line(&format!(
                "at += {}(run{argument}, {room});",
                self.options_measure(list, cap)
            ));
        }
        match words {
            Some(_) => s.out.line(&format!("return hw_round_up(at, {WORD});")),
            None => s.out.line("return at;"),
        }
    }

    fn measure_varying(&mut self, s: &mut Scope, id: BlueprintId, field: &WireField) {
        match field {
            WireField::Varint { offset, .. } => {
                let place = self.wire_place(id, *offset);
                let value = self.load(s, &place);
                s.out.line(&format!("at += hw_varint_bytes({value});"));
            }
            WireField::Opaque { cap, count_at, count_ty, .. } => {
                let count = self.repeated(s, id, *count_at, count_ty, *cap);
                s.out.line(&format!("at += {count};"));
            }
            WireField::Nested { blueprint, offset, when } => {
                let condition = when.as_ref().map(|when| self.expr(s, when));
                let place = self.wire_place(id, *offset);
                let argument = self.inner_image(s, &place);
                s.out
                    .open(&condition.map_or(String::new(), |condition| format!("if ({condition})")));
                s.out.line(&format!(
                    "at += wire_measure_{}(run{argument});",
                    self.wire_name(*blueprint)
                ));
                s.out.close("");
            }
            WireField::Repeat { blueprint, offset, cap, count_at, count_ty, .. } => {
                let count = self.repeated(s, id, *count_at, count_ty, *cap);
                let list = self.wire_place(id, *offset);
                let element = self.target(s, &list).at.member("items[i]").address();
                s.out.open(&format!(
                    "for (uint64_t i = HW_ZERO; HW_MORE(i < {count}); HW_NEXT(i))"
                ));
                s.out.line(&format!(
                    "at += wire_measure_{}(run, {element});",
                    self.wire_name(*blueprint)
                ));
                s.out.close("");
            }
            WireField::Bits { .. } | WireField::Bytes { .. } | WireField::Options { .. } => {}
        }
    }

    /// Returns the number of elements of a list that are sent.
    pub(super) fn repeated(
        &mut self,
        s: &mut Scope,
        id: BlueprintId,
        count_at: u32,
        count_ty: &hawser_ir::Ty,
        cap: u32,
    ) -> String {
        let place = Place { ty: count_ty.clone(), ..self.wire_place(id, count_at) };
        let count = self.load(s, &place);
        s.keep("uint64_t", &format!("hw_min((uint64_t){}, {cap})", paren(&count)))
    }
}

/// True if a field's value is not taken from the image when it is sent, because its checksum is computed
/// later.
pub(super) fn comes_later(fill: Option<&Fill>) -> bool {
    matches!(fill, Some(Fill::Checksum16 { .. } | Fill::Crc32 { .. }))
}
