//! Headers that are only partly parsed, because only parts of them are read.
//!
//! This applies to a header that a parser extracts into a variable of which it then reads only single fields
//! and options. Other fields need not be stored, and missing parts need not be zeroed.

use std::collections::{BTreeMap, BTreeSet};

use hawser_ir::visit::{self, PlaceAccess, Visitor};
use hawser_ir::{
    Arg, Base, BlueprintId, Expr, ExprKind, Fill, FuncId, Module, Place, Query, Stmt, StmtKind, Ty, WireField,
};

use super::format::{computed, inner, options, options_behind};

/// By blueprint: the bytes of its image that are read, if not all of it counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sparse(BTreeMap<BlueprintId, BTreeSet<u32>>);

impl Sparse {
    /// Determines the parts that the functions of a module read of the headers that they extract.
    pub(crate) fn from_module(module: &Module) -> Sparse {
        let mut found: BTreeMap<BlueprintId, Option<BTreeSet<u32>>> = BTreeMap::new();
        for (index, func) in module.funcs.iter().enumerate() {
            for (id, dst, checked) in extracts(&func.body) {
                let entry = found.entry(id).or_insert_with(|| Some(BTreeSet::new()));
                let sites = extracts(&func.body).len();
                let read = reads(module, FuncId(index as u32), id, &dst).filter(|_| !checked && sites == 1);
                *entry = entry.take().zip(read).map(|(all, read)| &all | &read);
            }
        }
        let nested: BTreeSet<BlueprintId> = (0..module.blueprints.len())
            .flat_map(|i| inner(module, BlueprintId(i as u32)))
            .collect();
        let fits = |id: &BlueprintId| {
            options_behind(&module.blueprints[id.0 as usize]).is_some() && !nested.contains(id)
        };
        let found = found.into_iter().filter(|(id, _)| fits(id));
        Sparse(
            found
                .filter_map(|(id, read)| Some((id, &read? | &own(module, id))))
                .collect(),
        )
    }

    /// True if a blueprint is read only in part.
    pub(super) fn holds(&self, id: BlueprintId) -> bool {
        self.0.contains_key(&id)
    }

    /// Returns the fields of the payload's reference, at an offset, that must be stored; `None` for all of
    /// it.
    pub(super) fn of_payload(&self, id: BlueprintId, at: u32) -> Option<Vec<&'static str>> {
        let size = size_of::<hawser_ir::abi::Data>() as u32;
        let read: Vec<u32> = self
            .0
            .get(&id)?
            .range(at..at + size)
            .map(|offset| offset - at)
            .collect();
        let fields = [
            ("addr", std::mem::offset_of!(hawser_ir::abi::Data, addr) as u32),
            ("len", std::mem::offset_of!(hawser_ir::abi::Data, len) as u32),
        ];
        // All other fields are zero.
        let known = read
            .iter()
            .all(|offset| fields.iter().any(|(_, known)| known == offset));
        let stored = fields
            .iter()
            .filter(|(_, offset)| read.contains(offset))
            .map(|(name, _)| *name);
        known.then(|| stored.collect())
    }

    /// True if a field of a blueprint's image must be stored.
    pub(super) fn needs(&self, id: BlueprintId, field: &WireField) -> bool {
        let offset = match field {
            WireField::Bits { offset, .. }
            | WireField::Varint { offset, .. }
            | WireField::Bytes { offset, .. }
            | WireField::Opaque { offset, .. }
            | WireField::Nested { offset, .. }
            | WireField::Options { offset, .. }
            | WireField::Repeat { offset, .. } => offset,
        };
        self.0.get(&id).is_none_or(|read| read.contains(offset))
    }
}

/// Returns the extractions of a function: blueprint, destination, and whether the function continues after a
/// failure.
fn extracts(body: &[Stmt]) -> Vec<(BlueprintId, Place, bool)> {
    let mut found = Vec::new();
    hawser_ir::statements(body, &mut |stmt| {
        if let StmtKind::Extract { blueprint, dst, ok } = &stmt.kind {
            found.push((*blueprint, dst.clone(), ok.is_some()));
        }
    });
    found
}

/// Returns the offsets that a function reads of a header that it extracts; `None` if it uses more than
/// numbers and options of it.
fn reads(module: &Module, func: FuncId, id: BlueprintId, dst: &Place) -> Option<BTreeSet<u32>> {
    if dst.base != Base::Local || !dst.steps.is_empty() {
        return None;
    }
    let blueprint = &module.blueprints[id.0 as usize];
    let (_, list_at, _) = options(blueprint)?;
    let mut visit = Reads {
        module,
        base: Base::Local,
        image: dst.offset,
        size: module.structure(blueprint.body).size,
        list_at,
        asked: None,
        found: Some(BTreeSet::new()),
    };
    visit::visit_block(&mut visit, &module.funcs[func.0 as usize].body);
    visit.found
}

/// Returns the offsets that reading and verifying the header itself need.
fn own(module: &Module, id: BlueprintId) -> BTreeSet<u32> {
    let blueprint = &module.blueprints[id.0 as usize];
    let mut needs = Own(BTreeSet::new());
    for field in blueprint.header.iter().chain(&blueprint.trailer) {
        match field {
            WireField::Bits { offset: at, fill: Some(Fill::HeaderWords), .. }
            | WireField::Opaque { count_at: at, .. }
            | WireField::Repeat { count_at: at, .. } => {
                needs.0.insert(*at);
            }
            WireField::Nested { when: Some(when), .. } => visit::visit_expr(&mut needs, when),
            WireField::Bits { .. }
            | WireField::Varint { .. }
            | WireField::Bytes { .. }
            | WireField::Nested { when: None, .. }
            | WireField::Options { .. } => {}
        }
    }
    for (field, expr) in computed(blueprint) {
        needs.0.insert(field.offset);
        visit::visit_expr(&mut needs, expr);
    }
    if let Some((list, ..)) = options(blueprint)
        && let Some(len) = &module.opt_list(list).len
    {
        visit::visit_expr(&mut needs, len);
    }
    needs.0.extend(blueprint.crc().map(|crc| crc.offset));
    needs.0
}

struct Own(BTreeSet<u32>);

impl Visitor<'_> for Own {
    fn place(&mut self, place: &Place, _: PlaceAccess) {
        if place.base == Base::Blueprint {
            self.0.insert(place.offset);
        }
    }
}

/// Collects the reads of an image in a variable, or behind a parameter.
struct Reads<'a> {
    module: &'a Module,
    base: Base,
    /// The offset at which the image begins.
    image: u32,
    size: u32,
    list_at: u32,
    /// The address of the list that a query is about; it is not read as a whole.
    asked: Option<usize>,
    /// The offsets in the image; `None` if there are reads that cannot be determined.
    found: Option<BTreeSet<u32>>,
}

impl Reads<'_> {
    /// Returns the offset of a place in the image, if it lies there.
    fn offset(&self, place: &Place) -> Option<u32> {
        let offset = place.offset.checked_sub(self.image)?;
        (place.base == self.base && offset < self.size).then_some(offset)
    }
}

impl Visitor<'_> for Reads<'_> {
    fn place(&mut self, place: &Place, access: PlaceAccess) {
        let Some(offset) = self.offset(place).filter(|_| access.reads()) else {
            return;
        };
        let in_list = offset == self.list_at && !place.steps.is_empty();
        if in_list || self.asked == Some(std::ptr::from_ref(place) as usize) {
            return;
        }
        if let Some(found) = self
            .found
            .as_mut()
            .filter(|_| place.ty.is_scalar() && place.steps.is_empty())
        {
            found.insert(offset);
        } else {
            self.found = None;
        }
    }

    fn call(&mut self, func: FuncId, args: &[Arg]) {
        let module = self.module;
        let refs = args.iter().filter_map(|arg| match arg {
            Arg::Ref(place) => Some(place),
            Arg::Value(_) => None,
        });
        for (n, place) in refs.enumerate() {
            let Some(offset) = self.offset(place) else {
                continue;
            };
            if offset == self.list_at && !place.steps.is_empty() {
                continue;
            }
            if offset != 0 || !place.steps.is_empty() || !matches!(place.ty, Ty::Struct(_)) {
                self.found = None;
                return;
            }
            let mut inside = Reads {
                base: Base::Ref(n as _),
                image: 0,
                asked: None,
                found: self.found.take(),
                ..*self
            };
            visit::visit_block(&mut inside, &module.funcs[func.0 as usize].body);
            self.found = inside.found;
        }
    }

    fn expr(&mut self, e: &Expr) {
        if let ExprKind::Query(Query::Len(list) | Query::HasTag(list, _)) = &e.kind {
            self.asked = Some(std::ptr::from_ref(list) as usize);
        }
    }
}
