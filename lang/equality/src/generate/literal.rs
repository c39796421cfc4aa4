//! Numbers as they are written: always with their type, so that no operand widens by surprise.

use super::types::Type;
use crate::dice::Dice;

/// A literal of a scalar type.
pub(super) fn literal(dice: &mut Dice, ty: &Type) -> String {
    match ty {
        Type::Bool => ["true", "false"][dice.below(2)].to_owned(),
        Type::Uint(bits) => format!("uint{bits}({})", unsigned(dice, *bits)),
        Type::Int(bits) => format!("int{bits}({})", signed(dice, *bits)),
        Type::Seq(bits) => format!("seq<{bits}>({})", dice.edge(*bits)),
        Type::Duration => match dice.below(3) {
            0 => format!("{}ms", dice.below(5000)),
            1 => format!("{}ns", dice.below(3)),
            _ => format!("duration_t({})", dice.edge(64)),
        },
        Type::Time => format!("time_t({})", dice.edge(64)),
        Type::Varint => format!("uint64({})", dice.edge(62)),
        Type::Enum => (*dice.pick(&["RED", "GREEN", "kinds::BLUE", "kinds(7)"])).to_owned(),
        Type::Addr => "NONE".to_owned(),
        Type::Ip
        | Type::Id
        | Type::Bytes(_)
        | Type::Data
        | Type::Record(_)
        | Type::List(..)
        | Type::Sorted(..)
        | Type::Window(..)
        | Type::Options(..) => "NONE".to_owned(),
    }
}

fn unsigned(dice: &mut Dice, bits: u8) -> String {
    let value = dice.edge(bits);
    if dice.one_in(6) {
        format!("{value:#x}")
    } else {
        value.to_string()
    }
}

fn signed(dice: &mut Dice, bits: u8) -> String {
    let spare = 64 - u32::from(bits);
    let value = (dice.edge(bits) << spare) as i64 >> spare;
    value.to_string()
}

/// What stands between the brackets of a list: mostly a position that can be there.
pub(super) fn index(dice: &mut Dice, ty: &Type) -> String {
    match ty {
        Type::Uint(bits) => {
            let small = dice.below(5) as u64 & (u64::MAX >> (64 - u32::from(*bits)));
            let value = if dice.one_in(6) { dice.edge(*bits) } else { small };
            format!("uint{bits}({value})")
        }
        Type::Int(_)
        | Type::Bool
        | Type::Seq(_)
        | Type::Duration
        | Type::Time
        | Type::Varint
        | Type::Enum
        | Type::Addr
        | Type::Ip
        | Type::Id
        | Type::Bytes(_)
        | Type::Data
        | Type::Record(_)
        | Type::List(..)
        | Type::Sorted(..)
        | Type::Window(..)
        | Type::Options(..) => literal(dice, ty),
    }
}

/// The type and the number of a literal that this module has written.
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
