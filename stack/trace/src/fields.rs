//! A structure's fields by name, each at its place.

use std::ops::Range;

use hawser_ir::{StructId, Ty};

use crate::name::Name;
use crate::value::{Reader, Value};

/// A field: `cc.cwnd`.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its name, those of the parts that it is in before.
    pub name: Name,
    /// Its type.
    pub ty: Ty,
    /// Its bytes in the structure.
    pub bytes: Range<usize>,
}

impl Leaf {
    /// Its value in a structure.
    #[must_use]
    pub fn value(&self, reader: &Reader<'_>, structure: &[u8]) -> Value {
        reader.value(&self.ty, structure.get(self.bytes.clone()).unwrap_or(&[]))
    }

    /// Whether it has the same bytes in both.
    #[must_use]
    pub fn is_same(&self, a: &[u8], b: &[u8]) -> bool {
        a.get(self.bytes.clone()) == b.get(self.bytes.clone())
    }
}

/// All fields of a structure that are no structures themselves, parts taken apart.
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
                name: Name::of(&name),
                ty: field.ty.clone(),
                bytes: at..at + reader.layout.size(&field.ty) as usize,
            });
        }
    }
}
