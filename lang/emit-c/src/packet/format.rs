//! What is known of a wire format before any packet: lengths, runs of fixed fields, selectors.

use hawser_ir::{Blueprint, BlueprintId, Expr, ExprKind, Fill, Module, OptListId, Source, Ty, WireField};

/// A field of fixed length in a run: bits before it, and how many it has.
pub(super) struct Fixed<'a> {
    pub(super) field: &'a WireField,
    pub(super) at: u32,
    pub(super) bits: u32,
}

/// A header's fields, grouped: runs of fixed length, which one comparison covers, and single fields
/// of varying length. Each begins at a byte; the checker sees to it.
pub(super) enum Group<'a> {
    /// Fields of fixed length, and the bytes that they take together.
    Run(Vec<Fixed<'a>>, u32),
    /// A varint, bytes of any number, a nested header, a repetition.
    Varying(&'a WireField),
}

/// Groups fields in order. Options are left out: they end the header wherever they are declared.
pub(super) fn groups(fields: &[WireField]) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    for field in fields {
        match (field.fixed_bits(), groups.last_mut()) {
            (Some(bits), Some(Group::Run(run, bytes))) => {
                let at = run.last().map_or(0, |last: &Fixed<'_>| last.at + last.bits);
                run.push(Fixed { field, at, bits });
                *bytes = (at + bits).div_ceil(8);
            }
            (Some(bits), _) => {
                groups.push(Group::Run(vec![Fixed { field, at: 0, bits }], bits.div_ceil(8)));
            }
            (None, _) if matches!(field, WireField::Options { .. }) => {}
            (None, _) => groups.push(Group::Varying(field)),
        }
    }
    groups
}

/// How many booleans make a byte of flags.
pub(super) const FLAGS: usize = 8;

/// Where the image holds the first of eight booleans that stand beside each other, there and in one byte
/// of the header, if that is what these fields begin with.
pub(super) fn flags(fields: &[Fixed<'_>]) -> Option<u32> {
    let first = fields.first().filter(|fixed| fixed.at % 8 == 0)?;
    let offset = bits(first.field)?.offset;
    let beside = |(i, fixed): (usize, &Fixed<'_>)| {
        bits(fixed.field).is_some_and(|field| {
            *field.ty == Ty::Bool
                && field.bits == 1
                && field.fill.is_none()
                && field.offset == offset + i as u32
        })
    };
    (fields.len() >= FLAGS && fields.iter().take(FLAGS).enumerate().all(beside)).then_some(offset)
}

/// The header's length in bytes if no field of it varies.
pub(super) fn static_len(blueprint: &Blueprint) -> Option<u32> {
    let bits: Option<u32> = blueprint.header.iter().map(WireField::fixed_bits).sum();
    bits.map(|bits| bits.div_ceil(8))
}

/// The option list of a header: which, where in the image, how many entries it keeps.
pub(super) fn options(blueprint: &Blueprint) -> Option<(OptListId, u32, u32)> {
    blueprint.header.iter().find_map(|field| match field {
        WireField::Options { list, offset, cap } => Some((*list, *offset, *cap)),
        WireField::Bits { .. }
        | WireField::Varint { .. }
        | WireField::Bytes { .. }
        | WireField::Opaque { .. }
        | WireField::Nested { .. }
        | WireField::Repeat { .. } => None,
    })
}

/// The bytes before the options of a header that has fixed fields and options alone.
pub(super) fn options_behind(blueprint: &Blueprint) -> Option<u32> {
    options(blueprint)?;
    match &groups(&blueprint.header)[..] {
        [Group::Run(_, bytes)] => Some(*bytes),
        _ => None,
    }
}

/// A field of fixed width with its fill.
pub(super) struct Bits<'a> {
    pub(super) offset: u32,
    pub(super) ty: &'a Ty,
    pub(super) bits: u8,
    pub(super) fill: Option<&'a Fill>,
}

/// A field as one of fixed width, if it is.
pub(super) fn bits(field: &WireField) -> Option<Bits<'_>> {
    match field {
        WireField::Bits { offset, ty, bits, fill, .. } => {
            Some(Bits { offset: *offset, ty, bits: *bits, fill: fill.as_ref() })
        }
        WireField::Varint { .. }
        | WireField::Bytes { .. }
        | WireField::Opaque { .. }
        | WireField::Nested { .. }
        | WireField::Options { .. }
        | WireField::Repeat { .. } => None,
    }
}

/// The field that states the header's length in 4-byte words.
pub(super) fn header_words(blueprint: &Blueprint) -> Option<Bits<'_>> {
    blueprint
        .header
        .iter()
        .filter_map(bits)
        .find(|field| matches!(field.fill, Some(Fill::HeaderWords)))
}

/// The Internet checksums of a header, in order: whether each covers the pseudo-header.
pub(super) fn checksums(blueprint: &Blueprint) -> Vec<bool> {
    let pseudo = |field: Bits<'_>| match field.fill {
        Some(Fill::Checksum16 { pseudo }) => Some(*pseudo),
        Some(Fill::Value(_) | Fill::HeaderWords | Fill::Crc32 { .. }) | None => None,
    };
    blueprint
        .header
        .iter()
        .filter_map(bits)
        .filter_map(pseudo)
        .collect()
}

/// Fields whose value is computed and compared, with the expression.
pub(super) fn computed(blueprint: &Blueprint) -> Vec<(Bits<'_>, &Expr)> {
    fn computed<'a>(field: &'a WireField) -> Option<(Bits<'a>, &'a Expr)> {
        let field = bits(field)?;
        match field.fill {
            Some(Fill::Value(expr)) => Some((field, expr)),
            Some(Fill::HeaderWords | Fill::Checksum16 { .. } | Fill::Crc32 { .. }) | None => None,
        }
    }
    blueprint
        .header
        .iter()
        .chain(&blueprint.trailer)
        .filter_map(computed)
        .collect()
}

/// A constant field of an option: what stands at its place on the wire.
pub(super) struct Selector {
    pub(super) at: u32,
    pub(super) bits: u32,
    pub(super) value: u64,
}

/// The constants that tell a member of an option list from the others: those before its first field
/// of varying length.
pub(super) fn selectors(blueprint: &Blueprint) -> Vec<Selector> {
    let mut at = 0;
    let mut found = Vec::new();
    for field in &blueprint.header {
        if let WireField::Bits { fill: Some(Fill::Value(e)), bits, .. } = field
            && let ExprKind::Const(value) = e.kind
        {
            found.push(Selector { at, bits: u32::from(*bits), value });
        }
        let Some(bits) = field.fixed_bits() else { break };
        at += bits;
    }
    found
}

/// The protocol number of the first parser that is fed by IP; UDP's for one behind UDP. What 0 stands
/// for in a header to send with.
pub(super) fn protocol(module: &Module) -> u8 {
    let number = |source| match source {
        Source::Ip(number) => Some(number),
        Source::Udp(_) => Some(17),
        Source::Trimmed(_) | Source::IcmpError | Source::App(_) | Source::Start => None,
    };
    module.parsers.iter().find_map(|p| number(p.source)).unwrap_or(0)
}

/// Blueprints that stand inside another: nested, repeated, members of its options.
pub(super) fn inner(module: &Module, id: BlueprintId) -> Vec<BlueprintId> {
    let blueprint = &module.blueprints[id.0 as usize];
    let mut inner = Vec::new();
    for field in &blueprint.header {
        match field {
            WireField::Nested { blueprint, .. } | WireField::Repeat { blueprint, .. } => {
                inner.push(*blueprint)
            }
            WireField::Options { list, .. } => {
                inner.extend(
                    module
                        .opt_list(*list)
                        .members
                        .iter()
                        .map(|member| member.blueprint),
                );
            }
            WireField::Bits { .. }
            | WireField::Varint { .. }
            | WireField::Bytes { .. }
            | WireField::Opaque { .. } => {}
        }
    }
    inner
}
