//! Builds headers, one packet of a `pkt_gen` at a time.

use hawser_ir::abi::{Built, Data, PacketRec, Segment};
use hawser_ir::{BlueprintId, Fill, LIST_HEADER, SegRule, WireField, on_wire};

use crate::bits::BitWriter;
use crate::checksum::{Sum, pseudo_header};
use crate::machine::{Machine, PacketQuantities};
use crate::memory::{Loc, Region};
use crate::wire::WORD;

/// The Internet checksum field of a header: its place, and whether it covers a pseudo-header.
#[derive(Clone, Copy)]
struct SumField {
    at: usize,
    pseudo: bool,
}

impl Machine<'_> {
    /// Applies the segmentation rules to the image, then writes its header and, behind it, its trailer.
    pub(crate) fn build(&mut self, packet: &PacketRec, segment: Segment, header: &mut [u8]) -> Built {
        let id = BlueprintId(u32::from(packet.blueprint));
        let blueprint = self.blueprint(id);
        let image = Loc::start(Region::Image);
        self.apply_rules(packet, segment);
        if let Some(at) = blueprint.data_at {
            let len_at = std::mem::offset_of!(Data, len);
            self.memory
                .write(image.plus(at as usize + len_at), 4, u64::from(segment.len));
        }

        let header_len = self.measure(id, image);
        let data = segment.len as usize;
        let total = header_len + data + self.trailer_len(blueprint, image);
        let facts = PacketQuantities { total, header: header_len, data };
        let room = header.len();
        let mut out = BitWriter::new(header);
        let sum = self.write_header(id, image, facts, &mut out);

        let csum = sum.map(|field| {
            let protocol = if packet.net.protocol == 0 {
                self.program.prepared.protocol
            } else {
                packet.net.protocol
            };
            let pseudo = if field.pseudo {
                pseudo_header(&packet.net, protocol, total)
            } else {
                Sum::default()
            };
            out.patch(field.at, &pseudo.folded());
            (0, field.at as u16)
        });
        let behind = out.position();
        for field in &blueprint.trailer {
            self.write_field(field, image, facts, &mut out);
        }
        Built { len: out.position().min(room), trailer: out.position() - behind, csum }
    }

    /// Applies the rules in order. All rules see the image of the previous packet.
    fn apply_rules(&mut self, packet: &PacketRec, segment: Segment) {
        if packet.rules == 0 {
            return;
        }
        self.memory.previous.clear();
        self.memory.previous.extend_from_slice(self.memory.image);
        let mut args = packet.args.iter();
        for index in packet.rule.iter().take(usize::from(packet.rules)) {
            let Some(rule) = self.module().seg_rules.get(usize::from(*index)) else {
                continue;
            };
            for (slot, arg) in self
                .rule_args
                .iter_mut()
                .zip(args.by_ref().take(usize::from(rule.args)))
            {
                *slot = *arg;
            }
            self.apply_rule(rule, segment);
        }
    }

    fn apply_rule(&mut self, rule: &SegRule, segment: Segment) {
        let value = if segment.count <= 1 {
            &rule.only
        } else if segment.index == 0 {
            &rule.first
        } else if segment.index + 1 == segment.count {
            &rule.last
        } else {
            &rule.mid
        };
        let previous = Loc::start(Region::Previous);
        let Ok(value) = self.eval_over(previous, PacketQuantities::default(), value) else {
            return;
        };
        if let Ok(field) = self.locate_from(Loc::start(Region::Image), &rule.field) {
            self.store_at(field, &rule.field.ty, value);
        }
    }

    /// Returns the length of a header in bytes, which is found by writing it without any room.
    pub(crate) fn measure(&mut self, id: BlueprintId, image: Loc) -> usize {
        if let Some(len) = self.program.prepared.static_len(id) {
            return len;
        }
        let mut nothing = BitWriter::new(&mut []);
        self.write_header(id, image, PacketQuantities::default(), &mut nothing);
        nothing.position()
    }

    /// Writes a header's fields, then its options. The Internet checksum is left zero and reported to the
    /// caller.
    fn write_header(
        &mut self,
        id: BlueprintId,
        image: Loc,
        facts: PacketQuantities,
        out: &mut BitWriter<'_>,
    ) -> Option<SumField> {
        let blueprint = self.blueprint(id);
        let start = out.position();
        let mut sum = None;
        let mut words_limit = None;
        let mut options = None;
        for field in &blueprint.header {
            match field {
                WireField::Bits { fill: Some(Fill::Checksum16 { pseudo }), .. } => {
                    sum = Some(SumField { at: out.position(), pseudo: *pseudo });
                }
                WireField::Bits { fill: Some(Fill::HeaderWords), bits, .. } => {
                    words_limit = Some(((1usize << bits.min(&16)) - 1) * WORD);
                }
                WireField::Options { list, offset, cap } => options = Some((*list, *offset, *cap)),
                _ => {}
            }
            self.write_field(field, image, facts, out);
        }
        if let Some((list, offset, cap)) = options {
            let fixed = out.position() - start;
            let room = words_limit.map_or(usize::MAX, |limit| limit.saturating_sub(fixed));
            self.write_options(list, cap, image.plus(offset as usize), room, out);
        }
        if words_limit.is_some() {
            let len = out.position() - start;
            out.zeros_to(start + len.next_multiple_of(WORD));
        }
        sum
    }

    fn write_field(
        &mut self,
        field: &WireField,
        image: Loc,
        facts: PacketQuantities,
        out: &mut BitWriter<'_>,
    ) {
        match field {
            WireField::Bits { offset, ty, bits, little, fill, .. } => {
                let value = match fill {
                    None => self.load_at(image.plus(*offset as usize), ty),
                    Some(Fill::Value(expr)) => self.eval_over(image, facts, expr).unwrap_or(0),
                    Some(Fill::HeaderWords) => facts.header.div_ceil(WORD) as u64,
                    Some(Fill::Checksum16 { .. } | Fill::Crc32 { .. }) => 0,
                };
                out.bits(on_wire(value, *bits, *little), u32::from(*bits));
            }
            WireField::Varint { offset, .. } => {
                out.varint(self.memory.read(image.plus(*offset as usize), 8));
            }
            WireField::Bytes { offset, len, .. } => {
                let end = out.position() + *len as usize;
                out.bytes(self.memory.bytes(image.plus(*offset as usize), *len as usize));
                out.zeros_to(end);
            }
            WireField::Opaque { offset, cap, count_at, count_ty, .. } => {
                let count = self.load_at(image.plus(*count_at as usize), count_ty);
                let len = count.min(u64::from(*cap)) as usize;
                let end = out.position() + len;
                out.bytes(self.memory.bytes(image.plus(*offset as usize), len));
                out.zeros_to(end);
            }
            WireField::Nested { blueprint, offset, when } => {
                if self.is_present(image, when.as_ref()).unwrap_or(false) {
                    let nested = image.plus(*offset as usize);
                    let len = self.measure(*blueprint, nested);
                    self.write_nested(*blueprint, nested, len, out);
                }
            }
            WireField::Options { .. } => {}
            WireField::Repeat { blueprint, offset, cap, stride, count_at, count_ty } => {
                let count = self
                    .load_at(image.plus(*count_at as usize), count_ty)
                    .min(u64::from(*cap));
                for i in 0..count as usize {
                    let element = image.plus((*offset + LIST_HEADER) as usize + i * *stride as usize);
                    let len = self.measure(*blueprint, element);
                    self.write_nested(*blueprint, element, len, out);
                }
            }
        }
    }

    /// Writes a nested header. Its fills refer to itself alone. Its checksum does too, and is therefore
    /// complete.
    pub(crate) fn write_nested(&mut self, id: BlueprintId, image: Loc, len: usize, out: &mut BitWriter<'_>) {
        let start = out.position();
        let facts = PacketQuantities { total: len, header: len, data: 0 };
        if let Some(field) = self.write_header(id, image, facts, out) {
            let mut sum = Sum::default();
            sum.add(out.written(start));
            out.patch(field.at, &sum.complement());
        }
    }
}
