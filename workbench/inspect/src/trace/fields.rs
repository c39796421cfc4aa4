//! A structure's fields by name, each with its place.

use std::ops::Range;

use hawser_ir::{StructId, Ty};

use crate::trace::shared_names::SharedName;
use crate::trace::value::{Reader, TraceValue};

/// A field: `cc.cwnd`.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The field's name, with the names of its enclosing parts before it.
    pub name: SharedName,
    /// The field's type.
    pub ty: Ty,
    /// The field's bytes in the structure.
    pub bytes: Range<usize>,
}

impl Leaf {
    /// Returns the field's value in a structure.
    #[must_use]
    pub fn value(&self, reader: &Reader<'_>, structure: &[u8]) -> TraceValue {
        reader.value(&self.ty, structure.get(self.bytes.clone()).unwrap_or(&[]))
    }

    /// Returns whether the field has the same bytes in both structures.
    #[must_use]
    pub fn is_same(&self, a: &[u8], b: &[u8]) -> bool {
        a.get(self.bytes.clone()) == b.get(self.bytes.clone())
    }
}

/// Returns all fields of a structure that are not structures, including those of nested parts.
#[must_use]
pub fn leaves(reader: &Reader<'_>, structure: StructId) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(reader, structure, "", 0, &mut found);
    found
}

fn collect(reader: &Reader<'_>, structure: StructId, prefix: &str, at: usize, into: &mut Vec<Leaf>) {
    for field in &reader.module.structure(structure).fields {
        let name = format!("{prefix}{}", field.name);
        let at = at + field.offset as usize;
        if let Ty::Struct(part) = field.ty {
            collect(reader, part, &format!("{name}."), at, into);
        } else {
            into.push(Leaf {
                name: SharedName::new(&name),
                ty: field.ty.clone(),
                bytes: at..at + reader.layout.size(&field.ty) as usize,
            });
        }
    }
}
