//! The types and records of a generated program, with their names in its text.

use crate::rng::Rng;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Uint(u8),
    Int(u8),
    Seq(u8),
    Duration,
    Time,
    Varint,
    /// The only enum that every program declares.
    Enum,
    Addr,
    Ip,
    Id,
    Bytes(u32),
    Data,
    /// A record, by its index in [`super::ProgramPlan::records`].
    Record(usize),
    Array(Box<Type>, u32),
    List(Box<Type>, u32),
    /// Element, capacity, sort fields and key; fields are indices in the element.
    Sorted(usize, u32, Vec<usize>, usize),
    Window(u32, Box<Type>),
    /// An option list, by its index in [`super::ProgramPlan::options`], and its capacity.
    Options(usize, u32),
}

/// The widths that occur: all classes of storage, whole and odd.
const WIDTHS: &[u8] = &[
    1, 2, 3, 5, 7, 8, 8, 9, 12, 15, 16, 16, 17, 24, 31, 32, 32, 32, 33, 40, 48, 63, 64, 64, 64,
];

impl Type {
    /// Returns the type of the intermediate form, if functions with fixed types may have it.
    pub(super) fn from_ir(ty: &hawser_ir::Ty) -> Option<Type> {
        match ty {
            hawser_ir::Ty::Int { bits, signed: false } => Some(Type::Uint(*bits)),
            hawser_ir::Ty::Int { bits, signed: true } => Some(Type::Int(*bits)),
            hawser_ir::Ty::Ip => Some(Type::Ip),
            _ => None,
        }
    }

    /// True for types that fit in a register.
    pub(super) fn is_scalar(&self) -> bool {
        matches!(
            self,
            Type::Bool
                | Type::Uint(_)
                | Type::Int(_)
                | Type::Seq(_)
                | Type::Duration
                | Type::Time
                | Type::Varint
                | Type::Enum
                | Type::Addr
        )
    }

    /// Returns an integer type of any width.
    pub(super) fn integer(rng: &mut Rng) -> Type {
        let bits = *rng.pick(WIDTHS);
        if bits > 1 && rng.one_in(3) {
            Type::Int(bits)
        } else {
            Type::Uint(bits)
        }
    }

    /// Returns a circular type of any width.
    pub(super) fn circular(rng: &mut Rng) -> Type {
        Type::Seq((*rng.pick(WIDTHS)).max(2))
    }

    /// Returns any number, bool, enum or time type. Addresses are left out, because the language limits their
    /// use.
    pub(super) fn scalar(rng: &mut Rng) -> Type {
        match rng.below(15) {
            0 | 1 => Type::Bool,
            2 | 3 => Type::circular(rng),
            4 => Type::Duration,
            5 => Type::Time,
            6 => Type::Varint,
            7 => Type::Enum,
            _ => Type::integer(rng),
        }
    }

    /// Returns a type that a sliding window can have as positions.
    pub(super) fn position(rng: &mut Rng) -> Type {
        match rng.below(4) {
            0 => Type::Uint(64),
            1 => Type::Uint(*rng.pick(WIDTHS)),
            _ => Type::circular(rng),
        }
    }
}

/// The kind of a record's declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StructureKind {
    Struct,
    /// With the word after the colon.
    Event(&'static str),
    Context,
    Scratch,
    Signal,
    Opt,
    Blueprint,
    /// Built into the language; not declared.
    Builtin,
}

/// A declared structure of any kind.
#[derive(Clone, Debug)]
pub(super) struct StructureDecl {
    pub(super) name: String,
    pub(super) kind: StructureKind,
    pub(super) fields: Vec<Field>,
    pub(super) timers: Vec<String>,
}

/// A field of a record.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) ty: Type,
}

impl Field {
    pub(super) fn new(name: impl Into<String>, ty: Type) -> Field {
        Field { name: name.into(), ty }
    }
}

/// The built-in structures, by their index in [`super::ProgramPlan::records`].
pub(super) const NET: usize = 0;
pub(super) const OP: usize = 1;
pub(super) const ICMP: usize = 2;

/// Returns the built-in structures with their fields.
pub(super) fn builtin_records() -> Vec<StructureDecl> {
    let number = |name: &str, bits| Field::new(name, Type::Uint(bits));
    let record = |name: &str, fields| StructureDecl {
        name: name.to_owned(),
        kind: StructureKind::Builtin,
        fields,
        timers: Vec::new(),
    };
    let net = vec![
        Field::new("src_ip", Type::Ip),
        Field::new("dst_ip", Type::Ip),
        number("tot_len", 32),
        number("flow_label", 32),
        number("hdr_len", 16),
        number("segs", 16),
        number("seg_size", 16),
        number("protocol", 8),
        number("ttl", 8),
        number("ecn", 8),
        number("dscp", 8),
        number("prio", 8),
        number("version", 8),
        number("path_mtu", 32),
    ];
    let op = vec![
        Field::new("self", Type::Id),
        Field::new("local_ip", Type::Ip),
        Field::new("remote_ip", Type::Ip),
        Field::new("addr", Type::Addr),
        number("len", 64),
        number("sub", 64),
        number("arg", 64),
        number("path_mtu", 32),
        number("backlog", 32),
        number("local_port", 16),
        number("remote_port", 16),
        number("key", 32),
        number("remote_at", 64),
        number("link_mtu", 32),
        number("receive_limit", 32),
    ];
    let icmp = vec![
        number("kind", 32),
        number("mtu", 32),
        number("icmp_type", 8),
        number("icmp_code", 8),
    ];
    vec![
        record("IPheader", net),
        record("op_t", op),
        record("icmp_t", icmp),
    ]
}

pub(super) fn data_fields() -> Vec<Field> {
    vec![
        Field::new("uid", Type::Id),
        Field::new("off", Type::Uint(64)),
        Field::new("addr", Type::Addr),
        Field::new("len", Type::Uint(32)),
        Field::new("seg_size", Type::Uint(32)),
    ]
}
