//! The checker: from syntax tree to intermediate form.
//!
//! [`check`] is the whole pipeline: collect names, lay out memory, resolve wire formats, lower functions,
//! bind chains, bound them, deploy. Every phase continues after an error if it can. Erroneous parts become a
//! silent `Error`, so that one mistake yields one message.
//!
//! * names: `names`, `extend`, `consts`, `tables`, `fold`; memory: `layout`, `types`
//! * bodies: `func` has signatures, `body` the state of lowering; statements: `stmt`, `loops`, `decl`,
//!   `instr`, `pkt_gen`, `packet`; expressions: `expr`, `ops`, `convert`, `field`, `call`, `builtin`,
//!   `container`, `aggregate`
//! * wire: `wire`, `options`, `rules`
//! * one expression over a stopped program: `inspect`
//! * for editors: `index`
//! * whole program: `chain`, `attach`, `bind`, `graph`, `bounds`, `steps`, `effects`, `missing_context`,
//!   `ids`, `deploy`, `unused`, `lints`, `probable_mistakes`, `offload`
//!
//! Invariants: no syntax tree causes a panic; this crate reads no file; a module is returned only if there is
//! no error.

#![forbid(unsafe_code)]

mod aggregate;
mod attach;
mod bind;
mod body;
mod bounds;
mod builtin;
mod call;
mod cases;
mod chain;
pub mod codes;
mod constant_conditions;
mod consts;
mod container;
mod convert;
mod decl;
mod deploy;
mod effects;
mod expr;
mod extend;
mod field;
mod fold;
mod func;
mod graph;
mod ids;
pub mod index;
mod inspect;
mod instr;
mod layout;
mod lints;
mod loops;
mod missing_context;
mod names;
mod offload;
mod ops;
mod options;
mod packet;
mod pkt_gen;
mod probable_mistakes;
mod rules;
mod signal;
mod state;
mod steps;
mod stmt;
mod tables;
mod types;
mod unread_fields;
mod unused;
pub mod vocabulary;
mod wire;

use hawser_syntax::{Diagnostic, SourceMap, ast};

pub use builtin::{FIXED, Fixed};
pub use inspect::{Inspected, Visible, inspect};
use state::Checker;

/// Checks a program and lowers it.
///
/// `files[i]` is file number `i` of `sources`; the items of all files share one namespace. The diagnostics
/// are in order of place. The module is present only if there is no error among them.
#[must_use]
pub fn check(
    name: &str,
    sources: &SourceMap,
    files: &[ast::File],
) -> (Option<hawser_ir::Module>, Vec<Diagnostic>) {
    run(Checker::new(name, sources, files))
}

/// Checks a program with attachments, which are the last `attached` files. They are put into the chains of
/// the other files, and may not declare anything that lies in memory or on the wire. Each has a namespace of
/// its own, which takes precedence over the program's.
#[must_use]
pub fn check_attached(
    name: &str,
    sources: &SourceMap,
    files: &[ast::File],
    attached: usize,
) -> (Option<hawser_ir::Module>, Vec<Diagnostic>) {
    let mut checker = Checker::new(name, sources, files);
    checker.attached_from = files.len().checked_sub(attached).map(|first| first as u32);
    run(checker)
}

/// Checks a program as [`check`] does, and also returns its names. These are the declarations, the meaning of
/// each use, and the names that could stand at the place `asked`. Trees with errors are accepted.
#[must_use]
pub fn check_with_index(
    name: &str,
    sources: &SourceMap,
    files: &[ast::File],
    asked: Option<ast::Span>,
) -> (Option<hawser_ir::Module>, Vec<Diagnostic>, index::Index) {
    let mut checker = Checker::new(name, sources, files);
    checker.notes = Some(Box::new(index::Notes::about(asked)));
    pass(&mut checker);
    let index = checker.index();
    let (module, diagnostics) = checker.finish();
    (module, diagnostics, index)
}

fn run(mut checker: Checker<'_>) -> (Option<hawser_ir::Module>, Vec<Diagnostic>) {
    pass(&mut checker);
    checker.finish()
}

/// Runs all phases.
fn pass(checker: &mut Checker<'_>) {
    checker.lower();
    if checker.calls_are_acyclic() {
        checker.bind_chains();
        checker.deploy();
        checker.check_effects();
        checker.check_subjects();
        checker.find_creators();
        checker.check_ids();
    }
    checker.find_unused();
    checker.find_unread();
    checker.find_idle_contexts();
    checker.prove_offloads();
}

impl Checker<'_> {
    /// Runs the phases that handle one function at a time.
    fn lower(&mut self) {
        self.collect();
        self.constants();
        self.lay_out_memory();
        self.wire_formats();
        self.declare_functions();
        self.schedulers();
        self.deploy_contexts();
        self.rules();
        self.lower_functions();
        self.initial_values();
        self.invariants();
    }
}
