//! Renaming: gives a declaration another name, everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hawser_check::index::{Copied, DefKind, Meaning};
use hawser_syntax::token::TokenKind;
use hawser_syntax::{Diagnostic, Severity, Span};

use crate::program::Program;
use crate::{Edit, FileRange, Workspace, keywords, scan};

/// The reason why a name cannot be changed, as text for the user.
type Refused = String;

impl Workspace {
    /// Returns the range of the name at a byte, if the program declares it.
    #[must_use]
    pub fn renameable(&self, path: &Path, byte: usize) -> Option<(usize, usize)> {
        let (program, file) = self.program_of(path)?;
        let declared = program.declaration_at(file, byte)?.at;
        if is_library(&program.place(declared)) {
            return None;
        }
        let (at, _) = program.name_at(file, byte)?;
        Some((at.start as usize, at.end as usize))
    }

    /// Returns the edits, by file, that rename the name at a byte in every known program that has it.
    ///
    /// # Errors
    /// If there is no name, if the new one is not a valid name, if a program has errors, or if the meaning of
    /// some name would change.
    pub fn rename(
        &self,
        path: &Path,
        byte: usize,
        new: &str,
    ) -> Result<BTreeMap<PathBuf, Vec<Edit>>, Refused> {
        is_a_name(new)?;
        let declared = self.program_of(path).and_then(|(program, file)| {
            let declared = program.declaration_at(file, byte)?.at;
            Some(program.place(declared))
        });
        let declared = declared.ok_or("no name of the program is here")?;
        if is_library(&declared) {
            return Err("the name is the library's: it is the same in all programs".to_owned());
        }
        let mut places = BTreeSet::new();
        let roots = self.roots(&declared.path);
        for root in &roots {
            let program = self.program(root);
            if let Some(error) = first_error(&program) {
                return Err(format!(
                    "{} has errors, so some uses may be unknown; correct them first: {}",
                    root.display(),
                    error.message
                ));
            }
            let file = program.file(&declared.path);
            let declaration = file.and_then(|file| program.declaration_at(file, declared.range.0));
            let uses = declaration.map(|declaration| program.uses_of(declaration.at));
            places.extend(uses.into_iter().flatten().map(|at| program.place(at)));
        }
        let edits = edits(&places, new);
        let texts = self.with_edits(&edits);
        for root in &roots {
            let (before, after) = (self.program(root), self.supposing(root, &texts, None));
            keeps_its_meaning(&before, &after, &edits, new)?;
        }
        Ok(edits)
    }

    fn with_edits(&self, edits: &BTreeMap<PathBuf, Vec<Edit>>) -> BTreeMap<PathBuf, String> {
        let mut texts = BTreeMap::new();
        for (path, edits) in edits {
            let mut text = self.any_text(path).unwrap_or_default();
            for edit in edits.iter().rev() {
                text.replace_range(edit.range.clone(), &edit.text);
            }
            texts.insert(path.clone(), text);
        }
        texts
    }
}

/// True if something is declared in the library, which cannot be edited.
fn is_library(declared: &FileRange) -> bool {
    declared.path.to_str().is_some_and(hawser_driver::is_library)
}

fn is_a_name(new: &str) -> Result<(), Refused> {
    let lexed = scan::tokens(new);
    let is_one_word = matches!(&lexed.tokens[..], [word, _]
        if word.kind == TokenKind::Ident && (word.start, word.end as usize) == (0, new.len()));
    let is_taken = keywords::word(new, |_| true).is_some() || keywords::integer(new).is_some();
    match (is_one_word, is_taken) {
        (false, _) => Err(format!(
            "`{new}` cannot be a name: a name begins with a letter or `_`, continues with letters, digits \
             and `_`, and is not a keyword"
        )),
        (true, true) => Err(format!("`{new}` is a word of the language")),
        (true, false) => Ok(()),
    }
}

fn first_error(program: &Program) -> Option<&Diagnostic> {
    let mut diagnostics = program.analysis.compilation.diagnostics.iter();
    diagnostics.find(|diagnostic| diagnostic.severity == Severity::Error)
}

fn edits(places: &BTreeSet<FileRange>, new: &str) -> BTreeMap<PathBuf, Vec<Edit>> {
    let mut edits: BTreeMap<PathBuf, Vec<Edit>> = BTreeMap::new();
    for place in places {
        edits
            .entry(place.path.clone())
            .or_default()
            .push(Edit { range: place.range.0..place.range.1, text: new.to_owned() });
    }
    edits
}

/// True if each name has the same meaning before and after.
fn keeps_its_meaning(
    before: &Program,
    after: &Program,
    edits: &BTreeMap<PathBuf, Vec<Edit>>,
    new: &str,
) -> Result<(), Refused> {
    if let Some(error) = first_error(after) {
        return Err(format!("`{new}` clashes: {}", error.message));
    }
    let moved = |at: Span| moved(before, edits, at);
    keeps_copies(before, after, &moved, new)?;
    let expected = before.names().iter().map(|(at, meaning)| {
        let meaning = match meaning {
            Meaning::Declared(declared) => Meaning::Declared(moved(*declared)),
            Meaning::Builtin(kind, form) => Meaning::Builtin(*kind, form.clone()),
        };
        (moved(*at), meaning)
    });
    let differs = |(expected, found): &((Span, Meaning), &(Span, Meaning))| match (&expected.1, &found.1) {
        // The form of a builtin may contain a renamed name.
        (Meaning::Builtin(DefKind::Method | DefKind::Field, _), Meaning::Builtin(..)) => {
            expected.0 != found.0
        }
        _ => expected != *found,
    };
    match expected.zip(after.names()).find(differs) {
        None if before.names().len() == after.names().len() => Ok(()),
        Some((_, (at, _))) => {
            let line = after.text(at.file)[..at.start as usize].matches('\n').count() + 1;
            let path = after.place(*at).path;
            Err(format!(
                "with `{new}` another name would change its meaning: {}, line {line}",
                path.display()
            ))
        }
        None => Err(format!("with `{new}` another name would change its meaning")),
    }
}

/// True if the same fields are copied by name before and after.
fn keeps_copies(
    before: &Program,
    after: &Program,
    moved: &dyn Fn(Span) -> Span,
    new: &str,
) -> Result<(), Refused> {
    let expected = before.copies().iter().map(|copied| Copied {
        at: moved(copied.at),
        to: copied.to.map(moved),
        from: copied.from.map(moved),
    });
    let expected: Vec<Copied> = expected.collect();
    let found = after.copies();
    if expected == found {
        return Ok(());
    }
    let missing = expected.iter().find(|copied| !found.contains(copied));
    let Some(copied) = missing.or_else(|| found.iter().find(|copied| !expected.contains(copied))) else {
        return Ok(());
    };
    let line = after.text(copied.at.file)[..copied.at.start as usize]
        .matches('\n')
        .count()
        + 1;
    Err(format!(
        "with `{new}` other fields would be copied by name: {}, line {line}",
        after.place(copied.at).path.display()
    ))
}

/// Returns the new position of a place after edits.
fn moved(program: &Program, edits: &BTreeMap<PathBuf, Vec<Edit>>, at: Span) -> Span {
    let edits = program
        .paths
        .get(at.file as usize)
        .and_then(|path| edits.get(path));
    let (mut start, mut end) = (i64::from(at.start), i64::from(at.end));
    for edit in edits.into_iter().flatten() {
        let longer = edit.text.len() as i64 - edit.range.len() as i64;
        if edit.range.end <= at.start as usize {
            start += longer;
        }
        if edit.range.end <= at.end as usize {
            end += longer;
        }
    }
    Span { file: at.file, start: start as u32, end: end as u32 }
}
