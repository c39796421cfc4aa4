//! The whole pipeline: files in, a checked program or diagnostics out.
//!
//! ```text
//! path ── load ──▶ sources, trees ── check ──▶ module
//!           │ lex, parse, imports       │
//!           ▼                           ▼
//!        diagnostics                    diagnostics ──▶ render, render_json
//! ```
//!
//! Invariants: the checker runs only if all files could be read and parsed, so that no diagnostic is a
//! consequence of another. Input is limited: [`MAX_FILES`] files of [`hawser_syntax::MAX_TEXT_BYTES`]. Only
//! [`Disk`] touches the file system; texts can also come from memory.

#![forbid(unsafe_code)]

mod clip;
mod inspect;
mod library;
mod load;
mod loader;
mod offload;
mod render;

use std::collections::BTreeSet;
use std::path::Path;

use hawser_check::index::Index;
use hawser_syntax::ast::{ItemKind, Side};
use hawser_syntax::{Diagnostic, Severity, SourceMap, Span};

pub use inspect::{Expression, inspect};
pub use library::{is_library, library};
pub use load::MAX_FILES;
pub use loader::{Disk, Instead, LoadError, Loader, MemoryLoader};
pub use offload::explain_offload;
pub use render::{render, render_json};

/// The result of compiling a program.
#[derive(Clone, Debug)]
pub struct Compilation {
    /// The program, if no error was found.
    pub module: Option<hawser_ir::Module>,
    /// Errors and warnings, file by file in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The files read. Number 0 is the main file.
    pub sources: SourceMap,
}

/// Compiles the program in this file, with its imports.
#[must_use]
pub fn compile(path: &Path) -> Compilation {
    compile_with(&Disk, path)
}

/// Compiles a program whose texts come from `loader`.
#[must_use]
pub fn compile_with(loader: &dyn Loader, path: &Path) -> Compilation {
    let load::ParsedFiles { sources, files, mut diagnostics, .. } = load::load(loader, path, Vec::new());
    if has_errors(&diagnostics) {
        return Compilation { module: None, diagnostics, sources };
    }
    let (module, found) = hawser_check::check(&name_of(path), &sources, &files);
    diagnostics.extend(own(found, &sources));
    Compilation { module, diagnostics, sources }
}

/// The result of compiling a program for an editor.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The result that [`compile_with`] returns.
    pub compilation: Compilation,
    /// The trees, by number of the file. The tree of a file with errors has the parts that could be parsed.
    pub files: Vec<hawser_syntax::ast::File>,
    /// The meaning of names, as far as the trees give it.
    pub index: Index,
    /// The numbers of the files for which loading or parsing gave a diagnostic.
    flawed: BTreeSet<u32>,
}

/// Compiles a program for an editor. Its names are resolved even if it has errors. `asked` is the place of a
/// name, in the numbering of the files. The index then contains the names that could stand there.
#[must_use]
pub fn analyse(loader: &dyn Loader, path: &Path, asked: Option<Span>) -> Analysis {
    analysed(loader, path, asked, Vec::new())
}

/// Like [`analyse`], for a program with texts that may have changed since an earlier analysis. Unchanged
/// files are not parsed again.
#[must_use]
pub fn analyse_again(loader: &dyn Loader, path: &Path, before: Analysis) -> Analysis {
    let texts = before.compilation.sources.into_files().into_iter();
    let trees = before.files.into_iter().zip(0u32..);
    let parsed = texts.zip(trees).map(|(source, (tree, number))| {
        let is_clean = !before.flawed.contains(&number);
        is_clean.then_some(load::Parsed { source, tree })
    });
    analysed(loader, path, None, parsed.collect())
}

fn analysed(
    loader: &dyn Loader,
    path: &Path,
    asked: Option<Span>,
    before: Vec<Option<load::Parsed>>,
) -> Analysis {
    let load::ParsedFiles { sources, files, mut diagnostics, .. } = load::load(loader, path, before);
    let flawed = diagnostics
        .iter()
        .map(|diagnostic| diagnostic.span.file)
        .collect();
    let (module, found, index) = hawser_check::check_with_index(&name_of(path), &sources, &files, asked);
    // As in `compile_with`: errors that the checker finds in an incomplete tree follow from the parse errors.
    let module = if has_errors(&diagnostics) {
        None
    } else {
        diagnostics.extend(own(found, &sources));
        module
    };
    Analysis {
        compilation: Compilation { module, diagnostics, sources },
        files,
        index,
        flawed,
    }
}

fn name_of(path: &Path) -> String {
    path.file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// Compiles a program again with attachments. These are files, with their texts, that put processors of their
/// own into the program's chains (`attach name after anchor;`). The module is the program with these chains.
/// The caller checks with [`hawser_ir::Module::shares_memory_with`] that its tables are otherwise the same.
///
/// The diagnostics may lie in the program's own files, which keep their numbers; the attachments follow in
/// their order. Each attachment sees its own names and the program's, but not those of other attachments.
#[must_use]
pub fn attach(program: &hawser_ir::Module, attached: &[(&Path, &str)]) -> Compilation {
    let load::ParsedFiles { sources, files, mut diagnostics, .. } = load::beside(&program.files, attached);
    if has_errors(&diagnostics) {
        return Compilation { module: None, diagnostics, sources };
    }
    let (module, found) = hawser_check::check_attached(&program.name, &sources, &files, attached.len());
    diagnostics.extend(own(found, &sources));
    Compilation { module, diagnostics, sources }
}

/// Returns the places of an attachment's processors, such as `cap after cc`, in the order of their
/// declarations. The result is empty if the text cannot be parsed.
#[must_use]
pub fn attached_places(text: &str) -> Vec<String> {
    let (file, _) = hawser_syntax::parse(text, 0);
    let place = |kind: &ItemKind| match kind {
        ItemKind::Attach { processor, side, anchor } => {
            let side = if *side == Side::Before { "before" } else { "after" };
            Some(format!("{} {side} {}", processor.name, anchor.name))
        }
        _ => None,
    };
    file.items.iter().filter_map(|item| place(&item.kind)).collect()
}

impl Compilation {
    /// True if there is an error; warnings do not count.
    #[must_use]
    pub fn failed(&self) -> bool {
        has_errors(&self.diagnostics)
    }

    /// Renders the diagnostics as text for people; see [`render`].
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        render(&self.diagnostics, &self.sources, colour)
    }
}

/// Removes warnings about the library, because a program need not use all of it.
fn own(found: Vec<Diagnostic>, sources: &SourceMap) -> impl Iterator<Item = Diagnostic> {
    let is_own =
        |d: &Diagnostic| d.severity == Severity::Error || !is_library(&sources.file(d.span.file).path);
    found.into_iter().filter(is_own)
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics
        .iter()
        .any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// Returns the explanation of a code such as `E0102`: its title and its text.
#[must_use]
pub fn explain(code: &str) -> Option<String> {
    let row = hawser_syntax::explain(code).or_else(|| hawser_check::codes::explain(code))?;
    Some(format!("{}: {}\n\n{}\n", row.code, row.title, row.text.trim()))
}
