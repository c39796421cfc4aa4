//! Number literals. They are always typed, so that no operand widens unexpectedly.

use super::types::Type;
use crate::rng::Rng;

/// Generates a literal of a scalar type.
pub(super) fn literal(rng: &mut Rng, ty: &Type) -> String {
    match ty {
        Type::Bool => ["true", "false"][rng.below(2)].to_owned(),
        Type::Uint(bits) => format!("uint{bits}({})", unsigned(rng, *bits)),
        Type::Int(bits) => format!("int{bits}({})", signed(rng, *bits)),
        Type::Seq(bits) => format!("seq<{bits}>({})", rng.edge(*bits)),
        Type::Duration => match rng.below(3) {
            0 => format!("{}ms", rng.below(5000)),
            1 => format!("{}ns", rng.below(3)),
            _ => format!("duration_t({})", rng.edge(64)),
        },
        Type::Time => format!("time_t({})", rng.edge(64)),
        Type::Varint => format!("uint64({})", rng.edge(62)),
        Type::Enum => (*rng.pick(&["RED", "GREEN", "kinds::BLUE", "kinds(7)"])).to_owned(),
        Type::Addr
        | Type::Ip
        | Type::Id
        | Type::Bytes(_)
        | Type::Data
        | Type::Record(_)
        | Type::Array(..)
        | Type::List(..)
        | Type::Sorted(..)
        | Type::Window(..)
        | Type::Options(..) => "NONE".to_owned(),
    }
}

fn unsigned(rng: &mut Rng, bits: u8) -> String {
    let value = rng.edge(bits);
    if rng.one_in(6) {
        format!("{value:#x}")
    } else {
        value.to_string()
    }
}

fn signed(rng: &mut Rng, bits: u8) -> String {
    let spare = 64 - u32::from(bits);
    let value = (rng.edge(bits) << spare) as i64 >> spare;
    value.to_string()
}

/// Generates an index of a list, mostly a valid position.
pub(super) fn index(rng: &mut Rng, ty: &Type) -> String {
    let Type::Uint(bits) = ty else {
        return literal(rng, ty);
    };
    let small = rng.below(5) as u64 & (u64::MAX >> (64 - u32::from(*bits)));
    let value = if rng.one_in(6) { rng.edge(*bits) } else { small };
    format!("uint{bits}({value})")
}

/// Returns the type and the number of a literal that this module has written.
pub(super) fn typed(text: &str) -> Option<(Type, &str)> {
    let (name, number) = text.strip_suffix(')')?.split_once('(')?;
    let ty = if let Some(bits) = name.strip_prefix("uint") {
        Type::Uint(bits.parse().ok()?)
    } else if let Some(bits) = name.strip_prefix("int") {
        Type::Int(bits.parse().ok()?)
    } else {
        Type::Seq(name.strip_prefix("seq<")?.strip_suffix('>')?.parse().ok()?)
    };
    Some((ty, number))
}
