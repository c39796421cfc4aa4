//! What stands between the lines: the worst case of chains and parsers, and where a program can be run.

use std::ops::Range;
use std::path::{Path, PathBuf};

use hawser_ir::FuncId;
use hawser_syntax::ast::{ExprKind, ItemKind, RegisterCall};

use crate::Workspace;
use crate::hover::{chain_bounds, shown_bounds};
use crate::program::Program;

/// A text shown behind a byte, which is not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Behind this byte.
    pub byte: usize,
    /// What is shown.
    pub text: String,
}

/// A place where a program can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runnable {
    /// The line that it stands above.
    pub range: (usize, usize),
    /// The file that the program begins with.
    pub program: PathBuf,
}

impl Workspace {
    /// The worst case of each chain and parser that is named within some bytes of a file.
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

    /// Where the programs of an open file are put into force.
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

/// The work of a parser, behind its name where it is registered.
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
