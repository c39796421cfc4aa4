//! Facts about a header's fields that hold for every packet: widths, constants, the order of bytes.

use crate::{Blueprint, ExprKind, Fill, WireField};

impl WireField {
    /// Returns the number of bits of a field, if that number is constant.
    #[must_use]
    pub fn fixed_bits(&self) -> Option<u32> {
        match self {
            WireField::Bits { bits, .. } => Some(u32::from(*bits)),
            WireField::Bytes { len, .. } => Some(len * 8),
            _ => None,
        }
    }
}

/// A constant of a header: its first bit on the wire, its number of bits, and these bits as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireConstant {
    pub at: u32,
    pub bits: u32,
    pub value: u64,
}

/// Returns a number of `bits` bits as it stands on the wire, where the most significant byte is first.
#[must_use]
pub fn on_wire(value: u64, bits: u8, little: bool) -> u64 {
    match little {
        true => value.swap_bytes() >> (64 - bits),
        false => value,
    }
}

impl Blueprint {
    /// Returns the constant fields up to the first field of varying length. They distinguish the members of
    /// an option list.
    #[must_use]
    pub fn constants(&self) -> Vec<WireConstant> {
        let mut at = 0;
        let mut found = Vec::new();
        for field in &self.header {
            if let WireField::Bits { fill: Some(Fill::Value(value)), bits, little, .. } = field
                && let ExprKind::Const(value) = value.kind
            {
                found.push(WireConstant {
                    at,
                    bits: u32::from(*bits),
                    value: on_wire(value, *bits, *little),
                });
            }
            let Some(bits) = field.fixed_bits() else { break };
            at += bits;
        }
        found
    }
}
