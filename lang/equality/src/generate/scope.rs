//! What a body can name: variables, and the paths from them to something of a wanted type.

use super::Plan;
use super::types::{Type, data_fields};
use crate::rng::Rng;

/// Something with a name.
#[derive(Clone, Debug)]
pub(super) struct Var {
    /// How it is written.
    pub(super) path: String,
    pub(super) ty: Type,
    pub(super) writable: bool,
}

impl Var {
    pub(super) fn new(path: impl Into<String>, ty: Type, writable: bool) -> Var {
        Var { path: path.into(), ty, writable }
    }
}

/// The maximum number of fields and elements that a path goes through.
const DEPTH: u32 = 5;

/// A path from one of the variables to something that suits; a few random walks are tried.
/// `index` writes an index into a list.
pub(super) fn find(
    plan: &Plan,
    rng: &mut Rng,
    vars: &[&Var],
    assigned: bool,
    suits: &dyn Fn(&Type) -> bool,
    index: &mut dyn FnMut(&mut Rng, &Type) -> String,
) -> Option<Var> {
    for _ in 0..24 {
        if vars.is_empty() {
            return None;
        }
        // Late ones are near: prefer them a little.
        let mut at = rng
            .below(vars.len())
            .max(if rng.one_in(3) { rng.below(vars.len()) } else { 0 });
        for _ in 0..3 {
            // Memory is more interesting than constants and the clock.
            if vars[at].ty.is_scalar() && !vars[at].writable {
                at = rng.below(vars.len());
            }
        }
        let found = walk(plan, rng, vars[at].clone(), suits, index);
        // `l.at(i)` is read, and a way to the element's fields; by itself it is not assigned to.
        if let Some(found) = found.filter(|found| !assigned || !found.path.ends_with(')')) {
            return Some(found);
        }
    }
    None
}

fn walk(
    plan: &Plan,
    rng: &mut Rng,
    from: Var,
    suits: &dyn Fn(&Type) -> bool,
    index: &mut dyn FnMut(&mut Rng, &Type) -> String,
) -> Option<Var> {
    let mut at = from;
    for _ in 0..DEPTH {
        if suits(&at.ty) && !rng.one_in(4) {
            return Some(at);
        }
        at = step(plan, rng, &at, index)?;
    }
    suits(&at.ty).then_some(at)
}

/// One field or element further on.
fn step(
    plan: &Plan,
    rng: &mut Rng,
    at: &Var,
    index: &mut dyn FnMut(&mut Rng, &Type) -> String,
) -> Option<Var> {
    let field = |name: &str, ty: &Type| Var::new(format!("{}.{name}", at.path), ty.clone(), at.writable);
    match &at.ty {
        Type::Record(id) => {
            let fields = &plan.records[*id].fields;
            (!fields.is_empty()).then(|| {
                let chosen = rng.pick(fields);
                field(&chosen.name, &chosen.ty)
            })
        }
        Type::Data => {
            let fields = data_fields();
            let chosen = rng.pick(&fields);
            Some(field(&chosen.name, &chosen.ty))
        }
        Type::List(elem, _) => {
            let position = index(rng, &Type::Uint(32));
            let path = if rng.one_in(4) {
                format!("{}.at({position})", at.path)
            } else {
                format!("{}[{position}]", at.path)
            };
            // An element reached by a call is read here, for the sake of the grammar.
            let writable = at.writable;
            Some(Var::new(path, (**elem).clone(), writable))
        }
        Type::Sorted(row, _, _, key) => {
            let path = if rng.one_in(2) {
                format!("{}.at({})", at.path, index(rng, &Type::Uint(32)))
            } else {
                let key = plan.records[*row].fields[*key].ty.clone();
                format!("{}[{}]", at.path, index(rng, &key))
            };
            Some(Var::new(path, Type::Record(*row), at.writable))
        }
        Type::Options(list, _) => {
            let member = *rng.pick(&plan.options[*list].members);
            let name = &plan.records[member].name;
            Some(Var::new(
                format!("{}[{name}]", at.path),
                Type::Record(member),
                at.writable,
            ))
        }
        Type::Bool
        | Type::Uint(_)
        | Type::Int(_)
        | Type::Seq(_)
        | Type::Duration
        | Type::Time
        | Type::Varint
        | Type::Enum
        | Type::Addr
        | Type::Ip
        | Type::Id
        | Type::Bytes(_)
        | Type::Window(..) => None,
    }
}
