//! A small builder of modules, and a hand-built module: TCP's header with a little state.
//!
//! `packets.rs` checks the module against wire data, and `chains.rs` checks it against records.

#![allow(dead_code)] // Each test file uses a part of it.

use std::sync::Arc;

use hawser_interp::Interpreter;
use hawser_ir::abi::{ContextHeader, Csum, Data, EventHeader, Net, Packet};
use hawser_ir::buf::NET_ZERO;
use hawser_ir::*;

pub(crate) fn uint(bits: u8) -> Ty {
    Ty::uint(bits)
}

pub(crate) fn constant(value: u64, ty: Ty) -> Expr {
    Expr { ty, kind: ExprKind::Const(value) }
}

pub(crate) fn place(base: Base, offset: u32, ty: Ty) -> Place {
    Place { base, offset, steps: Vec::new(), ty }
}

pub(crate) fn load(place: Place) -> Expr {
    Expr { ty: place.ty.clone(), kind: ExprKind::Load(place) }
}

pub(crate) fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
    Expr { ty: a.ty.clone(), kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) }
}

pub(crate) fn compare(op: CmpOp, a: Expr, b: Expr) -> Expr {
    Expr { ty: Ty::Bool, kind: ExprKind::Compare(op, Box::new(a), Box::new(b)) }
}

pub(crate) fn stmt(kind: StmtKind) -> Stmt {
    Stmt { span: Span::default(), kind }
}

/// Lays out a structure and returns its index.
pub(crate) fn structure(module: &mut Module, name: &str, header: usize, fields: &[(&str, Ty)]) -> StructId {
    structure_with(module, name, header, fields, &[])
}

/// Like `structure`, in a module that has option lists whose largest members have the given sizes.
pub(crate) fn structure_with(
    module: &mut Module,
    name: &str,
    header: usize,
    fields: &[(&str, Ty)],
    member_size: &[u32],
) -> StructId {
    let field = |(name, ty): &(&str, Ty)| Field {
        name: (*name).into(),
        ty: ty.clone(),
        offset: 0,
        default: None,
        access: AccessRights::default(),
    };
    let mut fields: Vec<Field> = fields.iter().map(field).collect();
    let size = Layout { structs: &module.structs, member_size }.place(header as u32, &mut fields);
    module.structs.push(Struct { name: name.into(), fields, size });
    StructId(module.structs.len() as u32 - 1)
}

/// Returns the place of a structure's field behind a base.
pub(crate) fn field(module: &Module, id: StructId, base: Base, name: &str) -> Place {
    let field = module
        .structure(id)
        .fields
        .iter()
        .find(|f| f.name == name)
        .expect("the field is declared");
    place(base, field.offset, field.ty.clone())
}

/// Adds a function that consists of a body alone.
pub(crate) fn function(
    module: &mut Module,
    name: &str,
    frame: u32,
    refs: &[Ty],
    body: Vec<StmtKind>,
) -> FuncId {
    let params = refs
        .iter()
        .map(|ty| FuncParam::Ref { name: "p".into(), ty: ty.clone() })
        .collect();
    module.funcs.push(Func {
        name: name.into(),
        params,
        ret: None,
        locals: Vec::new(),
        frame,
        body: body.into_iter().map(stmt).collect(),
        span: Span::default(),
    });
    FuncId(module.funcs.len() as u32 - 1)
}

/// Returns a field on the wire with the same name and type as in memory.
pub(crate) fn wire(module: &Module, id: StructId, name: &str, bits: u8, fill: Option<Fill>) -> WireField {
    let Place { offset, ty, .. } = field(module, id, Base::Blueprint, name);
    WireField::Bits { name: name.into(), offset, ty, bits, little: false, fill }
}

fn option(module: &mut Module, name: &str, fields: &[(&str, u8, Option<u64>)]) -> OptKind {
    let memory: Vec<(&str, Ty)> = fields
        .iter()
        .map(|(name, bits, _)| (*name, uint(*bits)))
        .collect();
    let body = structure(module, name, 0, &memory);
    let fill = |value: &u64, bits: u8| Fill::Value(constant(*value, uint(bits)));
    let header: Vec<_> = fields
        .iter()
        .map(|(name, bits, value)| wire(module, body, name, *bits, value.as_ref().map(|v| fill(v, *bits))))
        .collect();
    let len = fields.iter().map(|(_, bits, _)| u32::from(*bits) / 8).sum();
    module.blueprints.push(Blueprint {
        name: name.into(),
        body,
        header,
        data_at: None,
        trailer: Vec::new(),
        fixed_len: len,
        max_len: len,
    });
    OptKind {
        name: name.into(),
        blueprint: BlueprintId(module.blueprints.len() as u32 - 1),
        ends_list: name == "end",
    }
}

/// The tags of the options in [`tcp`].
pub(crate) const END: u32 = 0;
pub(crate) const NOP: u32 = 1;
pub(crate) const MSS: u32 = 2;
pub(crate) const WSCALE: u32 = 3;
pub(crate) const TIMESTAMPS: u32 = 4;
/// The capacity of the option list.
pub(crate) const OPTIONS: u32 = 3;

/// The parts of [`tcp`] that tests refer to.
pub(crate) struct Tcp {
    pub(crate) module: Module,
    pub(crate) header: StructId,
    pub(crate) event: StructId,
    pub(crate) context: StructId,
    pub(crate) blueprint: BlueprintId,
}

/// RFC 9293's header and options, an event that holds the parsed image, and a context with a
/// timer. Parser 0 takes packets of protocol 6; there is no chain yet.
pub(crate) fn tcp() -> Tcp {
    let mut module = Module { name: "tcp".into(), ..Module::default() };
    let members = vec![
        option(&mut module, "end", &[("kind", 8, Some(0))]),
        option(&mut module, "nop", &[("kind", 8, Some(1))]),
        option(
            &mut module,
            "mss",
            &[("kind", 8, Some(2)), ("len", 8, Some(4)), ("value", 16, None)],
        ),
        option(
            &mut module,
            "wscale",
            &[("kind", 8, Some(3)), ("len", 8, Some(3)), ("value", 8, None)],
        ),
        option(
            &mut module,
            "timestamps",
            &[
                ("kind", 8, Some(8)),
                ("len", 8, Some(10)),
                ("value", 32, None),
                ("echo", 32, None),
            ],
        ),
    ];
    let largest = module.structs.iter().map(|s| s.size).max().unwrap_or(0);
    let list = OptListId(0);

    let header = structure_with(
        &mut module,
        "TCP",
        0,
        &[
            ("sport", uint(16)),
            ("dport", uint(16)),
            ("seq", Ty::Seq { bits: 32 }),
            ("ack", Ty::Seq { bits: 32 }),
            ("off", uint(4)),
            ("reserved", uint(4)),
            ("flags", uint(8)),
            ("window", uint(16)),
            ("sum", uint(16)),
            ("urgent", uint(16)),
            ("data", Ty::Data),
            ("opts", Ty::Options { list, cap: OPTIONS }),
        ],
        &[largest],
    );
    let off = load(field(&module, header, Base::Blueprint, "off"));
    let words = Expr { ty: uint(32), kind: ExprKind::Cast(Box::new(off)) };
    let bytes = binary(BinOp::Mul, words, constant(4, uint(32)));
    module.opt_lists.push(OptList {
        name: "options".into(),
        members,
        len: Some(binary(BinOp::Sub, bytes, constant(20, uint(32)))),
        select_bits: 8,
        unknown_len_at: Some(1),
        pad: 4,
    });
    let opts = field(&module, header, Base::Blueprint, "opts").offset;
    let plain = |name, bits| wire(&module, header, name, bits, None);
    let fields = vec![
        plain("sport", 16),
        plain("dport", 16),
        plain("seq", 32),
        plain("ack", 32),
        wire(&module, header, "off", 4, Some(Fill::HeaderWords)),
        plain("reserved", 4),
        plain("flags", 8),
        plain("window", 16),
        wire(
            &module,
            header,
            "sum",
            16,
            Some(Fill::Checksum16 { pseudo: true }),
        ),
        plain("urgent", 16),
        WireField::Options { list, offset: opts, cap: OPTIONS },
    ];
    let blueprint = BlueprintId(module.blueprints.len() as u32);
    let data_at = Some(field(&module, header, Base::Blueprint, "data").offset);
    module.blueprints.push(Blueprint {
        name: "TCP".into(),
        body: header,
        header: fields,
        data_at,
        trailer: Vec::new(),
        fixed_len: 20,
        max_len: 60,
    });

    let event = structure_with(
        &mut module,
        "tcp_seg",
        size_of::<EventHeader>(),
        &[("header", Ty::Struct(header)), ("left", uint(32))],
        &[largest],
    );
    module
        .events
        .push(Event { name: "tcp_seg".into(), kind: EventKind::Net, body: event });
    module.chains.push(Chain {
        processors: Vec::new(),
        bounds: Bounds::default(),
        creates: None,
        globals: Vec::new(),
    });
    let image = field(&module, event, Base::Local, "header");
    let left = Expr { ty: uint(64), kind: ExprKind::Wire(WireFact::DataLen) };
    let parse = vec![
        StmtKind::Extract { blueprint, dst: image, ok: None },
        StmtKind::Store(field(&module, event, Base::Local, "left"), left),
        StmtKind::PushEvent { event: EventId(0), from: place(Base::Local, 0, Ty::Struct(event)) },
    ];
    let frame = module.structure(event).size;
    let func = function(&mut module, "parse", frame, &[], parse);
    module
        .parsers
        .push(Parser { source: ParserInput::Ip(6), func, max_events: 1, steps: 0 });

    let context = structure(
        &mut module,
        "conn",
        size_of::<ContextHeader>(),
        &[
            ("count", uint(32)),
            ("rtx", Ty::Timer),
            ("una", Ty::Seq { bits: 32 }),
        ],
    );
    Tcp { module, header, event, context, blueprint }
}

/// Returns an interpreter of a module with the defaults of its params.
pub(crate) fn interpreter(module: Module) -> Interpreter {
    let params = module.params.iter().map(|p| p.default).collect();
    Interpreter::new(Arc::new(module), params).expect("the module runs")
}

/// Returns the network header of a packet from 192.0.2.1 to 198.51.100.7.
pub(crate) fn net_v4() -> Net {
    let mapped = |a: [u8; 4]| std::net::Ipv4Addr::from(a).to_ipv6_mapped().octets();
    Net {
        src_ip: mapped([192, 0, 2, 1]),
        dst_ip: mapped([198, 51, 100, 7]),
        protocol: 6,
        ..NET_ZERO
    }
}

/// Returns a packet whose checksums have not been verified.
pub(crate) fn packet<'a>(net: &'a Net, head: &'a [u8], tail: &'a [u8]) -> Packet<'a> {
    Packet {
        net,
        head,
        tail,
        merged: 0,
        addr: hawser_ir::abi::addr(7, 0),
        csum: Csum::Unverified,
        crc: None,
    }
}

/// Returns a number of an image by its field's name.
pub(crate) fn number(module: &Module, id: StructId, image: &[u8], name: &str) -> u64 {
    let Place { offset, ty, .. } = field(module, id, Base::Local, name);
    let size = Layout { structs: &[], member_size: &[] }.size(&ty) as usize;
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&image[offset as usize..offset as usize + size]);
    u64::from_ne_bytes(bytes)
}

/// Sets a number of an image by its field's name.
pub(crate) fn set_number(module: &Module, id: StructId, image: &mut [u8], name: &str, value: u64) {
    let Place { offset, ty, .. } = field(module, id, Base::Local, name);
    let size = Layout { structs: &[], member_size: &[] }.size(&ty) as usize;
    image[offset as usize..offset as usize + size].copy_from_slice(&value.to_ne_bytes()[..size]);
}

/// Returns the payload of an image.
pub(crate) fn data(module: &Module, id: StructId, image: &[u8]) -> Data {
    let at = field(module, id, Base::Local, "data").offset as usize;
    bytemuck::pod_read_unaligned(&image[at..at + size_of::<Data>()])
}

/// Returns the options of an image: tags, and members as bytes.
pub(crate) fn options(module: &Module, id: StructId, image: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let Place { offset, ty, .. } = field(module, id, Base::Local, "opts");
    let Ty::Options { list, .. } = ty else {
        panic!("opts is an option list")
    };
    let members = &module.opt_list(list).members;
    let size = |m: &OptKind| {
        module
            .structure(module.blueprints[m.blueprint.0 as usize].body)
            .size as usize
    };
    let largest = members.iter().map(size).max().unwrap_or(0);
    let at = offset as usize;
    let len = u32::from_ne_bytes(image[at..at + 4].try_into().expect("four bytes")) as usize;
    (0..len)
        .map(|i| {
            let entry = at + LIST_HEADER as usize + i * (OPTION_TAG as usize + largest);
            let tag = u64::from_ne_bytes(image[entry..entry + 8].try_into().expect("eight bytes")) as u32;
            let start = entry + OPTION_TAG as usize;
            (tag, image[start..start + size(&members[tag as usize])].to_vec())
        })
        .collect()
}
