//! Loading: a file and its imports, each loaded once, breadth first. Circular imports are allowed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hawser_syntax::ast::{File, ItemKind};
use hawser_syntax::{Diagnostic, MAX_TEXT_BYTES, SourceFile, SourceMap, Span};

use crate::library;
use crate::loader::{LoadError, Loader};

/// The maximum number of files of a program.
pub const MAX_FILES: usize = 64;

/// All files of a program, parsed.
#[derive(Default)]
pub(crate) struct ParsedFiles {
    pub(crate) sources: SourceMap,
    /// `files[i]` is the tree of file number `i`.
    pub(crate) files: Vec<File>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Files that were parsed before and are not needed yet, by number.
    before: Vec<Option<Parsed>>,
}

/// A file that was parsed before without a diagnostic.
pub(crate) struct Parsed {
    pub(crate) source: SourceFile,
    pub(crate) tree: File,
}

/// Loads and parses `path` and its direct and indirect imports. A file that was parsed before is parsed again
/// only if its text has changed.
pub(crate) fn load(loader: &dyn Loader, path: &Path, before: Vec<Option<Parsed>>) -> ParsedFiles {
    let mut out = ParsedFiles { before, ..ParsedFiles::default() };
    let mut known = BTreeSet::from([loader.identity(path)]);
    match loader.load(path) {
        Ok(text) => out.add(path, text),
        Err(error) => {
            // The file gets a number nevertheless, so that the diagnostic has a place.
            let span = Span {
                file: out.sources.add(path.display().to_string(), ""),
                start: 0,
                end: 0,
            };
            out.files.push(File::default());
            out.diagnostics.push(diagnostic(&error, path, span));
        }
    }
    // `out.files` grows within the loop; each round handles one file's imports.
    let mut importing = 0;
    while importing < out.files.len() {
        for (target, span) in imports(&out, importing) {
            let target = match target {
                ImportTarget::File(path) => ImportTarget::File(loader.meant(&path)),
                ImportTarget::Library(path) => ImportTarget::Library(path),
            };
            if let Some(diagnostic) = out.import(loader, &mut known, &target, span) {
                let full = diagnostic.code == TOO_MANY_FILES;
                out.diagnostics.push(diagnostic);
                if full {
                    return out.sorted();
                }
            }
        }
        importing += 1;
    }
    out.sorted()
}

/// Parses the known files of a program, followed by `more`.
pub(crate) fn beside(known: &[(String, String)], more: &[(&Path, &str)]) -> ParsedFiles {
    let mut out = ParsedFiles::default();
    for (path, text) in known {
        out.add(Path::new(path), text.clone());
    }
    for (path, text) in more {
        out.add(path, (*text).to_owned());
    }
    out.sorted()
}

const TOO_MANY_FILES: &str = "E0022";

/// The target of an import.
enum ImportTarget {
    /// A file that the loader has.
    File(PathBuf),
    /// A file of the library, if the library has it.
    Library(PathBuf),
}

/// Returns the imports of a file: the target of each, and its place.
fn imports(loaded: &ParsedFiles, importing: usize) -> Vec<(ImportTarget, Span)> {
    let from = PathBuf::from(&loaded.sources.files()[importing].path);
    let folder = from.parent().unwrap_or(Path::new(""));
    let target = |path: &str| match library::meant(&from, path) {
        Some(path) => ImportTarget::Library(path),
        None => ImportTarget::File(folder.join(path)),
    };
    let import = |kind: &ItemKind| match kind {
        ItemKind::Import { path, path_span } => Some((target(path), *path_span)),
        _ => None,
    };
    loaded.files[importing]
        .items
        .iter()
        .filter_map(|item| import(&item.kind))
        .collect()
}

impl ParsedFiles {
    fn add(&mut self, path: &Path, text: String) {
        let number = self.files.len();
        let path = path.display().to_string();
        let is_same = |parsed: &mut Parsed| parsed.source.path == path && parsed.source.text == text;
        let before = self
            .before
            .get_mut(number)
            .and_then(|parsed| parsed.take_if(is_same));
        if let Some(Parsed { source, tree }) = before {
            self.files.push(tree);
            self.sources.add_file(source);
            return;
        }
        let (tree, diagnostics) = hawser_syntax::parse(&text, number as u32);
        self.files.push(tree);
        self.diagnostics.extend(diagnostics);
        self.sources.add(path, text);
    }

    /// Loads an imported file unless it is loaded already, and returns the diagnostic if that fails.
    fn import(
        &mut self,
        loader: &dyn Loader,
        known: &mut BTreeSet<PathBuf>,
        target: &ImportTarget,
        span: Span,
    ) -> Option<Diagnostic> {
        let written = self.sources.text(span).trim_matches('"');
        if written.is_empty() || Path::new(written).is_absolute() {
            let diagnostic = Diagnostic::error(
                "E0024",
                span,
                "the path of an import must be relative to \
                 this file",
            )
            .label("expected a relative path")
            .hint("for example `import \"newreno.mtp\";` or `import \"../cc/cubic.mtp\";`");
            return Some(diagnostic);
        }
        let identity = match target {
            ImportTarget::File(path) => loader.identity(path),
            ImportTarget::Library(path) => path.clone(),
        };
        if !known.insert(identity) {
            return None;
        }
        if self.files.len() >= MAX_FILES {
            let diagnostic = Diagnostic::error(TOO_MANY_FILES, span, "the program has too many files")
                .label(format!("the limit is {MAX_FILES} files"));
            return Some(diagnostic);
        }
        match target {
            ImportTarget::Library(path) => self.import_from_library(path, span),
            ImportTarget::File(path) => match loader.load(path) {
                Ok(text) => {
                    self.add(path, text);
                    None
                }
                Err(LoadError::Missing) => {
                    let diagnostic = diagnostic(&LoadError::Missing, path, span);
                    Some(diagnostic.hint("the path of an import is relative to the importing file"))
                }
                Err(error) => Some(diagnostic(&error, path, span)),
            },
        }
    }

    fn import_from_library(&mut self, path: &Path, span: Span) -> Option<Diagnostic> {
        if let Some(text) = library::text(path) {
            self.add(path, text.to_owned());
            return None;
        }
        let message = format!("the library has no file {}", path.display());
        let diagnostic = Diagnostic::error("E0020", span, message).label("not found");
        Some(diagnostic.hint(format!(
            "the library has {}; write `./std` for a folder of your own",
            library::names()
        )))
    }

    fn sorted(mut self) -> ParsedFiles {
        self.diagnostics
            .sort_by_key(|diagnostic| (diagnostic.span.file, diagnostic.span.start));
        self
    }
}

fn diagnostic(error: &LoadError, path: &Path, span: Span) -> Diagnostic {
    let path = path.display();
    match error {
        LoadError::Missing => {
            Diagnostic::error("E0020", span, format!("the file {path} does not exist")).label("not found")
        }
        LoadError::NotAFile => {
            Diagnostic::error("E0023", span, format!("{path} is not a file")).label("expected a text file")
        }
        LoadError::TooLarge => Diagnostic::error("E0007", span, format!("{path} is too large"))
            .label(format!("the limit is {MAX_TEXT_BYTES} bytes"))
            .hint("divide the file, and join the parts by `import`"),
        LoadError::NotText { byte, line } => Diagnostic::error(
            "E0021",
            span,
            format!("{path} is not UTF-8 at byte {byte}, in line {line}"),
        )
        .label("expected text in UTF-8")
        .hint("save the file as UTF-8, or check that it is a text file"),
        LoadError::Refused(why) => {
            Diagnostic::error("E0025", span, format!("{path} cannot be read: {why}")).label("refused")
        }
    }
}
