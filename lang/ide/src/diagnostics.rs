//! What is wrong in the open programs, and edits that mend it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use hawser_syntax::{Diagnostic, Severity};

use crate::program::Program;
use crate::{Edit, Place, Workspace};

/// All that is wrong in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileDiagnostics {
    /// The file.
    pub path: PathBuf,
    /// In order of place; none, where all is well.
    pub problems: Vec<Problem>,
}

/// A diagnostic of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The bytes that it is about.
    pub range: Range<usize>,
    /// How bad it is.
    pub severity: Severity,
    /// `E0123`
    pub code: &'static str,
    /// What is wrong, what was expected, and what to do about it: a line each.
    pub message: String,
    /// Other places that matter.
    pub related: Vec<(Place, String)>,
}

/// An edit that mends something.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// What it does, for a menu.
    pub title: String,
    /// The diagnostic that it mends.
    pub problem: Problem,
    /// The edit.
    pub edit: Edit,
}

impl Workspace {
    /// What is wrong in the files of all programs that have an open file; files without fault are in it as
    /// well, so that an editor can take back what it showed.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<FileDiagnostics> {
        let first_root = |path: &Path| self.roots(path).into_iter().next();
        let roots: BTreeSet<PathBuf> = self.open_paths().filter_map(first_root).collect();
        let mut by_file: BTreeMap<PathBuf, Vec<Problem>> = BTreeMap::new();
        for root in roots {
            let program = self.program(&root);
            let is_exchanged = self.written_for(&root).is_some();
            for path in &program.paths {
                by_file.entry(path.clone()).or_default();
            }
            for diagnostic in &program.analysis.compilation.diagnostics {
                let place = program.place(diagnostic.span);
                // What the others have for the sake of the usual part may be unused.
                let is_of_the_part = || first_root(&place.path).is_some_and(|first| first == root);
                if is_exchanged && diagnostic.severity == Severity::Warning && !is_of_the_part() {
                    continue;
                }
                let problems = by_file.entry(place.path).or_default();
                let problem = problem(&program, diagnostic);
                // A file of two programs is at fault once.
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
        let files = by_file.into_iter();
        files
            .map(|(path, problems)| FileDiagnostics { path, problems })
            .collect()
    }

    /// Edits that mend what is wrong within some bytes of a file.
    #[must_use]
    pub fn fixes(&self, path: &Path, range: Range<usize>) -> Vec<Fix> {
        let Some((program, file)) = self.program_of(path) else {
            return Vec::new();
        };
        let diagnostics = program.analysis.compilation.diagnostics.iter();
        let here = diagnostics.filter(|diagnostic| {
            let (start, end) = (diagnostic.span.start as usize, diagnostic.span.end as usize);
            diagnostic.span.file == file && start <= range.end && range.start <= end
        });
        here.filter_map(|diagnostic| fix(&program, diagnostic)).collect()
    }
}

fn fix(program: &Program, diagnostic: &Diagnostic) -> Option<Fix> {
    let replacement = diagnostic.hint.as_ref()?.replacement.as_ref()?;
    let range = diagnostic.span.start as usize..diagnostic.span.end as usize;
    let title = match range.is_empty() {
        true => format!("Insert `{replacement}`"),
        false => format!("Replace by `{replacement}`"),
    };
    Some(Fix {
        title,
        problem: problem(program, diagnostic),
        edit: Edit { range, text: replacement.clone() },
    })
}

fn problem(program: &Program, diagnostic: &Diagnostic) -> Problem {
    let mut message = diagnostic.message.clone();
    if !diagnostic.label.is_empty() {
        message = format!("{message}\n{}", diagnostic.label);
    }
    if let Some(hint) = &diagnostic.hint {
        message = format!("{message}\nhint: {}", hint.text);
    }
    let related = diagnostic.related.iter();
    Problem {
        range: diagnostic.span.start as usize..diagnostic.span.end as usize,
        severity: diagnostic.severity,
        code: diagnostic.code,
        message,
        related: related
            .map(|(at, label)| (program.place(*at), label.clone()))
            .collect(),
    }
}
