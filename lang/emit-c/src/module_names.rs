//! The C names of a module's parts, assigned once: by structure, option list, blueprint and rule. The order
//! of a structure's fields in memory is also computed once.

use std::rc::Rc;

use hawser_ir::{BlueprintId, Module, OptListId, RuleId, StructId};

use crate::emitter::Emitter;
use crate::names::ScopeNames;

/// The names; those within one list are distinct.
pub(crate) struct ModuleNames {
    fields: Vec<Rc<[String]>>,
    /// By structure: the indices of its fields, in order of their offsets.
    lying: Vec<Rc<[usize]>>,
    options: Vec<Vec<String>>,
    blueprints: Vec<String>,
    rules: Vec<String>,
}

impl ModuleNames {
    pub(crate) fn new(module: &Module) -> ModuleNames {
        let fields = |names: &[hawser_ir::Field]| {
            let mut taken = ScopeNames::default();
            taken.take("head");
            names.iter().map(|field| taken.take(&field.name)).collect()
        };
        ModuleNames {
            fields: module
                .structs
                .iter()
                .map(|structure| fields(&structure.fields))
                .collect(),
            lying: module
                .structs
                .iter()
                .map(|structure| by_offset(&structure.fields))
                .collect(),
            options: module
                .opt_lists
                .iter()
                .map(|list| all(list.members.iter().map(|m| &m.name)))
                .collect(),
            blueprints: all(module.blueprints.iter().map(|blueprint| &blueprint.name)),
            rules: all(module.seg_rules.iter().map(|rule| &rule.name)),
        }
    }
}

fn by_offset(fields: &[hawser_ir::Field]) -> Rc<[usize]> {
    let mut order: Vec<usize> = (0..fields.len()).collect();
    order.sort_by_key(|index| fields[*index].offset);
    order.into()
}

/// Returns a distinct name for each of these.
fn all<'n>(wanted: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut names = ScopeNames::default();
    wanted.map(|name| names.take(name)).collect()
}

impl Emitter<'_> {
    /// Returns the names of a structure's fields, in order.
    pub(crate) fn field_names(&self, id: StructId) -> Rc<[String]> {
        self.given.fields[id.0 as usize].clone()
    }

    /// Returns the indices of a structure's fields, in order of their offsets.
    pub(crate) fn fields_as_they_lie(&self, id: StructId) -> Rc<[usize]> {
        self.given.lying[id.0 as usize].clone()
    }

    /// Returns the name of a member of an option list.
    pub(crate) fn option_name(&self, list: OptListId, tag: u32) -> String {
        self.given.options[list.0 as usize]
            .get(tag as usize)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns a blueprint's name, as used in the names of its functions.
    pub(crate) fn wire_name(&self, id: BlueprintId) -> String {
        self.given.blueprints[id.0 as usize].clone()
    }

    /// Returns the name of a segmentation rule's function.
    pub(crate) fn rule_name(&self, id: RuleId) -> String {
        format!("wire_rule_{}", self.given.rules[id.0 as usize])
    }
}
