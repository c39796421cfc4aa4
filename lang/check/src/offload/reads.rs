//! What an expression reads.

use hawser_ir::{Arg, Base, Expr, ExprKind, IdPart, Index, Place, Query, WireFact};

/// Something that an expression reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read<'e> {
    Place(&'e Place),
    Fact(WireFact),
}

/// Whether an expression reads a place of the blueprint for which `which` holds: in a rule, of the
/// packet before.
pub(super) fn of_blueprint(e: &Expr, which: impl Fn(&Place) -> bool) -> bool {
    let mut found = false;
    reads(e, &mut |read| match read {
        Read::Place(place) => found |= place.base == Base::Blueprint && which(place),
        Read::Fact(_) => {}
    });
    found
}

/// Tells `see` of everything that an expression reads, what it hands to functions included.
pub(super) fn reads<'e>(e: &'e Expr, see: &mut dyn FnMut(Read<'e>)) {
    match &e.kind {
        ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::RuleArg(_) | ExprKind::Wanted(_) => {}
        ExprKind::Wire(fact) => see(Read::Fact(*fact)),
        ExprKind::Load(p) | ExprKind::IsZero(p) => place(p, see),
        ExprKind::Cast(a) | ExprKind::Unary(_, a) => reads(a, see),
        ExprKind::Binary(_, a, b) | ExprKind::Compare(_, a, b) | ExprKind::And(a, b) | ExprKind::Or(a, b) => {
            reads(a, see);
            reads(b, see);
        }
        ExprKind::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| reads(e, see)),
        ExprKind::Builtin(_, args) => args.iter().for_each(|e| reads(e, see)),
        ExprKind::SameBytes(a, b) => {
            place(a, see);
            place(b, see);
        }
        ExprKind::Query(q) => query(q, see),
        ExprKind::KeyedHash(keys, parts) => {
            keys.iter().for_each(|e| reads(e, see));
            parts.iter().for_each(|part| match part {
                IdPart::Scalar(e, _) => reads(e, see),
                IdPart::Bytes(p) => place(p, see),
            });
        }
        ExprKind::Call(_, args) => args.iter().for_each(|arg| match arg {
            Arg::Value(e) => reads(e, see),
            Arg::Ref(p) => place(p, see),
        }),
    }
}

fn place<'e>(p: &'e Place, see: &mut dyn FnMut(Read<'e>)) {
    see(Read::Place(p));
    for step in &p.steps {
        match &step.index {
            Index::At(e) | Index::Key(e, _) => reads(e, see),
            Index::Tag(_) => {}
        }
    }
}

fn query<'e>(q: &'e Query, see: &mut dyn FnMut(Read<'e>)) {
    match q {
        Query::Len(p) | Query::HasTag(p, _) | Query::WindowHead(p) => place(p, see),
        Query::HasKey(p, e)
        | Query::WindowIsSet(p, e)
        | Query::WindowFirstSet(p, e)
        | Query::WindowFirstUnset(p, e)
        | Query::WindowRunFrom(p, e)
        | Query::WindowRunTo(p, e) => {
            place(p, see);
            reads(e, see);
        }
        Query::FirstFrom(p, values) => {
            place(p, see);
            values.iter().for_each(|e| reads(e, see));
        }
    }
}
