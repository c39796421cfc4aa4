//! The reads of an expression.

use hawser_ir::visit::{PlaceAccess, Visitor, visit_expr};
use hawser_ir::{Base, Expr, ExprKind, Place, WireFact};

/// True if an expression reads a place of the blueprint for which `which` holds. In a rule, this is the
/// blueprint of the previous packet. References that it passes to functions count.
pub(super) fn of_blueprint(e: &Expr, which: impl Fn(&Place) -> bool) -> bool {
    let mut reads = Reads { which, found: false };
    visit_expr(&mut reads, e);
    reads.found
}

struct Reads<F> {
    which: F,
    found: bool,
}

impl<F: Fn(&Place) -> bool> Visitor<'_> for Reads<F> {
    fn place(&mut self, place: &Place, _: PlaceAccess) {
        self.found |= place.base == Base::Blueprint && (self.which)(place);
    }
}

/// True if an expression depends on the length of the packet's payload.
pub(super) fn payload_len(e: &Expr) -> bool {
    let mut found = PayloadLen(false);
    visit_expr(&mut found, e);
    found.0
}

struct PayloadLen(bool);

impl Visitor<'_> for PayloadLen {
    fn expr(&mut self, e: &Expr) {
        self.0 |= matches!(e.kind, ExprKind::Wire(WireFact::TotalLen | WireFact::DataLen));
    }
}
