//! The behaviour of segmenting devices, and the check whether a header permits it.
//!
//! The layout is that of the transport header which devices can cut (Linux: `tcp_gso_segment`; NDIS: large
//! send offload). It is recognised by the places of its fields, not by names. It has a growing number of 32
//! bits, the header's length in words, and a checksum with a pseudo-header. It also has bits that are kept
//! only on the first or the last packet.

use hawser_ir::{Blueprint, Cut, Hindrance, SegRule, Span};

use super::header::{BitsContent, Field, Fields};
use super::shape::RuleShape;

/// The protocol number that devices cut.
const PROTOCOL: u8 = 6;
/// The number that grows: its first bit and its width in bits.
const NUMBER: (u32, u32) = (32, 32);
/// The header's length in 4-byte words: first bit, width in bits.
const HEADER_WORDS: (u32, u32) = (96, 4);
/// The bit that a device keeps only in the first packet.
const FIRST_ONLY: u32 = 104;
/// The bits that a device keeps only in the last packet.
const LAST_ONLY: [u32; 2] = [108, 111];
/// The checksum: first bit, width in bits.
const CHECKSUM: (u32, u32) = (128, 16);
/// The length in bytes of the header without options.
const SHORTEST: u32 = 20;

/// Compares a header and its rules with a device's behaviour; obstacles go to `found`.
pub(super) fn cut(
    blueprint: &Blueprint,
    fields: &Fields<'_>,
    rules: &[(&SegRule, RuleShape, Span)],
    place: &dyn Fn(&str) -> Span,
    found: &mut Vec<Hindrance>,
) -> Option<Cut> {
    let blueprint_at = place("");
    let mut missing = |what: &str, bit: u32| {
        let name = &blueprint.name;
        let reason = format!("devices have {what} at bit {bit} of the header, and `{name}` does not");
        found.push(Hindrance { span: blueprint_at, reason });
    };
    if blueprint.fixed_len < SHORTEST {
        let reason = format!(
            "the header of `{}` is shorter than those that devices cut",
            blueprint.name
        );
        found.push(Hindrance { span: blueprint_at, reason });
        return None;
    }
    let number = field_at(fields, NUMBER).filter(|field| matches!(field.content, BitsContent::Field(_)));
    if number.is_none() {
        missing("a number of 32 bits that grows", NUMBER.0);
    }
    if field_at(fields, HEADER_WORDS).is_none_or(|field| field.content != BitsContent::HeaderWords) {
        missing("the header's length (`hdrlen4_t`)", HEADER_WORDS.0);
    }
    if field_at(fields, CHECKSUM).is_none_or(|field| field.content != BitsContent::Checksum { pseudo: true })
    {
        missing("the checksum (`over (pseudo, this)`)", CHECKSUM.0);
    }
    only_one_checksum(fields, place, found);
    let number = number?;
    match rule_of(number, rules) {
        Some((_, RuleShape::Grows | RuleShape::Other(_), _)) => {}
        Some((rule, _, at)) => {
            let reason = format!(
                "`{}` does not grow by the payload's bytes in the rule `{}`",
                number.name, rule.name
            );
            found.push(Hindrance { span: *at, reason });
        }
        None => {
            let reason = format!(
                "no rule of the instruction makes `{}` grow by the payload's bytes",
                number.name
            );
            found.push(Hindrance { span: blueprint_at, reason });
        }
    }
    let mut cut = Cut {
        protocol: PROTOCOL,
        clear: Vec::new(),
        grows: number.name.to_owned(),
        last_only: Vec::new(),
        first_only: Vec::new(),
    };
    for (rule, shape, at) in rules {
        place_rule(rule, *shape, *at, fields, &mut cut, found);
    }
    let changed = std::iter::once(FIRST_ONLY).chain(LAST_ONLY);
    let ruled = |bit: u32| {
        fields
            .list
            .iter()
            .any(|field| covers(field, bit) && rule_of(field, rules).is_some())
    };
    cut.clear = changed.filter(|bit| !ruled(*bit)).collect();
    Some(cut)
}

/// Checks that a device treats a rule's field in the same way as the rule does.
fn place_rule(
    rule: &SegRule,
    shape: RuleShape,
    at: Span,
    fields: &Fields<'_>,
    cut: &mut Cut,
    found: &mut Vec<Hindrance>,
) {
    let field = fields
        .list
        .iter()
        .find(|field| field.content == BitsContent::Field(rule.field.offset));
    let mut hinder = |what: String| found.push(Hindrance { span: at, reason: what });
    let Some(field) = field else {
        if shape != RuleShape::Same {
            hinder(format!(
                "the rule `{}` changes a field behind those that devices know",
                rule.name
            ));
        }
        return;
    };
    let name = field.name;
    let is_bit = |bits: &[u32]| field.bits == 1 && bits.contains(&field.from);
    let touched = LAST_ONLY
        .iter()
        .chain([&FIRST_ONLY])
        .any(|bit| covers(field, *bit));
    match shape {
        RuleShape::Grows if (field.from, field.bits) == NUMBER => {}
        RuleShape::Grows => hinder(format!("`{name}` grows, and devices make another field grow")),
        RuleShape::LastOnly if is_bit(&LAST_ONLY) => cut.last_only.push(name.to_owned()),
        RuleShape::LastOnly => {
            hinder(format!(
                "`{name}` stands on the last packet only, and devices do that to other flags"
            ));
        }
        RuleShape::FirstOnly if is_bit(&[FIRST_ONLY]) => cut.first_only.push(name.to_owned()),
        RuleShape::FirstOnly => {
            hinder(format!(
                "`{name}` stands on the first packet only, and devices do that to another flag"
            ));
        }
        RuleShape::Same if is_bit(&LAST_ONLY) => {
            hinder(format!(
                "`{name}` stands on every packet, and devices keep it on the last one only"
            ));
        }
        RuleShape::Same if is_bit(&[FIRST_ONLY]) => {
            hinder(format!(
                "`{name}` stands on every packet, and devices keep it on the first one only"
            ));
        }
        RuleShape::Same if touched => {
            hinder(format!(
                "`{name}` holds flags that devices change: give each a field of its own"
            ));
        }
        // The obstacles of `Other` have been reported already.
        RuleShape::Same | RuleShape::Other(_) => {}
    }
}

/// Checks the number of checksums, because a device completes only one.
fn only_one_checksum(fields: &Fields<'_>, place: &dyn Fn(&str) -> Span, found: &mut Vec<Hindrance>) {
    for field in &fields.list {
        if matches!(field.content, BitsContent::Checksum { .. }) && (field.from, field.bits) != CHECKSUM {
            let reason = format!("`{}` is a checksum that devices do not know", field.name);
            found.push(Hindrance { span: place(field.name), reason });
        }
    }
}

fn field_at<'f, 'm>(fields: &'f Fields<'m>, (from, bits): (u32, u32)) -> Option<&'f Field<'m>> {
    fields
        .list
        .iter()
        .find(|field| (field.from, field.bits) == (from, bits))
}

fn covers(field: &Field<'_>, bit: u32) -> bool {
    (field.from..field.from + field.bits).contains(&bit)
}

fn rule_of<'r, 'm>(
    field: &Field<'_>,
    rules: &'r [(&'m SegRule, RuleShape, Span)],
) -> Option<&'r (&'m SegRule, RuleShape, Span)> {
    rules
        .iter()
        .find(|(rule, ..)| field.content == BitsContent::Field(rule.field.offset))
}
