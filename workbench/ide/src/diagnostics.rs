//! The problems in the open programs, and edits that fix them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use hawser_syntax::{Diagnostic, Severity};

use crate::program::Program;
use crate::{Edit, FileRange, Workspace};

/// All problems of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileDiagnostics {
    /// The path of the file.
    pub path: PathBuf,
    /// The problems, in order of place.
    pub problems: Vec<Problem>,
}

/// A diagnostic of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The byte range that it refers to.
    pub range: Range<usize>,
    /// The severity of the problem.
    pub severity: Severity,
    /// The code of the diagnostic, such as `E0123`.
    pub code: &'static str,
    /// The problem, the expectation and the hint, each on a line of its own.
    pub message: String,
    /// Other relevant places, each with a label.
    pub related: Vec<(FileRange, String)>,
}

/// An edit that fixes a problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// A description of the fix for a menu.
    pub title: String,
    /// The diagnostic that it fixes.
    pub problem: Problem,
    /// The edit to apply.
    pub edit: Edit,
}

impl Workspace {
    /// Returns the problems in the files of all programs that have an open file. Files without problems are
    /// included, so that an editor can remove outdated problems from its display.
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
                // Declarations of other files may be unused, because they serve the part that this one
                // replaces.
                let is_of_the_part = || first_root(&place.path).is_some_and(|first| first == root);
                if is_exchanged && diagnostic.severity == Severity::Warning && !is_of_the_part() {
                    continue;
                }
                let problems = by_file.entry(place.path).or_default();
                let problem = problem(&program, diagnostic);
                // A file that belongs to two programs is reported once.
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

    /// Returns edits that fix the problems within a byte range of a file.
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
