//! Facts about a wire format that hold for every packet: lengths, runs of fixed fields, selectors.

use hawser_ir::{Blueprint, BlueprintId, Expr, Fill, Module, OptListId, ParserInput, Ty, WireField};

/// A field of fixed length in a run: the bits before it, and its number of bits.
pub(super) struct Fixed<'a> {
    pub(super) field: &'a WireField,
    pub(super) at: u32,
    pub(super) bits: u32,
}

/// A header's fields in groups: runs of fixed length, whose room is checked by a single comparison, and
/// single fields of varying length. Each group begins at a byte, which the checker ensures.
pub(super) enum Group<'a> {
    /// Fields of fixed length, and their total length in bytes.
    Run(Vec<Fixed<'a>>, u32),
    /// A field of varying length: a varint, counted bytes, a nested header, a repetition.
    Varying(&'a WireField),
}

/// Groups fields in order. Options are left out, because they end the header wherever they are declared.
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

/// The number of booleans that make a byte of flags.
pub(super) const FLAGS: usize = 8;

/// Returns the image offset of the first of eight booleans, if these fields begin with them. The booleans
/// must be adjacent in the image and fill one byte of the header.
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

/// Returns the header's length in bytes if no field of it varies.
pub(super) fn static_len(blueprint: &Blueprint) -> Option<u32> {
    let bits: Option<u32> = blueprint.header.iter().map(WireField::fixed_bits).sum();
    bits.map(|bits| bits.div_ceil(8))
}

/// Returns the option list of a header: its id, its offset in the image, its capacity in entries.
pub(super) fn options(blueprint: &Blueprint) -> Option<(OptListId, u32, u32)> {
    blueprint.header.iter().find_map(|field| match field {
        WireField::Options { list, offset, cap } => Some((*list, *offset, *cap)),
        _ => None,
    })
}

/// Returns the number of bytes before the options, for a header that consists of fixed fields and options.
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
    pub(super) little: bool,
    pub(super) fill: Option<&'a Fill>,
}

/// Returns a field as one of fixed width, if it is one.
pub(super) fn bits(field: &WireField) -> Option<Bits<'_>> {
    match field {
        WireField::Bits { offset, ty, bits, little, fill, .. } => {
            Some(Bits { offset: *offset, ty, bits: *bits, little: *little, fill: fill.as_ref() })
        }
        _ => None,
    }
}

/// Returns the field that states the header's length in 4-byte words.
pub(super) fn header_words(blueprint: &Blueprint) -> Option<Bits<'_>> {
    blueprint
        .header
        .iter()
        .filter_map(bits)
        .find(|field| matches!(field.fill, Some(Fill::HeaderWords)))
}

/// For each Internet checksum of a header, in order: whether it covers the pseudo-header.
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

/// Returns the fields whose value is computed and compared, with their expressions.
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

/// Returns the protocol number for which 0 stands in a header to send with. It is that of the first parser of
/// packets; for a parser of UDP datagrams, UDP's number.
pub(super) fn protocol(module: &Module) -> u8 {
    let number = |source| match source {
        ParserInput::Ip(number) => Some(number),
        ParserInput::Udp(_) => Some(17),
        ParserInput::Trimmed(_) | ParserInput::IcmpError | ParserInput::App(_) | ParserInput::Start => None,
    };
    module.parsers.iter().find_map(|p| number(p.source)).unwrap_or(0)
}

/// Returns the blueprints that stand inside another: nested, repeated, or as members of its options.
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
