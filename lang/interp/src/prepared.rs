//! Data that is computed once per module instead of for each event: layouts, initial values, and the
//! constants that distinguish options.

use hawser_ir::number::ScalarShape;
use hawser_ir::{
    Blueprint, BlueprintId, Layout, Module, OptListId, ParserInput, Struct, StructId, Ty, WireConstant,
    WireField,
};

/// Tables that accompany a module.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// For each option list, the size in bytes of its largest member.
    member_size: Vec<u32>,
    /// For each structure, its initial bytes; `None` if all are zero.
    initial: Vec<Option<Box<[u8]>>>,
    /// For each blueprint, the length of its header if it is constant.
    static_len: Vec<Option<usize>>,
    /// For each option list and member, the constants that select it.
    selectors: Vec<Vec<Vec<WireConstant>>>,
    /// The program's first IP protocol number, for which 0 stands in a header to send with.
    pub(crate) protocol: u8,
}

impl Prepared {
    pub(crate) fn new(module: &Module) -> Prepared {
        Prepared {
            member_size: module.member_sizes(),
            initial: module
                .structs
                .iter()
                .map(|s| initial(&module.structs, s))
                .collect(),
            static_len: module.blueprints.iter().map(static_len).collect(),
            selectors: module
                .opt_lists
                .iter()
                .map(|list| {
                    list.members
                        .iter()
                        .map(|m| blueprint(module, m.blueprint).constants())
                        .collect()
                })
                .collect(),
            protocol: protocol(module),
        }
    }

    pub(crate) fn layout<'a>(&'a self, module: &'a Module) -> Layout<'a> {
        Layout { structs: &module.structs, member_size: &self.member_size }
    }

    /// Returns the initial bytes of a structure; `None` if all are zero.
    pub(crate) fn initial(&self, id: StructId) -> Option<&[u8]> {
        self.initial[id.0 as usize].as_deref()
    }

    /// Returns the length of the header if it is constant.
    pub(crate) fn static_len(&self, id: BlueprintId) -> Option<usize> {
        self.static_len[id.0 as usize]
    }

    /// Returns the constants that select each member of an option list.
    pub(crate) fn selectors(&self, id: OptListId) -> &[Vec<WireConstant>] {
        &self.selectors[id.0 as usize]
    }
}

fn blueprint(module: &Module, id: BlueprintId) -> &Blueprint {
    &module.blueprints[id.0 as usize]
}

/// Computes the initial bytes of a structure: its defaults, and those of nested structures.
fn initial(structs: &[Struct], structure: &Struct) -> Option<Box<[u8]>> {
    let mut bytes = vec![0; structure.size as usize].into_boxed_slice();
    set_defaults(structs, structure, 0, &mut bytes);
    bytes.iter().any(|b| *b != 0).then_some(bytes)
}

fn set_defaults(structs: &[Struct], structure: &Struct, at: usize, bytes: &mut [u8]) {
    for field in &structure.fields {
        let at = at + field.offset as usize;
        if let Ty::Struct(id) = field.ty {
            set_defaults(structs, &structs[id.0 as usize], at, bytes);
        } else if let Some(value) = field.default {
            let size = ScalarShape::from_type(&field.ty).size();
            let native = if cfg!(target_endian = "little") {
                value
            } else {
                value << (64 - 8 * size)
            };
            bytes[at..at + size].copy_from_slice(&native.to_ne_bytes()[..size]);
        }
    }
}

/// Computes the length of the header in bytes, if no field of it varies.
fn static_len(blueprint: &Blueprint) -> Option<usize> {
    let bits: Option<u32> = blueprint.header.iter().map(WireField::fixed_bits).sum();
    bits.map(|bits| bits.div_ceil(8) as usize)
}

/// Returns the protocol number of the first parser of packets; for a parser of UDP datagrams, UDP's number.
fn protocol(module: &Module) -> u8 {
    let number = |source| match source {
        ParserInput::Ip(number) => Some(number),
        ParserInput::Udp(_) => Some(17),
        ParserInput::Trimmed(_) | ParserInput::IcmpError | ParserInput::App(_) | ParserInput::Start => None,
    };
    module.parsers.iter().find_map(|p| number(p.source)).unwrap_or(0)
}
