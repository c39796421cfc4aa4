//! Packets in C: parsers, headers, segmentation and coalescing rules.
//!
//! Every blueprint that is read or written becomes a few functions, named after it:
//!
//! * `wire_extract_X` takes a header apart at the parser's cursor; [`extract`]
//! * `wire_read_X` reads its fields, `wire_verify_X` compares its computed fields; [`read`], [`options`],
//!   [`usual`]
//! * `wire_measure_X` and `wire_write_X` are the way back; [`measure`], [`write`]
//! * `wire_build_X` puts one packet of a `pkt_gen` together, after its rules; [`build`]
//!
//! [`format`] is what is known of a format before any packet, [`entry`] what the engine calls,
//! [`statement`] what parsers do, [`parser`], [`sparse`] and [`cleared`]
//! what is known of their variables.
//!
//! Invariant: the interpreter's modules of the same names (`lang/interp/src`) are the meaning. Fields
//! of fixed length in a row are compared with the packet's end, or the room, once.

mod build;
mod cleared;
mod entry;
mod extract;
mod format;
mod measure;
mod options;
mod parser;
mod read;
pub(crate) mod sparse;
mod statement;
mod usual;
mod write;

use std::collections::BTreeSet;

use hawser_ir::{Base, BlueprintId, Instr, Place, Stmt, StmtKind, Ty};

use crate::emitter::Emitter;
use crate::scope::{At, Scope};

pub(crate) use entry::{cursor_fact, drop_input, functions};
pub(crate) use statement::{extract, push_event};

/// Names of variables in the functions over blueprints.
const TAKEN: [&str; 20] = [
    "h", "p", "len", "at", "used", "facts", "out", "error", "header", "count", "i", "n", "data", "end",
    "list", "entry", "room", "start", "sum", "value",
];

/// Whether an image is there. One in a list element that is not, is read and written all the same:
/// nothing is kept, and every field reads as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Image {
    There,
    Absent,
}

impl Image {
    /// What the names of functions over such an image end with.
    fn suffix(self) -> &'static str {
        match self {
            Image::There => "",
            Image::Absent => "_absent",
        }
    }
}

impl Emitter<'_> {
    /// The structure of a blueprint's image.
    fn image_type(&mut self, id: BlueprintId) -> String {
        let body = self.module.blueprints[id.0 as usize].body;
        self.structure(body)
    }

    /// A scope in which `h` is a pointer to a blueprint's image, and `facts` are the packet's.
    fn wire_scope(&self, id: BlueprintId, image: Image) -> Scope {
        let mut scope = Scope::new();
        for name in TAKEN {
            scope.names.take(name);
        }
        let body = self.module.blueprints[id.0 as usize].body;
        scope.blueprint = (image == Image::There).then(|| (At::Pointer("h".to_owned()), Ty::Struct(body)));
        scope.facts = Some("facts".to_owned());
        scope
    }

    /// The place of the field at an offset of a blueprint's image.
    fn wire_place(&self, id: BlueprintId, offset: u32) -> Place {
        let body = self.module.blueprints[id.0 as usize].body;
        let fields = &self.module.structure(body).fields;
        let ty = fields
            .iter()
            .find(|field| field.offset == offset)
            .map_or(Ty::Bool, |f| f.ty.clone());
        Place { base: Base::Blueprint, offset, steps: Vec::new(), ty }
    }

    /// The parameter that an image is, with the comma before it; none for one that is absent.
    fn image_param(&mut self, id: BlueprintId, image: Image, constant: bool) -> String {
        match image {
            Image::There => {
                let constant = if constant { "const " } else { "" };
                format!(", {constant}{} *h", self.image_type(id))
            }
            Image::Absent => String::new(),
        }
    }

    /// The argument that an image inside the one at hand is, with the comma before it.
    fn inner_image(&mut self, s: &mut Scope, place: &Place) -> String {
        match s.blueprint {
            Some(_) => format!(", {}", self.target(s, place).at.address()),
            None => String::new(),
        }
    }

    /// Prints a function: its declaration, too.
    fn wire_function(&mut self, head: &str, scope: Scope) {
        self.prototypes += &format!("{head};\n");
        self.functions += &scope.out.finish();
        self.functions.push('\n');
    }
}

/// Blueprints that some function takes apart, with whether their image is surely there; and those
/// that some function sends.
#[derive(Debug, Default)]
struct Used {
    read: BTreeSet<(BlueprintId, Image)>,
    sent: BTreeSet<BlueprintId>,
}

impl Used {
    fn by(&mut self, body: &[Stmt]) {
        hawser_ir::statements(body, &mut |stmt| {
            if let StmtKind::Extract { blueprint, dst, .. } = &stmt.kind {
                self.read.insert((*blueprint, Image::There));
                if !dst.steps.is_empty() {
                    self.read.insert((*blueprint, Image::Absent));
                }
            } else if let StmtKind::Emit(Instr::PktGen { blueprint, .. }) = &stmt.kind {
                self.sent.insert(*blueprint);
            }
        });
    }
}
