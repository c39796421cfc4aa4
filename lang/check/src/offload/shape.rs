//! The effect of a segmentation rule on its field over the packets of one instruction.

use hawser_ir::abi::Data;
use hawser_ir::{Base, BinOp, Expr, ExprKind, Place, SegRule, Ty};

use super::reads;

/// The recognised forms. In all of them, the first packet's value depends on the rule's arguments alone. A
/// single packet has the same value or, for [`RuleShape::LastOnly`], the last packet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleShape {
    /// The same value in every packet.
    Same,
    /// The previous packet's value plus the previous packet's payload bytes, modulo 2^32.
    Grows,
    /// Zero in all packets except the last.
    LastOnly,
    /// Zero in all packets except the first.
    FirstOnly,
    /// Any other form, with a description.
    Other(&'static str),
}

impl RuleShape {
    /// Determines the form of a rule. The blueprint's `data_t` is at `data_at`.
    pub(super) fn from_rule(rule: &SegRule, data_at: u32) -> RuleShape {
        let SegRule { first, mid, last, only, .. } = rule;
        let sums = |e: &Expr| is_previous_plus_payload(e, &rule.field, data_at);
        if mentions_previous(first) || mentions_previous(only) {
            return RuleShape::Other("looks at an earlier packet for the first one");
        }
        if sums(mid) && sums(last) {
            return if first == only {
                RuleShape::Grows
            } else {
                RuleShape::Other("starts elsewhere when it is the only one")
            };
        }
        if mentions_previous(mid) || mentions_previous(last) {
            return RuleShape::Other("goes from packet to packet by something else than the payload's bytes");
        }
        match (is_zero(first), is_zero(mid), is_zero(last)) {
            _ if first == mid && mid == last && last == only => RuleShape::Same,
            (true, true, _) if last == only => RuleShape::LastOnly,
            (_, true, true) if first == only => RuleShape::FirstOnly,
            (true, true, _) | (_, true, true) => {
                RuleShape::Other("has a value of its own for an only packet")
            }
            _ => RuleShape::Other("gives packets values that no device gives them"),
        }
    }
}

fn is_zero(e: &Expr) -> bool {
    e.kind == ExprKind::Const(0)
}

/// True if an expression reads the previous packet.
fn mentions_previous(e: &Expr) -> bool {
    reads::of_blueprint(e, |_| true)
}

/// True for `prev.field + prev.data.len`, in either order, considering the low 32 bits.
fn is_previous_plus_payload(e: &Expr, field: &Place, data_at: u32) -> bool {
    let ExprKind::Binary(BinOp::Add, a, b) = &widened(e).kind else {
        return false;
    };
    let len_at = data_at + std::mem::offset_of!(Data, len) as u32;
    let is = |e: &Expr, offset: u32, ty: &Ty| match &widened(e).kind {
        ExprKind::Load(place) => {
            place.base == Base::Blueprint
                && place.offset == offset
                && place.steps.is_empty()
                && place.ty == *ty
        }
        _ => false,
    };
    let (previous, payload) = (
        |e: &Expr| is(e, field.offset, &field.ty),
        |e: &Expr| is(e, len_at, &Ty::uint(32)),
    );
    (previous(a) && payload(b)) || (payload(a) && previous(b))
}

/// Removes conversions that keep the low 32 bits; sums modulo 2^32 are the same without them.
fn widened(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Cast(inner) if keeps_low_bits(&e.ty) && keeps_low_bits(&inner.ty) => widened(inner),
        _ => e,
    }
}

fn keeps_low_bits(ty: &Ty) -> bool {
    ty.width().is_some_and(|(bits, _)| bits >= 32)
}
