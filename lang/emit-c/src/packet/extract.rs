//! `wire_extract_X`: parses a header at the parser's cursor and verifies its contents. All headers lie in the
//! packet's head; only payload and trailer may extend into its tail.

use hawser_ir::{BlueprintId, CrcField, Place, Ty};

use super::Image;
use super::format::{Group, checksums, groups};
use super::read::fail;
use crate::emitter::Emitter;
use crate::scope::Scope;

/// The maximum length of a trailer in bytes.
const MAX_TRAILER: u32 = 64;

impl Emitter<'_> {
    /// Prints `wire_extract_X`. On failure, the image is zero, unless it is never read, and the cursor is
    /// unchanged.
    pub(super) fn extract_function(&mut self, id: BlueprintId, image: Image) {
        self.take_function(id, image);
        let mut s = self.wire_scope(id, image);
        let (name, suffix) = (self.wire_name(id), image.suffix());
        let head = format!(
            "HW_PART uint32_t wire_extract_{name}{suffix}(hw_run *run{})",
            self.image_param(id, image, false)
        );
        s.out.open(&head);
        match image {
            Image::Absent => s.out.line(&format!("return wire_take_{name}{suffix}(run);")),
            Image::There if self.sparse.holds(id) => {
                s.out.line(&format!("return wire_take_{name}{suffix}(run, h);"));
            }
            Image::There => {
                s.out.line("hw_zero(h, sizeof *h);");
                s.out.line(&format!(
                    "const uint32_t error = wire_take_{name}{suffix}(run, h);"
                ));
                s.out.line("if (error)");
                s.out.line("    memset(h, 0, sizeof *h);");
                s.out.line("return error;");
            }
        }
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Prints `wire_take_X`, the phases of extraction: fields, lengths, fills, checksums, payload.
    fn take_function(&mut self, id: BlueprintId, image: Image) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        let mut s = self.wire_scope(id, image);
        let (name, suffix) = (self.wire_name(id), image.suffix());
        let head = format!(
            "HW_PART uint32_t wire_take_{name}{suffix}(hw_run *run{})",
            self.image_param(id, image, false)
        );
        let argument = if image == Image::There { ", h" } else { "" };
        s.out.open(&head);
        s.out.line("hw_cursor *cursor = &run->packet->cursor;");
        s.out.line("const hw_packet *packet = HW_AT(cursor->packet);");
        fail(&mut s, "!packet", "HW_TRUNCATED");
        s.out.line("const uint64_t at = cursor->at, end = cursor->end;");
        s.out.line("const uint64_t len = hw_min(end, packet->head_len);");
        fail(&mut s, "at > len", "HW_TRUNCATED");
        s.out.line("uint64_t header = 0;");
        s.out.line(&format!(
            "uint32_t error HW_UNUSED = wire_read_{name}{suffix}(run{argument}, HW_AT(packet->head) + at, len - at, &header);"
        ));
        fail(&mut s, "error", "error");
        s.out.line("const uint64_t n = end - at;");
        let trailer = self.trailer_len(&mut s, id);
        s.out.line(&format!("const uint64_t trailer = {trailer};"));
        fail(&mut s, "n < header + trailer", "HW_TRUNCATED");
        s.out.line("const uint64_t data = n - header - trailer;");
        if !blueprint.trailer.is_empty() {
            self.take_trailer(&mut s, id, image);
        }
        let verified = self.verify_call(id, image, "(hw_facts){n, header, data}");
        if let Some(call) = verified {
            s.out.line(&format!("error = {call};"));
            fail(&mut s, "error", "error");
        }
        for pseudo in checksums(blueprint) {
            let valid = format!("hw_packet_sum_valid(packet, at, end, {pseudo})");
            fail(&mut s, &format!("packet->verify & 1 && !{valid}"), "HW_CHECKSUM");
        }
        if let Some(field) = blueprint.crc() {
            self.verify_crc(&mut s, id, &field);
        }
        self.set_data(&mut s, id, "packet", "at + header", "data");
        s.out.line("cursor->at = at + header;");
        s.out.line("cursor->end = end - trailer;");
        s.out.line("return 0;");
        s.out.close("");
        self.wire_function(&head, s);
    }

    /// Reads the fields after the payload.
    fn take_trailer(&mut self, s: &mut Scope, id: BlueprintId, image: Image) {
        let module = self.module;
        let blueprint = &module.blueprints[id.0 as usize];
        s.out.open("");
        if self.is_ebpf() {
            let at = self.framed("uint8_t", MAX_TRAILER);
            s.out.line(&format!("uint8_t *const p = {at};"));
        } else {
            s.out.line(&format!("uint8_t p[{MAX_TRAILER}];"));
        }
        fail(s, &format!("trailer > {MAX_TRAILER}"), "HW_LENGTH");
        fail(s, "!hw_copy_out(packet, end - trailer, end, p)", "HW_TRUNCATED");
        s.out.line("const uint64_t len HW_UNUSED = trailer;");
        s.out.line("uint64_t at = 0;");
        for group in groups(&blueprint.trailer) {
            match group {
                Group::Run(fields, bytes) => {
                    self.read_run(s, id, &fields, "p + at");
                    s.out.line(&format!("at += {bytes};"));
                }
                Group::Varying(field) => self.read_varying(s, id, image, field),
            }
        }
        s.out.close("");
    }

    fn verify_crc(&mut self, s: &mut Scope, id: BlueprintId, field: &CrcField<'_>) {
        let found = self.load(
            s,
            &Place { ty: Ty::uint(32), ..self.wire_place(id, field.offset) },
        );
        let spans: Vec<String> = field
            .masked
            .iter()
            .map(|(at, bits)| format!("{{{at}, {bits}}}"))
            .collect();
        let pointer = if spans.is_empty() { "NULL" } else { "spans" };
        if !spans.is_empty() {
            s.out.line(&format!(
                "static const uint32_t spans[][2] = {{{}}};",
                spans.join(", ")
            ));
        }
        s.out.line(&format!(
            "const hw_crc_field crc = {{{}, {}, {}, {}, {pointer}}};",
            field.at,
            field.in_trailer,
            field.plain_from(),
            spans.len()
        ));
        let seed = if field.invariant { "packet->crc" } else { "0" };
        let behind = if field.in_trailer { " - 4" } else { "" };
        let value = format!("hw_packet_crc(packet, &crc, {seed}, at, at + header, end{behind})");
        let value = if field.invariant {
            format!("__builtin_bswap32({value})")
        } else {
            value
        };
        let unless = if field.invariant {
            "packet->verify & 2 && "
        } else {
            ""
        };
        fail(s, &format!("{unless}{found} != {value}"), "HW_CHECKSUM");
    }

    /// Stores the place of the payload for the program.
    pub(super) fn set_data(&mut self, s: &mut Scope, id: BlueprintId, packet: &str, at: &str, len: &str) {
        let Some(offset) = self.module.blueprints[id.0 as usize].data_at else {
            return;
        };
        let place = Place { ty: Ty::Data, ..self.wire_place(id, offset) };
        let payload = format!("hw_payload({packet}, {at}, {len})");
        match self.sparse.of_payload(id, offset) {
            None => self.store(s, &place, &payload),
            Some(fields) => {
                let data = self.target(s, &place).at;
                for field in fields {
                    s.out
                        .line(&format!("{} = {payload}.{field};", data.member(field).lvalue()));
                }
            }
        }
    }
}
