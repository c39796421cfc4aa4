//! Inlay hints: the worst cases of chains and parsers, and the places from which a program can be run.

use std::ops::Range;
use std::path::{Path, PathBuf};

use hawser_ir::FuncId;
use hawser_syntax::ast::{ExprKind, ItemKind, RegisterCall};

use crate::Workspace;
use crate::hover::{chain_bounds, shown_bounds};
use crate::program::Program;

/// A text that is shown behind a byte but is not part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The byte behind which it is shown.
    pub byte: usize,
    /// The text to show.
    pub text: String,
}

/// A place from which a program can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runnable {
    /// The range of the line above which it is shown.
    pub range: (usize, usize),
    /// The main file of the program.
    pub program: PathBuf,
}

impl Workspace {
    /// Returns the worst case of each chain and parser that is named within a byte range of a file.
    #[must_use]
    pub fn hints(&self, path: &Path, range: &Range<usize>) -> Vec<Hint> {
        let Some((program, file)) = self.program_of(path) else {
            return Vec::new();
        };
        let mut hints = Vec::new();
        for item in &program.analysis.files[file as usize].items {
            match &item.kind {
                ItemKind::Dispatch { entries, .. } => {
                    let chains = entries.iter().filter(|entry| !entry.is_chain);
                    hints.extend(chains.filter_map(|entry| {
                        Some(Hint {
                            byte: entry.name.span.end as usize,
                            text: shown_bounds(&chain_bounds(&program, &entry.name.name)?),
                        })
                    }));
                }
                ItemKind::Deploy { calls } => {
                    hints.extend(calls.iter().filter_map(|call| parser(&program, call)))
                }
                _ => {}
            }
        }
        hints.retain(|hint| range.start <= hint.byte && hint.byte <= range.end);
        hints
    }

    /// Returns the places of `deploy` blocks in an open file.
    #[must_use]
    pub fn runnables(&self, path: &Path) -> Vec<Runnable> {
        let Some((program, file)) = self.program_of(path) else {
            return Vec::new();
        };
        let items = program.analysis.files[file as usize].items.iter();
        let deployments = items.filter(|item| matches!(item.kind, ItemKind::Deploy { .. }));
        let runnable = |item: &hawser_syntax::ast::Item| Runnable {
            range: (item.span.start as usize, item.span.start as usize),
            program: program.paths[0].clone(),
        };
        deployments.map(runnable).collect()
    }
}

/// Returns the work of a parser, to be shown behind its name where it is registered.
fn parser(program: &Program, call: &RegisterCall) -> Option<Hint> {
    let name = match call.args.first().map(|arg| &arg.kind) {
        Some(ExprKind::Name(name)) if call.name.name == "register_ev_parser" => name,
        _ => return None,
    };
    let module = program.analysis.compilation.module.as_ref()?;
    let func = module.funcs.iter().position(|func| func.name == name.name)?;
    let func = FuncId(func as u32);
    let parser = module.parsers.iter().find(|parser| parser.func == func)?;
    let events = match parser.max_events {
        1 => "1 event".to_owned(),
        n => format!("{n} events"),
    };
    Some(Hint {
        byte: name.span.end as usize,
        text: format!("at most {} steps, {events}", parser.steps),
    })
}
