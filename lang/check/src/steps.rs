//! Steps: the unit in which the work of a chain is bounded.
//!
//! A step is a statement, an operation in an expression, or a round of a loop. It is also an element that a
//! search may examine, or 8 bytes that are moved, zeroed or hashed. `bounds` multiplies steps by the rounds
//! of loops and adds those of calls. The engine limits the work that the target does on records after the
//! chain.

use hawser_ir::{
    Blueprint, ContainerOp, Expr, ExprKind, Fill, Func, IdPart, Index, Layout, Module, Place, Query,
    StmtKind, Ty, WireField,
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
        1 + match stmt {
            StmtKind::Copy(place, _)
            | StmtKind::Init(place)
            | StmtKind::MakeId(place, _)
            | StmtKind::MakeData { dst: place, .. }
            | StmtKind::MakeIpv4(place, _) => self.words(place),
            StmtKind::Container { op, .. } => match op {
                ContainerOp::PushBack(place, _)
                | ContainerOp::PopFront(place, _)
                | ContainerOp::Clear(place)
                | ContainerOp::Put(place, _)
                | ContainerOp::Remove(place, _)
                | ContainerOp::WindowSet(place, ..)
                | ContainerOp::WindowUnset(place, ..)
                | ContainerOp::WindowSlide(place, _)
                | ContainerOp::OptionAdd(place, ..) => self.words(place) + self.elements(&place.ty),
            },
            StmtKind::Extract { blueprint, .. } => {
                self.extract(&self.module.blueprints[blueprint.0 as usize])
            }
            StmtKind::PushEvent { event, .. } => self.module.event_size(*event) as u64 / 8,
            StmtKind::Store(..)
            | StmtKind::If(..)
            | StmtKind::For { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(_)
            | StmtKind::Call(..)
            | StmtKind::Emit(_)
            | StmtKind::Done
            | StmtKind::Refuse(_)
            | StmtKind::Assert(..)
            | StmtKind::SetIds { .. }
            | StmtKind::Drop => 0,
        }
    }

    /// The steps of an expression without those in it.
    pub(crate) fn expr(&self, expr: &Expr) -> u64 {
        match &expr.kind {
            ExprKind::Const(_) => 0,
            ExprKind::SameBytes(place, _) | ExprKind::IsZero(place) => 1 + self.words(place),
            ExprKind::Query(query) => 1 + self.query(query),
            ExprKind::KeyedHash(_, parts) => 1 + parts.iter().map(|part| self.id_part(part)).sum::<u64>(),
            ExprKind::Param(_)
            | ExprKind::Table(..)
            | ExprKind::Load(_)
            | ExprKind::Cast(_)
            | ExprKind::Binary(..)
            | ExprKind::Compare(..)
            | ExprKind::Unary(..)
            | ExprKind::And(..)
            | ExprKind::Or(..)
            | ExprKind::Select(..)
            | ExprKind::Builtin(..)
            | ExprKind::Call(..)
            | ExprKind::RuleArg(_)
            | ExprKind::Wanted(_)
            | ExprKind::Wire(_) => 1,
        }
    }

    /// The steps of a place: the searches on its path.
    pub(crate) fn place(&self, place: &Place) -> u64 {
        let step = |step: &hawser_ir::Step| match step.index {
            Index::At(_) => 1,
            Index::Tag(_) | Index::Key(..) => 1 + u64::from(step.cap),
        };
        place.steps.iter().map(step).sum()
    }

    fn query(&self, query: &Query) -> u64 {
        match query {
            Query::Len(_) | Query::WindowHead(_) | Query::WindowRunFrom(..) | Query::WindowRunTo(..) => 0,
            Query::HasTag(place, _)
            | Query::HasKey(place, _)
            | Query::FirstFrom(place, _)
            | Query::WindowIsSet(place, _)
            | Query::WindowFirstSet(place, _)
            | Query::WindowFirstUnset(place, _) => self.elements(&place.ty),
        }
    }

    fn id_part(&self, part: &IdPart) -> u64 {
        match part {
            IdPart::Scalar(..) => 1,
            IdPart::Bytes(place) => self.words(place),
        }
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

    fn words(&self, place: &Place) -> u64 {
        u64::from(self.layout.size(&place.ty)).div_ceil(8)
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
