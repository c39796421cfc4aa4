//! Packets in C: parsers, headers, segmentation and coalescing rules.
//!
//! Every blueprint that is read or written becomes a few functions, named after it:
//!
//! * `wire_extract_X` parses a header at the parser's cursor; [`extract`]
//! * `wire_read_X` reads its fields, `wire_verify_X` compares its computed fields; [`read`], [`options`],
//!   [`usual`]
//! * `wire_measure_X` and `wire_write_X` are for the opposite direction; [`measure`], [`write`]
//! * `wire_build_X` builds one packet of a `pkt_gen`, after its rules; [`build`]
//!
//! [`format`] has facts about a format that hold for every packet, [`entry`] the functions that the engine
//! calls, and [`statement`] the statements of parsers. [`parser`], [`sparse`] and [`cleared`] analyse the
//! variables of parsers.
//!
//! Invariant: the interpreter's modules of the same names (`lang/interp/src`) define the meaning. A row of
//! fields of fixed length is compared with the packet's end, or the room, once.

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
use crate::scope::{ObjectExpr, Scope};

pub(crate) use entry::{cursor_fact, drop_input, functions};
pub(crate) use statement::{extract, push_event};

/// The names of variables in the functions over blueprints.
const TAKEN: [&str; 20] = [
    "h", "p", "len", "at", "used", "facts", "out", "error", "header", "count", "i", "n", "data", "end",
    "list", "entry", "room", "start", "sum", "value",
];

/// The presence of an image. An image in a list element that does not exist is read and written nevertheless,
/// but writes are discarded, and every field reads as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Image {
    There,
    Absent,
}

impl Image {
    /// Returns the suffix of function names over such an image.
    fn suffix(self) -> &'static str {
        match self {
            Image::There => "",
            Image::Absent => "_absent",
        }
    }
}

impl Emitter<'_> {
    /// Returns the structure of a blueprint's image.
    fn image_type(&mut self, id: BlueprintId) -> String {
        let body = self.module.blueprints[id.0 as usize].body;
        self.structure(body)
    }

    /// Creates a scope in which `h` is a pointer to a blueprint's image, and `facts` are the packet's.
    fn wire_scope(&self, id: BlueprintId, image: Image) -> Scope {
        let mut scope = Scope::new();
        for name in TAKEN {
            scope.names.take(name);
        }
        let body = self.module.blueprints[id.0 as usize].body;
        scope.blueprint =
            (image == Image::There).then(|| (ObjectExpr::Pointer("h".to_owned()), Ty::Struct(body)));
        scope.facts = Some("facts".to_owned());
        scope
    }

    /// Returns the place of the field at an offset of a blueprint's image.
    fn wire_place(&self, id: BlueprintId, offset: u32) -> Place {
        let body = self.module.blueprints[id.0 as usize].body;
        let fields = &self.module.structure(body).fields;
        let ty = fields
            .iter()
            .find(|field| field.offset == offset)
            .map_or(Ty::Bool, |f| f.ty.clone());
        Place { base: Base::Blueprint, offset, steps: Vec::new(), ty }
    }

    /// Returns the parameter for an image, with the comma before it; empty for an absent image.
    fn image_param(&mut self, id: BlueprintId, image: Image, constant: bool) -> String {
        match image {
            Image::There => {
                let constant = if constant { "const " } else { "" };
                format!(", {constant}{} *h", self.image_type(id))
            }
            Image::Absent => String::new(),
        }
    }

    /// Returns the argument for a nested image, with the comma before it.
    fn inner_image(&mut self, s: &mut Scope, place: &Place) -> String {
        match s.blueprint {
            Some(_) => format!(", {}", self.target(s, place).at.address()),
            None => String::new(),
        }
    }

    /// Prints a function and its declaration.
    fn wire_function(&mut self, head: &str, scope: Scope) {
        self.prototypes += &format!("{head};\n");
        self.functions += &scope.out.finish();
        self.functions.push('\n');
    }
}

/// The blueprints that some function extracts, each with whether its image certainly exists, and the
/// blueprints that some function sends.
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
