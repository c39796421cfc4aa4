//! Steps: the unit in which the work of a chain is bounded.
//!
//! A step is a statement, an operation in an expression, or a round of a loop. It is also an element that a
//! search may examine, or 8 bytes that are moved, zeroed or hashed. `bounds` multiplies steps by the rounds
//! of loops and adds those of calls. The engine limits the work that the target does on records after the
//! chain.

use hawser_ir::facts::{Facts, Work};
use hawser_ir::{
    Blueprint, Expr, ExprKind, Fill, Func, Index, Layout, Module, Node, Place, StmtKind, Ty, WireField,
};

/// The maximum number of steps of a chain, of a parser and of a coalescing rule: some 0.2 s on the
/// interpreter.
pub(crate) const MAX_STEPS: u64 = 10_000_000;

/// The maximum number of steps that an attachment to a running program may add to a chain. It takes some 2 ms
/// on the interpreter, for each event.
pub(crate) const MAX_ATTACHED_STEPS: u64 = 100_000;

/// The maximum size of a packet in bytes (RFC 791, RFC 8200); a checksum may cover all of it.
const MAX_PACKET: u64 = 1 << 16;

/// Formats a number with commas between its thousands.
pub(crate) fn in_groups(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The steps of single nodes.
pub(crate) struct Weights<'m> {
    module: &'m Module,
    layout: Layout<'m>,
}

impl<'m> Weights<'m> {
    pub(crate) fn new(module: &'m Module, member_size: &'m [u32]) -> Weights<'m> {
        Weights { module, layout: Layout { structs: &module.structs, member_size } }
    }

    /// The steps to zero a function's frame.
    pub(crate) fn entry(&self, func: &Func) -> u64 {
        1 + u64::from(func.frame) / 8
    }

    /// The steps of a statement without the expressions and places in it.
    pub(crate) fn statement(&self, stmt: &StmtKind) -> u64 {
        1 + self.beyond_one(stmt)
    }

    /// The steps of an expression without those in it.
    pub(crate) fn expr(&self, expr: &Expr) -> u64 {
        match expr.kind {
            ExprKind::Const(_) => 0,
            _ => 1 + self.beyond_one(&expr.kind),
        }
    }

    fn beyond_one(&self, node: &impl Node) -> u64 {
        let mut own = OwnSteps { weights: self, steps: 0 };
        node.facts(&mut own);
        own.steps
    }

    /// The steps of a place: the searches on its path.
    pub(crate) fn place(&self, place: &Place) -> u64 {
        let step = |step: &hawser_ir::Step| match step.index {
            Index::At(_) | Index::Item(_) => 1,
            Index::Tag(_) | Index::Key(..) => 1 + u64::from(step.cap),
        };
        place.steps.iter().map(step).sum()
    }

    /// The steps of `extract`: the header is parsed byte by byte, and checksums cover the whole packet.
    fn extract(&self, blueprint: &Blueprint) -> u64 {
        let sums = |field: &WireField| match field {
            WireField::Bits { fill: Some(Fill::Checksum16 { .. } | Fill::Crc32 { .. }), .. } => {
                MAX_PACKET / 8
            }
            _ => 0,
        };
        let fields = blueprint.header.iter().chain(&blueprint.trailer);
        u64::from(blueprint.max_len) + fields.map(sums).sum::<u64>()
    }

    /// Returns the maximum number of elements of a container.
    fn elements(&self, ty: &Ty) -> u64 {
        match ty {
            Ty::List { cap, .. } | Ty::Sorted { cap, .. } | Ty::Options { cap, .. } => (*cap).into(),
            Ty::Window { runs, .. } => (*runs).into(),
            _ => 1,
        }
    }
}

/// Adds up the steps of a node itself.
struct OwnSteps<'w, 'm> {
    weights: &'w Weights<'m>,
    steps: u64,
}

impl Facts<'_> for OwnSteps<'_, '_> {
    fn work(&mut self, work: Work<'_>) {
        let weights = self.weights;
        self.steps += match work {
            Work::Bytes(ty) => u64::from(weights.layout.size(ty)).div_ceil(8),
            Work::Elements(ty) => weights.elements(ty),
            Work::Event(event) => weights.module.event_size(event) as u64 / 8,
            Work::Header(blueprint) => weights.extract(&weights.module.blueprints[blueprint.0 as usize]),
        };
    }
}
