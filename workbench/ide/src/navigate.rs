//! Navigation from a name to its declaration and its uses.

use std::collections::BTreeSet;
use std::path::Path;

use hawser_check::index::Meaning;
use hawser_driver::is_library;
use hawser_syntax::ast::ItemKind;

use crate::{FileRange, Workspace};

impl Workspace {
    /// Returns the declaration of the name at a byte; for an import, the file.
    #[must_use]
    pub fn definition(&self, path: &Path, byte: usize) -> Option<FileRange> {
        let (program, file) = self.program_of(path)?;
        if let Some((_, meaning)) = program.name_at(file, byte) {
            return match meaning {
                Meaning::Declared(at) => Some(program.place(*at)),
                Meaning::Builtin(..) => None,
            };
        }
        let items = &program.analysis.files[file as usize].items;
        let target = items.iter().find_map(|item| match &item.kind {
            ItemKind::Import { path: written, path_span } => {
                let touched = path_span.start as usize <= byte && byte <= path_span.end as usize;
                touched.then(|| path.parent().unwrap_or(Path::new("")).join(written))
            }
            _ => None,
        })?;
        let target = self.identity(&target);
        program.file(&target)?;
        Some(FileRange { path: target, range: (0, 0) })
    }

    /// Returns all places of the name at a byte, in every known program that contains the file. The
    /// declaration is included on request.
    #[must_use]
    pub fn references(&self, path: &Path, byte: usize, with_declaration: bool) -> Vec<FileRange> {
        let Some((program, file)) = self.program_of(path) else {
            return Vec::new();
        };
        let Some(declared) = program.declaration_at(file, byte) else {
            return Vec::new();
        };
        let declared = program.place(declared.at);
        let mut places = BTreeSet::new();
        // The library is part of every program; the question refers to this program.
        let programs = match declared.path.to_str().is_some_and(is_library) {
            true => vec![program],
            false => self.programs_with(&declared.path),
        };
        for program in programs {
            let Some(file) = program.file(&declared.path) else {
                continue;
            };
            let Some(declaration) = program.declaration_at(file, declared.range.0) else {
                continue;
            };
            let uses = program.uses_of(declaration.at).into_iter();
            places.extend(uses.map(|at| program.place(at)));
        }
        if !with_declaration {
            places.remove(&declared);
        }
        places.into_iter().collect()
    }

    /// Returns the places of the name at a byte within its own file.
    #[must_use]
    pub fn highlights(&self, path: &Path, byte: usize) -> Vec<FileRange> {
        let own = self.identity(path);
        let places = self.references(path, byte, true);
        places.into_iter().filter(|place| place.path == own).collect()
    }
}
