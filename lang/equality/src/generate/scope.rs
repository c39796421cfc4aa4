//! The names in a body: variables, and the paths from them to a value of a suitable type.

use super::ProgramPlan;
use super::types::{Type, data_fields};
use crate::rng::Rng;

/// A named value.
#[derive(Clone, Debug)]
pub(super) struct Var {
    /// The text of the name or path.
    pub(super) path: String,
    pub(super) ty: Type,
    pub(super) writable: bool,
}

impl Var {
    pub(super) fn new(path: impl Into<String>, ty: Type, writable: bool) -> Var {
        Var { path: path.into(), ty, writable }
    }
}

/// The maximum number of fields and elements in a path.
const DEPTH: u32 = 5;

/// Finds a path from one of the variables to a suitable value by a limited number of random walks. `index`
/// writes an index into a list.
pub(super) fn find(
    plan: &ProgramPlan,
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
        // Later variables are nearer and slightly preferred.
        let mut at = rng
            .below(vars.len())
            .max(if rng.one_in(3) { rng.below(vars.len()) } else { 0 });
        for _ in 0..3 {
            // Memory is preferred to constants and the clock.
            if vars[at].ty.is_scalar() && !vars[at].writable {
                at = rng.below(vars.len());
            }
        }
        let found = walk(plan, rng, vars[at].clone(), suits, index);
        // `l.at(i)` is read, and it leads to the element's fields; it cannot be assigned to itself.
        if let Some(found) = found.filter(|found| !assigned || !found.path.ends_with(')')) {
            return Some(found);
        }
    }
    None
}

fn walk(
    plan: &ProgramPlan,
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

/// Extends a path by one field or element.
fn step(
    plan: &ProgramPlan,
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
            // An element that is reached by a call is only read here, because of the grammar.
            let writable = at.writable;
            Some(Var::new(path, (**elem).clone(), writable))
        }
        Type::Array(elem, _) => {
            let path = format!("{}[{}]", at.path, index(rng, &Type::Uint(32)));
            Some(Var::new(path, (**elem).clone(), at.writable))
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
        _ => None,
    }
}
