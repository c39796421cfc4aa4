//! Random memory: values of a type, most of them edge cases, and garbage.

use hawser_ir::abi::{Icmp, Id, Net, Op};
use hawser_ir::{LIST_HEADER, Layout, Module, StructId, Ty};

use crate::rng::Rng;

/// Returns the size in bytes of each option list's largest member.
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

/// The number of ids that events carry. It is small so that contexts are found.
const IDS: u64 = 6;

/// Returns an id that a context may have.
pub fn known_id(rng: &mut Rng) -> Id {
    let mut id = Id::NONE;
    id.push(0x1100 + rng.word() % IDS, 2);
    id
}

/// Fills a structure's fields with values of their types.
pub fn fill_struct(module: &Module, rng: &mut Rng, structure: StructId, bytes: &mut [u8]) {
    for field in &module.structure(structure).fields {
        let at = field.offset as usize;
        fill(module, rng, &field.ty, &mut bytes[at..]);
        // A count beyond its list yields a header that no parser accepts, so counts are mostly small.
        if field.name.starts_with('n') && field.ty.is_scalar() && !rng.one_in(6) {
            let size = if field.ty == Ty::Varint { 8 } else { 1 };
            put(&mut bytes[at..], size, rng.word() % 3);
        }
    }
}

fn fill(module: &Module, rng: &mut Rng, ty: &Ty, bytes: &mut [u8]) {
    let sizes = member_sizes(module);
    let layout = Layout { structs: &module.structs, member_size: &sizes };
    let size = layout.size(ty) as usize;
    match ty {
        Ty::Bool => bytes[0] = u8::from(rng.one_in(2)),
        Ty::Int { bits, signed } | Ty::Enum { bits, signed, .. } => {
            let spare = 64 - u32::from(*bits);
            let value = rng.edge(*bits);
            let value = if *signed {
                ((value << spare) as i64 >> spare) as u64
            } else {
                value
            };
            put(bytes, size, value);
        }
        Ty::Seq { bits } => put(bytes, size, rng.edge(*bits)),
        Ty::Duration | Ty::Time | Ty::Addr => put(bytes, 8, rng.edge(64)),
        Ty::Varint => put(bytes, 8, rng.edge(62)),
        Ty::Ip => bytes[..16].copy_from_slice(&address(rng)),
        Ty::Id => bytes[..40].copy_from_slice(&known_id(rng).0),
        Ty::Bytes { .. } => rng.fill(&mut bytes[..size]),
        Ty::Struct(id) => fill_struct(module, rng, *id, bytes),
        Ty::List { elem, cap } => {
            let len = rng.below(*cap as usize + 1);
            put(bytes, 4, len as u64);
            for i in 0..len {
                let at = LIST_HEADER as usize + i * layout.stride(elem) as usize;
                fill(module, rng, elem, &mut bytes[at..]);
            }
        }
        Ty::Array { elem, len } => {
            for i in 0..*len as usize {
                fill(module, rng, elem, &mut bytes[i * layout.stride(elem) as usize..]);
            }
        }
        // These begin empty; the program fills them.
        Ty::Timer | Ty::Data | Ty::Sorted { .. } | Ty::Window { .. } | Ty::Options { .. } => {}
    }
}

fn put(bytes: &mut [u8], size: usize, value: u64) {
    bytes[..size].copy_from_slice(&value.to_ne_bytes()[..size]);
}

/// Fills a header's image: random fields, and entries in options and repetitions.
pub fn fill_image(module: &Module, rng: &mut Rng, structure: StructId, bytes: &mut [u8]) {
    fill_struct(module, rng, structure, bytes);
    let sizes = member_sizes(module);
    let layout = Layout { structs: &module.structs, member_size: &sizes };
    for field in &module.structure(structure).fields {
        let Ty::Options { list, cap } = &field.ty else {
            continue;
        };
        let members = &module.opt_list(*list).members;
        let len = rng.below(*cap as usize + 1);
        let at = field.offset as usize;
        put(&mut bytes[at..], 4, len as u64);
        for i in 0..len {
            let tag = rng.below(members.len());
            let entry = at + LIST_HEADER as usize + i * layout.option_stride(*list) as usize;
            put(&mut bytes[entry..], 8, tag as u64);
            let member = module.blueprints[members[tag].blueprint.0 as usize].body;
            fill_struct(
                module,
                rng,
                member,
                &mut bytes[entry + hawser_ir::OPTION_TAG as usize..],
            );
        }
    }
}

/// Returns an address of either version.
pub fn address(rng: &mut Rng) -> [u8; 16] {
    match rng.below(4) {
        0 => [0; 16],
        1 => (u128::from(rng.word()) << 64 | u128::from(rng.word())).to_be_bytes(),
        _ => std::net::Ipv4Addr::from_bits(rng.word() as u32)
            .to_ipv6_mapped()
            .octets(),
    }
}

/// Returns a network header as a target makes it: both addresses have the same version.
pub fn net(rng: &mut Rng) -> Net {
    let v4 = rng.one_in(2);
    let mut address = || match v4 {
        true => std::net::Ipv4Addr::from_bits(rng.word() as u32)
            .to_ipv6_mapped()
            .octets(),
        false => (u128::from(rng.word()) << 64 | u128::from(rng.word())).to_be_bytes(),
    };
    let (src_ip, dst_ip) = (address(), address());
    Net {
        src_ip,
        dst_ip,
        tot_len: rng.edge(16) as u32,
        flow_label: rng.edge(20) as u32,
        hdr_len: if v4 { 20 } else { 40 },
        segs: 1 + rng.below(3) as u16,
        seg_size: rng.edge(11) as u16,
        protocol: *rng.pick(&[253, 6, 17]),
        ttl: rng.edge(8) as u8,
        ecn: rng.edge(2) as u8,
        dscp: rng.edge(6) as u8,
        prio: rng.edge(3) as u8,
        version: if v4 { 4 } else { 6 },
        path_mtu: rng.edge(16) as u32,
        src_port: rng.edge(16) as u16,
        dst_port: rng.edge(16) as u16,
        pad: [0; 4],
    }
}

pub fn op(rng: &mut Rng) -> Op {
    Op {
        self_id: known_id(rng),
        local_ip: address(rng),
        remote_ip: address(rng),
        addr: rng.edge(64),
        len: rng.edge(64),
        sub: rng.edge(64),
        arg: rng.edge(64),
        path_mtu: rng.edge(32) as u32,
        backlog: rng.edge(32) as u32,
        local_port: rng.edge(16) as u16,
        remote_port: rng.edge(16) as u16,
        option: rng.edge(32) as u32,
        code: rng.edge(32) as u32,
        flags: rng.edge(32) as u32,
        key: rng.edge(32) as u32,
        remote_key: rng.edge(32) as u32,
        at: rng.edge(64),
        remote_at: rng.edge(64),
        value: rng.edge(64),
        swap: rng.edge(64),
        link_mtu: rng.edge(32) as u32,
        receive_limit: rng.edge(32) as u32,
    }
}

pub fn icmp(rng: &mut Rng) -> Icmp {
    Icmp {
        kind: rng.edge(3) as u32,
        mtu: rng.edge(32) as u32,
        icmp_type: rng.edge(8) as u8,
        icmp_code: rng.edge(8) as u8,
        pad: [0; 6],
    }
}
