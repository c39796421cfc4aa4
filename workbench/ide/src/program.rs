//! A checked program, and the meaning of its names by place.

use std::path::{Path, PathBuf};

use hawser_check::index::{Copied, Declaration, Meaning};
use hawser_driver::{Analysis, Loader};
use hawser_syntax::Span;
use hawser_syntax::ast::Item;

use crate::FileRange;

/// A checked program.
pub(crate) struct Program {
    pub(crate) analysis: Analysis,
    /// The unique name of each file, by number.
    pub(crate) paths: Vec<PathBuf>,
    /// The resolved names, in order of place.
    names: Vec<(Span, Meaning)>,
    /// True if an import could not be followed. Any file that appears may be the missing one.
    incomplete: bool,
}

impl Program {
    pub(crate) fn new(mut analysis: Analysis, loader: &dyn Loader) -> Program {
        let files = analysis.compilation.sources.files();
        let paths = files.iter().map(|file| loader.identity(Path::new(&file.path)));
        let paths = paths.collect();
        let names = std::mem::take(&mut analysis.index.uses);
        let missing = analysis.compilation.diagnostics.iter();
        let incomplete = missing
            .map(|diagnostic| diagnostic.code)
            .any(|code| code.starts_with("E002"));
        Program { analysis, paths, names, incomplete }
    }

    pub(crate) fn file(&self, path: &Path) -> Option<u32> {
        let at = self.paths.iter().position(|known| known == path)?;
        Some(at as u32)
    }

    pub(crate) fn text(&self, file: u32) -> &str {
        &self.analysis.compilation.sources.file(file).text
    }

    pub(crate) fn depends_on(&self, path: &Path) -> bool {
        self.incomplete || self.file(path).is_some()
    }

    pub(crate) fn place(&self, at: Span) -> FileRange {
        let path = self.paths.get(at.file as usize).cloned().unwrap_or_default();
        FileRange { path, range: (at.start as usize, at.end as usize) }
    }

    /// Returns the name at a byte of a file, or directly before it, and its meaning.
    pub(crate) fn name_at(&self, file: u32, byte: usize) -> Option<(Span, &Meaning)> {
        let byte = u32::try_from(byte).ok()?;
        let behind = self
            .names
            .partition_point(|(at, _)| (at.file, at.start) <= (file, byte));
        let candidates = self.names[..behind].iter().rev().take(2);
        let touched = candidates.filter(|(at, _)| at.file == file && byte <= at.end);
        touched.map(|(at, meaning)| (*at, meaning)).next()
    }

    /// Returns the names of a file, in order.
    pub(crate) fn names_of(&self, file: u32) -> &[(Span, Meaning)] {
        let first = self.names.partition_point(|(at, _)| at.file < file);
        let behind = self.names.partition_point(|(at, _)| at.file <= file);
        &self.names[first..behind]
    }

    /// Returns all resolved names, in order of place.
    pub(crate) fn names(&self) -> &[(Span, Meaning)] {
        &self.names
    }

    /// Returns the fields that are copied by name.
    pub(crate) fn copies(&self) -> &[Copied] {
        &self.analysis.index.copies
    }

    /// Returns the declaration of the name at a byte.
    pub(crate) fn declaration_at(&self, file: u32, byte: usize) -> Option<&Declaration> {
        match self.name_at(file, byte)?.1 {
            Meaning::Declared(at) => self.analysis.index.declarations.get(at),
            Meaning::Builtin(..) => None,
        }
    }

    /// Returns all places of the name that is declared at a place, including that place.
    pub(crate) fn uses_of(&self, declared: Span) -> Vec<Span> {
        let wanted = Meaning::Declared(declared);
        let uses = self.names.iter().filter(|(_, meaning)| *meaning == wanted);
        uses.map(|(at, _)| *at).collect()
    }

    /// Returns the declaration that contains a place.
    pub(crate) fn item_at(&self, at: Span) -> Option<&Item> {
        let items = &self.analysis.files.get(at.file as usize)?.items;
        items
            .iter()
            .find(|item| item.span.start <= at.start && at.end <= item.span.end)
    }
}
