//! A report for a program's designer about the segmenting devices that can cut its packets.

use std::fmt::Write as _;

use hawser_ir::{Blueprint, Cut, Module, Offload, Span, WireField};
use hawser_syntax::SourceMap;

/// Reports on every packet instruction: whether a device may cut its super-segments, with the device's
/// actions or with every obstacle and its place.
#[must_use]
pub fn explain_offload(module: &Module, sources: &SourceMap) -> String {
    let mut offloads: Vec<&Offload> = module.offloads.iter().collect();
    offloads.sort_by_key(|offload| offload.sites.first().map(|site| (site.file, site.start)));
    offloads
        .into_iter()
        .map(|offload| explain(offload, module, sources))
        .collect()
}

fn explain(offload: &Offload, module: &Module, sources: &SourceMap) -> String {
    let blueprint = &module.blueprints[offload.blueprint.0 as usize];
    let rules = offload
        .rules
        .iter()
        .map(|rule| module.seg_rules[rule.0 as usize].name.as_str());
    let rules = rules.collect::<Vec<_>>().join(", ");
    let with = if rules.is_empty() {
        String::new()
    } else {
        format!(" with {rules}")
    };
    let mut out = String::new();
    // Writing to a string never fails.
    for site in &offload.sites {
        let _ = writeln!(
            out,
            "{}: packets of {}{with}",
            place(*site, sources),
            blueprint.name
        );
    }
    match &offload.proof {
        Ok(cut) => out.push_str(&proven(cut, blueprint)),
        Err(_) => out.push_str("    are not cut by a device:\n"),
    }
    for hindrance in offload.proof.as_ref().err().into_iter().flatten() {
        let at = Some(hindrance.span).filter(|span| !offload.sites.contains(span));
        let at = at.map_or_else(String::new, |span| format!("{}: ", place(span, sources)));
        let _ = writeln!(out, "    {at}{}", hindrance.reason);
    }
    out
}

fn proven(cut: &Cut, blueprint: &Blueprint) -> String {
    let mut out = format!(
        "    may be cut by a device, as packets of IP protocol {}: `{}` grows by the payload's bytes and wraps",
        cut.protocol, cut.grows
    );
    for (fields, place) in [(&cut.last_only, "last"), (&cut.first_only, "first")] {
        if !fields.is_empty() {
            let _ = write!(out, ",\n    {} on the {place} packet only", names(fields, "and"));
        }
    }
    out.push_str(",\n    all else is the same in every packet");
    if !cut.clear.is_empty() {
        let fields: Vec<String> = cut.clear.iter().map(|bit| field_at(blueprint, *bit)).collect();
        let _ = write!(
            out,
            "; unless {} is set, which no rule does",
            names(&fields, "or")
        );
    }
    out.push('\n');
    out
}

fn names(fields: &[String], joint: &str) -> String {
    let quoted: Vec<String> = fields.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(&format!(" {joint} "))
}

/// Returns the name of the field that holds a bit of the header. The fields before it have fixed lengths.
fn field_at(blueprint: &Blueprint, bit: u32) -> String {
    let mut from = 0;
    for field in &blueprint.header {
        let (name, bits) = match field {
            WireField::Bits { name, bits, .. } => (name, u32::from(*bits)),
            WireField::Bytes { name, len, .. } => (name, len * 8),
            WireField::Varint { .. }
            | WireField::Opaque { .. }
            | WireField::Nested { .. }
            | WireField::Options { .. }
            | WireField::Repeat { .. } => break,
        };
        if bit < from + bits {
            return match bits {
                1 => name.clone(),
                _ => format!("{name}[{}]", bit - from),
            };
        }
        from += bits;
    }
    format!("bit {bit}")
}

fn place(span: Span, sources: &SourceMap) -> String {
    let (line, column) = sources.line_column(span.file, span.start);
    format!("{}:{line}:{column}", sources.file(span.file).path)
}
