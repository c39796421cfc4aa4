//! Random memory: values of a type, at the edges more often than not, and garbage.

use hawser_ir::abi::{Icmp, Id, Net, Op};
use hawser_ir::{LIST_HEADER, Layout, Module, StructId, Ty};

use crate::dice::Dice;

/// For each option list, the size in bytes of its largest member.
#[must_use]
pub fn member_sizes(module: &Module) -> Vec<u32> {
    let size = |m: &hawser_ir::OptKind| {
        module
            .structure(module.blueprints[m.blueprint.0 as usize].body)
            .size
    };
    module
        .opt_lists
        .iter()
        .map(|list| list.members.iter().map(size).max().unwrap_or(0))
        .collect()
}

/// Ids that events carry: few, so that contexts are found.
const IDS: u64 = 6;

/// An id that a context may have.
pub fn known_id(dice: &mut Dice) -> Id {
    let mut id = Id::NONE;
    id.push(0x1100 + dice.word() % IDS, 2);
    id
}

/// Fills a structure's fields with values of their types.
pub fn fill_struct(module: &Module, dice: &mut Dice, structure: StructId, bytes: &mut [u8]) {
    for field in &module.structure(structure).fields {
        let at = field.offset as usize;
        fill(module, dice, &field.ty, &mut bytes[at..]);
    }
}

fn fill(module: &Module, dice: &mut Dice, ty: &Ty, bytes: &mut [u8]) {
    let sizes = member_sizes(module);
    let layout = Layout {
        structs: &module.structs,
        member_size: &sizes,
    };
    let size = layout.size(ty) as usize;
    match ty {
        Ty::Bool => bytes[0] = u8::from(dice.one_in(2)),
        Ty::Int { bits, signed } | Ty::Enum { bits, signed, .. } => {
            let spare = 64 - u32::from(*bits);
            let value = dice.edge(*bits);
            let value = if *signed {
                ((value << spare) as i64 >> spare) as u64
            } else {
                value
            };
            put(bytes, size, value);
        }
        Ty::Seq { bits } => put(bytes, size, dice.edge(*bits)),
        Ty::Duration | Ty::Time | Ty::Addr => put(bytes, 8, dice.edge(64)),
        Ty::Varint => put(bytes, 8, dice.edge(62)),
        Ty::Ip => bytes[..16].copy_from_slice(&address(dice)),
        Ty::Id => bytes[..40].copy_from_slice(&known_id(dice).0),
        Ty::Bytes { .. } => dice.fill(&mut bytes[..size]),
        Ty::Struct(id) => fill_struct(module, dice, *id, bytes),
        Ty::List { elem, cap } => {
            let len = dice.below(*cap as usize + 1);
            put(bytes, 4, len as u64);
            for i in 0..len {
                let at = LIST_HEADER as usize + i * layout.stride(elem) as usize;
                fill(module, dice, elem, &mut bytes[at..]);
            }
        }
        // These begin empty: the program fills them.
        Ty::Timer | Ty::Data | Ty::Sorted { .. } | Ty::Window { .. } | Ty::Options { .. } => {}
    }
}

fn put(bytes: &mut [u8], size: usize, value: u64) {
    bytes[..size].copy_from_slice(&value.to_ne_bytes()[..size]);
}

/// Fills a header's image: fields at random, and options and repetitions with entries.
pub fn fill_image(module: &Module, dice: &mut Dice, structure: StructId, bytes: &mut [u8]) {
    fill_struct(module, dice, structure, bytes);
    let sizes = member_sizes(module);
    let layout = Layout {
        structs: &module.structs,
        member_size: &sizes,
    };
    for field in &module.structure(structure).fields {
        let Ty::Options { list, cap } = &field.ty else {
            continue;
        };
        let members = &module.opt_list(*list).members;
        let len = dice.below(*cap as usize + 1);
        let at = field.offset as usize;
        put(&mut bytes[at..], 4, len as u64);
        for i in 0..len {
            let tag = dice.below(members.len());
            let entry = at + LIST_HEADER as usize + i * layout.option_stride(*list) as usize;
            put(&mut bytes[entry..], 8, tag as u64);
            let member = module.blueprints[members[tag].blueprint.0 as usize].body;
            fill_struct(
                module,
                dice,
                member,
                &mut bytes[entry + hawser_ir::OPTION_TAG as usize..],
            );
        }
    }
    // A count beyond its list gives a header that no parser takes: mostly it is small.
    if !dice.one_in(6) {
        let counts = module
            .structure(structure)
            .fields
            .iter()
            .filter(|f| f.name == "n");
        counts.for_each(|field| put(&mut bytes[field.offset as usize..], 1, dice.clone().word() % 3));
    }
}

/// An address of either version.
pub fn address(dice: &mut Dice) -> [u8; 16] {
    match dice.below(4) {
        0 => [0; 16],
        1 => (u128::from(dice.word()) << 64 | u128::from(dice.word())).to_be_bytes(),
        _ => std::net::Ipv4Addr::from_bits(dice.word() as u32)
            .to_ipv6_mapped()
            .octets(),
    }
}

/// A network header as a target makes it: both addresses of one version.
pub fn net(dice: &mut Dice) -> Net {
    let v4 = dice.one_in(2);
    let mut address = || match v4 {
        true => std::net::Ipv4Addr::from_bits(dice.word() as u32)
            .to_ipv6_mapped()
            .octets(),
        false => (u128::from(dice.word()) << 64 | u128::from(dice.word())).to_be_bytes(),
    };
    let (src_ip, dst_ip) = (address(), address());
    Net {
        src_ip,
        dst_ip,
        tot_len: dice.edge(16) as u32,
        flow_label: dice.edge(20) as u32,
        hdr_len: if v4 { 20 } else { 40 },
        segs: 1 + dice.below(3) as u16,
        seg_size: dice.edge(11) as u16,
        protocol: *dice.pick(&[253, 6, 17]),
        ttl: dice.edge(8) as u8,
        ecn: dice.edge(2) as u8,
        dscp: dice.edge(6) as u8,
        prio: dice.edge(3) as u8,
        version: if v4 { 4 } else { 6 },
        path_mtu: dice.edge(16) as u32,
    }
}

/// A request.
pub fn op(dice: &mut Dice) -> Op {
    Op {
        self_id: known_id(dice),
        local_ip: address(dice),
        remote_ip: address(dice),
        addr: dice.edge(64),
        len: dice.edge(64),
        sub: dice.edge(64),
        arg: dice.edge(64),
        path_mtu: dice.edge(32) as u32,
        backlog: dice.edge(32) as u32,
        local_port: dice.edge(16) as u16,
        remote_port: dice.edge(16) as u16,
        option: dice.edge(32) as u32,
    }
}

/// An ICMP error.
pub fn icmp(dice: &mut Dice) -> Icmp {
    Icmp {
        kind: dice.edge(3) as u32,
        mtu: dice.edge(32) as u32,
        icmp_type: dice.edge(8) as u8,
        icmp_code: dice.edge(8) as u8,
        pad: [0; 6],
    }
}
