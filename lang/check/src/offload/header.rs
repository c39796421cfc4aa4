//! The places of a header's fields, and the parts of it that depend on the packet.

use hawser_ir::{Blueprint, Expr, Fill, Hindrance, Module, Span, WireField};

use super::reads;

/// The content of a range of bits at a fixed place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitsContent {
    /// The field at this offset of the image.
    Field(u32),
    /// The header's length in words.
    HeaderWords,
    /// The Internet checksum; with a pseudo-header or without.
    Checksum { pseudo: bool },
    /// A content that is the same in all packets of an instruction.
    Alike,
}

/// A range of bits.
#[derive(Clone, Debug)]
pub(super) struct Field<'m> {
    pub(super) name: &'m str,
    /// The first bit, counted from the start of the header.
    pub(super) from: u32,
    pub(super) bits: u32,
    pub(super) content: BitsContent,
}

/// The fields at fixed places: those before the first field of varying length.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields<'m> {
    pub(super) list: Vec<Field<'m>>,
}

impl<'m> Fields<'m> {
    /// Reads a header. `place` returns the place of a field's declaration by name, or that of the blueprint.
    /// Differences between the packets of an instruction, other than the fields at `varying` offsets
    /// themselves, go to `found`.
    pub(super) fn from_blueprint(
        module: &'m Module,
        blueprint: &'m Blueprint,
        varying: &[u32],
        place: &dyn Fn(&str) -> Span,
        found: &mut Vec<Hindrance>,
    ) -> Fields<'m> {
        let mut fields = Fields::default();
        let mut at = Some(0);
        let blueprint_at = place("");
        for field in &blueprint.header {
            let changes = what_changes(field, varying);
            if let Some(reason) = changes {
                let at = name_of(field).map_or(blueprint_at, place);
                found.push(Hindrance { span: at, reason: describe(field, reason) });
            }
            at = fields.add(module, field, 0, false, at);
        }
        if !blueprint.trailer.is_empty() {
            let reason = "a device does not write what follows the payload".to_owned();
            found.push(Hindrance { span: blueprint_at, reason });
        }
        fields
    }

    /// Adds one field at bit `at`, if that is known, and returns the bit behind it.
    fn add(
        &mut self,
        module: &'m Module,
        field: &'m WireField,
        base: u32,
        nested: bool,
        at: Option<u32>,
    ) -> Option<u32> {
        let from = at?;
        match field {
            WireField::Bits { name, offset, bits, little, fill, ty: _ } => {
                let content = match fill {
                    // Devices count in the network's order.
                    None if nested || *little => BitsContent::Alike,
                    None => BitsContent::Field(base + offset),
                    Some(Fill::HeaderWords) if !nested => BitsContent::HeaderWords,
                    Some(Fill::Checksum16 { pseudo }) if !nested => BitsContent::Checksum { pseudo: *pseudo },
                    Some(
                        Fill::Value(_) | Fill::HeaderWords | Fill::Checksum16 { .. } | Fill::Crc32 { .. },
                    ) => BitsContent::Alike,
                };
                let bits = u32::from(*bits);
                self.list.push(Field { name, from, bits, content });
                Some(from + bits)
            }
            WireField::Bytes { name, len, .. } => {
                self.list
                    .push(Field { name, from, bits: len * 8, content: BitsContent::Alike });
                Some(from + len * 8)
            }
            WireField::Nested { blueprint, offset, when: None } => {
                let inner = &module.blueprints[blueprint.0 as usize];
                inner
                    .header
                    .iter()
                    .fold(at, |at, field| self.add(module, field, base + offset, true, at))
            }
            // From here on, places vary. Options stand behind all fields, regardless of the place of their
            // declaration.
            WireField::Varint { .. }
            | WireField::Opaque { .. }
            | WireField::Nested { when: Some(_), .. }
            | WireField::Repeat { .. } => None,
            WireField::Options { .. } => at,
        }
    }
}

/// Describes the reason why a field differs between packets, apart from its own rule.
fn what_changes(field: &WireField, varying: &[u32]) -> Option<&'static str> {
    match field {
        WireField::Bits { fill: Some(Fill::Value(value)), .. } => depends(value, varying),
        WireField::Bits { fill: Some(Fill::Crc32 { .. }), .. } => Some("covers the payload"),
        WireField::Bits { fill: None | Some(Fill::HeaderWords | Fill::Checksum16 { .. }), .. } => None,
        WireField::Nested { when: Some(when), .. } => depends(when, varying),
        WireField::Opaque { count_at, .. } | WireField::Repeat { count_at, .. } => varying
            .contains(count_at)
            .then_some("follows a field that changes"),
        WireField::Varint { .. }
        | WireField::Bytes { .. }
        | WireField::Nested { when: None, .. }
        | WireField::Options { .. } => None,
    }
}

fn depends(value: &Expr, varying: &[u32]) -> Option<&'static str> {
    if reads::of_blueprint(value, |place| varying.contains(&place.offset)) {
        return Some("follows a field that changes");
    }
    reads::payload_len(value).then_some("follows the payload's length")
}

fn name_of(field: &WireField) -> Option<&str> {
    match field {
        WireField::Bits { name, .. }
        | WireField::Varint { name, .. }
        | WireField::Bytes { name, .. }
        | WireField::Opaque { name, .. } => Some(name),
        WireField::Nested { .. } | WireField::Options { .. } | WireField::Repeat { .. } => None,
    }
}

fn describe(field: &WireField, reason: &str) -> String {
    match name_of(field) {
        Some(name) => format!("`{name}` {reason}, and a device does not fill it in"),
        None => format!("a part of the header {reason}, and a device copies it"),
    }
}
