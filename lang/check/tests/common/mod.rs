//! Helpers that check programs given as text.

#![allow(dead_code)] // each test file uses a part
#![allow(clippy::disallowed_methods)] // tests read the repository's programs

use hawser_ir::{Bounds, Chain, Field, Module};
use hawser_syntax::{Diagnostic, SourceMap};

/// Parses and checks one text.
pub(crate) fn check(text: &str) -> (Option<Module>, Vec<Diagnostic>) {
    let mut sources = SourceMap::default();
    let number = sources.add("test.mtp", text);
    let (file, mut diagnostics) = hawser_syntax::parse(text, number);
    let (module, found) = hawser_check::check("test", &sources, &[file]);
    diagnostics.extend(found);
    (module, diagnostics)
}

/// Checks a program that must have no errors.
pub(crate) fn module(text: &str) -> Module {
    let (module, diagnostics) = check(text);
    module.unwrap_or_else(|| panic!("{diagnostics:#?}"))
}

/// Returns the name and the offset of each field of a structure, and the structure's size.
pub(crate) fn layout<'m>(module: &'m Module, name: &str) -> (Vec<(&'m str, u32)>, u32) {
    let structure = module
        .structs
        .iter()
        .find(|s| s.name == name)
        .expect("the structure is there");
    let fields = structure
        .fields
        .iter()
        .map(|f| (f.name.as_str(), f.offset))
        .collect();
    (fields, structure.size)
}

pub(crate) fn field<'m>(module: &'m Module, structure: &str, field: &str) -> &'m Field {
    let structure = module
        .structs
        .iter()
        .find(|s| s.name == structure)
        .expect("the structure is there");
    structure
        .fields
        .iter()
        .find(|f| f.name == field)
        .expect("the field is there")
}

pub(crate) fn chain<'m>(module: &'m Module, event: &str) -> &'m Chain {
    let index = module
        .events
        .iter()
        .position(|e| e.name == event)
        .expect("the event is there");
    &module.chains[index]
}

/// Returns the numbers of records, their bytes, packets and raises.
pub(crate) fn bounds(module: &Module, event: &str) -> [u32; 4] {
    let Bounds { records, record_bytes, packets, raises, .. } = chain(module, event).bounds;
    [records, record_bytes, packets, raises]
}

/// Returns the text of a program of the repository.
pub(crate) fn repository(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    std::fs::read_to_string(format!("{root}{path}")).expect("the program is there")
}
